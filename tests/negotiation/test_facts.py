"""What is known of servers is shared, and no change to it is lost."""

import threading

import pytest

from src.errors import ServerError
from src.negotiation import CallPath, FactStore
from src.negotiation.call_path import Reason
from src.negotiation.facts import FactTable, ServedModel
from src.types.events import Notice
from src.types.messages import ToolDefinition, UserMessage
from tests.doubles import ScriptedClient, make_model

READ = ToolDefinition("read", "Read", {"type": "object", "properties": {}})
HELLO = [{"content": "Hello"}, {"finish": "stop"}]
NO_FIELD = (400, {"error": {"message": "Extra inputs are not permitted: return_token_ids"}})
NO_PARSER = (400, {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice'}})
WRONG = (400, {"error": {"message": "temperature must be below 2"}})
MODELS = {"data": [{"id": "tiny", "max_model_len": 4096}]}


def ask(model):
    return list(model.respond([UserMessage("go")], [READ]))


class TestFactTable:
    def test_a_change_is_made_of_what_the_one_before_made(self):
        table = FactTable[str, tuple[int, ...]](())
        assert table.update("a", lambda old: (*old, 1)) == (1,)
        assert table.update("a", lambda old: (*old, 2)) == table.get("a") == (1, 2)
        assert table.get("b") == ()

    def test_threads_lose_no_change(self):
        table = FactTable[str, tuple[int, ...]](())

        def add(first):
            for number in range(first, first + 200):
                table.update("a", lambda old, number=number: (*old, number))

        threads = [threading.Thread(target=add, args=(first,)) for first in (0, 1000, 2000, 3000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(table.get("a"))) == 800


def test_a_store_that_is_cleared_knows_nothing():
    facts, fresh = FactStore(), FactStore()
    tables = [name for name, table in vars(facts).items() if isinstance(table, FactTable)]
    for name in tables:
        getattr(facts, name).update("a", lambda _: "known")
    facts.clear()
    assert all(getattr(facts, name).get("a") == getattr(fresh, name).get("a") for name in tables)


class TestSharing:
    def test_what_one_model_learns_another_on_the_same_server_knows(self):
        facts = FactStore()
        first, second = ScriptedClient(NO_FIELD, HELLO), ScriptedClient(HELLO)
        ask(make_model(first, "tiny", facts=facts))
        ask(make_model(second, "tiny", facts=facts))
        assert "return_token_ids" not in second.requests[0]

    def test_of_another_model_it_is_not_assumed(self):
        facts = FactStore()
        ask(make_model(ScriptedClient(NO_FIELD, HELLO), "tiny", facts=facts))
        other = ScriptedClient(HELLO)
        ask(make_model(other, "large", facts=facts))
        assert "return_token_ids" in other.requests[0]

    def test_a_turn_that_fails_takes_back_nothing_that_another_learned_meanwhile(self):
        facts = FactStore()
        failing, other = (
            make_model(ScriptedClient(NO_PARSER, WRONG), "tiny", facts=facts),
            ScriptedClient(NO_FIELD, HELLO),
        )
        turn = failing.respond([UserMessage("go")], [READ])
        assert isinstance(next(turn), Notice)
        ask(make_model(other, "tiny", facts=facts))
        with pytest.raises(ServerError, match="temperature"):
            list(turn)
        assert failing.path == CallPath(disabled_fields=("return_token_ids",))

    def test_a_downgrade_that_did_not_help_is_not_kept(self):
        model = make_model(ScriptedClient(NO_PARSER, WRONG), "tiny")
        with pytest.raises(ServerError, match="temperature"):
            ask(model)
        assert model.path == CallPath()

    def test_a_mode_that_one_user_chose_is_no_other_ones(self):
        facts = FactStore()
        chosen, other = (make_model(ScriptedClient(HELLO), "tiny", facts=facts) for _ in range(2))
        chosen.path = chosen.path.choose("text")
        ask(chosen)
        assert (chosen.path.mode, other.path.mode) == ("text", "native")

    def test_the_models_are_asked_for_once(self):
        facts, asked = FactStore(), []
        for _ in range(3):
            client = ScriptedClient(HELLO, models=lambda _: asked.append(1) or MODELS)
            assert make_model(client, "tiny", facts=facts).context_length == 4096
        assert len(asked) == 1


SERVED = ServedModel("http://server", "tiny", "")


def keep(path):
    facts = FactStore()
    facts.keep_path(SERVED, path)
    return facts.paths.get(SERVED)


def test_what_a_path_has_learned_is_kept_for_others():
    assert keep(CallPath(alternate=True)).alternate


def test_of_a_path_for_one_turn_nothing_is_kept():
    assert keep(CallPath(alternate=True).for_text_turn) == CallPath()


def test_of_a_conversation_s_own_path_its_mode_is_not_kept():
    assert keep(CallPath("text", Reason.REFUSED_HERE, alternate=True)) == CallPath(alternate=True)
