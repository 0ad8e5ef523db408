"""What a server does counts, and not what it accepts."""

import json

import pytest

from src.negotiation.call_path import CallPath
from src.providers.vllm import PROBE_TEXT
from src.types.messages import UserMessage
from tests.model.test_model import CALL_TEXT, HELLO, READ, Served
from tests.model.test_tokens import tokenize

TEXT = CallPath("text")
SAID = [{"content": CALL_TEXT}, {"finish": "stop"}]
WISH = "Answer this with a call of a tool."


def complete_with(*fields):
    """A server whose /v1/completions holds answers to these fields, and ignores others."""

    def complete(asked):
        obeys = any(field in asked for field in fields)
        return {"choices": [{"text": PROBE_TEXT if obeys else "Hello, how are you", "finish_reason": "stop"}]}

    return complete


class Versioned(Served):
    def __init__(self, *answers, **options):
        probed = {name: options.pop(name) for name in ("completions",) if name in options}
        super().__init__(*answers, **{"path": TEXT} | options)
        self.client.aside |= {"version": {"version": "0.32.0"}, **probed}

    def force(self):
        list(self.model.respond([UserMessage("go")], (READ,), "required"))
        return self.sent


def test_a_grammar_that_a_probe_was_held_to_asks_for_the_call_alone():
    served = Versioned(SAID, SAID, completions=complete_with("structured_outputs"))
    assert served.force()["messages"][-1]["content"] == "go"
    assert "structured_outputs" in served.sent
    served.force()
    assert served.client.asked_aside.count("completions") == 1
    assert served.model.path.grammar == "structured_outputs"


def test_of_a_server_that_ignores_the_field_the_call_is_asked_for_in_words():
    served = Versioned(SAID, completions=complete_with())
    asked = served.force()
    assert "structured_outputs" not in asked
    assert asked["messages"][-1]["content"] != "go"
    assert served.model.path.grammar == "none"


def test_the_old_names_of_the_fields_are_used_where_they_work():
    served = Versioned(SAID, completions=complete_with("guided_json"))
    asked = served.force()
    assert "structured_outputs" not in asked
    (call,) = asked["guided_json"]["anyOf"]
    assert call["properties"]["name"] == {"const": "read"}
    assert asked["messages"][-1]["content"] == "go"


def test_a_server_without_completions_is_probed_by_a_chat():
    probe = (200, {"choices": [{"message": {"content": PROBE_TEXT}, "finish_reason": "stop"}]})
    served = Versioned(probe, SAID)
    served.force()
    assert served.model.path.grammar == "structured_outputs"


def test_nothing_is_probed_before_an_answer_relies_on_it():
    served = Versioned(HELLO, completions=complete_with("structured_outputs"))
    served.ask()
    assert "completions" not in served.client.asked_aside


def test_what_was_learned_is_stored_and_read_again():
    path = TEXT.learn_grammar("guided_json")
    assert CallPath.from_dict(json.loads(json.dumps(path.to_dict()))) == path


class TestNative:
    """/tokenize may count for another model than the one that answers."""

    @pytest.mark.parametrize(("size", "shows"), [(100, False), (200, True), (5, True)])
    def test_a_prompt_without_its_tools_is_told_of_them_in_words(self, size, shows):
        first = b'data: {"choices": [], "prompt_token_ids":[%s]}\n\n' % b",".join([b"1"] * size)
        rest = b'data: {"choices": [{"delta": {"content": "Hello"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
        served = Served(first + rest, HELLO, tokenize=tokenize)
        assert served.ask().text == "Hello"
        assert served.model.path.template_shows_tools is shows
        assert ("## Available Tools" in served.sent["messages"][0]["content"]) is not shows
        assert served.model.path.mode == "native"
