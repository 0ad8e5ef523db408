"""Earlier thoughts of a model: when they go back to it, and to whom."""

import itertools
import json

import pytest

from src.negotiation import CallPath, FactStore
from src.types.events import Completed, PrefixKept
from src.types.messages import Reasoning, Response, Text, ToolCall, ToolResult, ToolResults, UserMessage
from tests.doubles import ScriptedClient, make_model, stream_event
from tests.model.test_model import READ

THOUGHT = "The file tells."
THINKING = [
    {"reasoning": THOUGHT},
    {"tool_calls": [{"index": 0, "id": "n1", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}]},
    {"finish": "tool_calls"},
]
HELLO = [{"content": "Hello."}, {"finish": "stop"}]
RESULTS = ToolResults((ToolResult("n1", "read", "text", "hello"),))


def has_thought(body):
    return any(each.get("reasoning") for each in body["messages"])


def count_with(*, shows):
    """A server's /tokenize: whether its template shows thoughts."""

    def count(asked):
        return {"tokens": [1] * (9 if shows and has_thought(asked) else 5), "max_model_len": 9000}

    return count


class Talk:
    """Two turns of a conversation: a call after a thought, and what follows its result."""

    def __init__(self, *answers, **options):
        aside = {name: options.pop(name) for name in ("tokenize", "detokenize") if name in options}
        self.client = ScriptedClient(*(answers or (THINKING, HELLO)), **aside)
        ids = (f"made{number}" for number in itertools.count())
        self.model = make_model(self.client, "tiny", new_id=lambda: next(ids), **options)
        self.messages = [UserMessage("Read a.txt.")]

    def ask(self):
        *_, completed = self.model.respond(self.messages, [READ])
        assert isinstance(completed, Completed)
        self.messages.append(completed.response)
        return completed.response

    def go_on(self):
        self.ask()
        self.messages.append(RESULTS)
        self.ask()
        return self

    @property
    def sent(self):
        """The first answer, as the last request holds it."""
        return next(each for each in self.client.requests[-1]["messages"] if each["role"] == "assistant")


def test_a_thought_goes_back_before_the_result_under_both_names():
    talk = Talk().go_on()
    assert (talk.sent["reasoning"], talk.sent["reasoning_content"]) == (THOUGHT, THOUGHT)


def test_a_request_extends_the_one_before():
    first, second = Talk().go_on().client.requests
    assert second["messages"][: len(first["messages"])] == first["messages"]


@pytest.mark.parametrize("mode", ["native", "template", "text"])
def test_a_thought_goes_back_on_every_path(mode):
    assert Talk(path=CallPath(mode)).go_on().sent["reasoning"] == THOUGHT


def test_a_template_that_shows_thoughts_is_asked_once_and_gets_them():
    talk = Talk(THINKING, HELLO, HELLO, tokenize=count_with(shows=True)).go_on()
    asked = talk.client.asked_aside.count("tokenize")
    talk.messages.append(UserMessage("Thanks."))
    talk.ask()
    assert talk.sent["reasoning"] == THOUGHT
    assert talk.client.asked_aside.count("tokenize") == asked
    assert talk.model.core.thoughts == "sent back: the chat template shows them"


def test_a_template_that_shows_no_thoughts_gets_none_once_a_chat_confirms_it():
    used = [{"content": "x"}, {"finish": "length", "usage": {"prompt_tokens": 5, "completion_tokens": 1}}]
    talk = Talk(THINKING, used, used, HELLO, tokenize=count_with(shows=False)).go_on()
    assert "reasoning" not in talk.sent
    assert talk.model.core.thoughts == "not sent back: the chat template does not show them"


def test_a_server_that_counts_with_another_template_than_it_answers_with_gets_thoughts():
    sizes = [
        [{"content": "x"}, {"finish": "length", "usage": {"prompt_tokens": n, "completion_tokens": 1}}] for n in (9, 5)
    ]
    talk = Talk(THINKING, *sizes, HELLO, tokenize=count_with(shows=False)).go_on()
    assert talk.sent["reasoning"] == THOUGHT


def test_what_the_template_shows_is_remembered_for_other_conversations():
    facts = FactStore()
    Talk(tokenize=count_with(shows=True), facts=facts).go_on()
    other = Talk(tokenize=count_with(shows=True), facts=facts)
    assert other.model.path.shows_thoughts is True


@pytest.mark.parametrize(("policy", "shows", "goes"), [("never", True, False), ("always", False, True)])
def test_the_policy_is_the_users(policy, shows, goes):
    talk = Talk(tokenize=count_with(shows=shows), send_thoughts=policy).go_on()
    assert has_thought(talk.client.requests[-1]) is goes


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_a_server_that_refuses_the_field_gets_no_thoughts_from_then_on(name):
    refusal = 422, {"error": {"message": f"messages.1.{name}: Extra inputs are not permitted"}}
    talk = Talk(THINKING, refusal, HELLO, HELLO).go_on()
    assert not has_thought(talk.client.requests[-1])
    talk.messages.append(UserMessage("Thanks."))
    talk.ask()
    assert not has_thought(talk.client.requests[-1])
    assert talk.model.core.thoughts == "not sent back: the server refuses them"


def test_a_refusal_of_an_effort_is_about_no_thought():
    refusal = 400, {"error": {"message": "reasoning_effort: Extra inputs are not permitted"}}
    talk = Talk(THINKING, refusal, HELLO)
    with pytest.raises(Exception, match="reasoning_effort"):
        talk.go_on()


class TestAnotherModel:
    @pytest.mark.parametrize(("name", "goes"), [("tiny", True), ("large", False)])
    def test_gets_none_of_the_thoughts(self, name, goes):
        talk = Talk().go_on()
        client = ScriptedClient(HELLO)
        list(make_model(client, name).respond(talk.messages[:3], [READ]))
        assert has_thought(client.requests[0]) is goes

    def test_on_another_server_gets_none_either(self):
        talk = Talk().go_on()
        client = ScriptedClient(HELLO)
        client.base_url = "http://elsewhere/v1"
        list(make_model(client, "tiny").respond(talk.messages[:3], [READ]))
        assert not has_thought(client.requests[0])

    def test_gets_those_that_a_program_wrote_itself(self):
        client = ScriptedClient(HELLO)
        call = ToolCall("n1", "read", {"path": "a.txt"})
        list(
            make_model(client, "tiny").respond([UserMessage("go"), Response((Reasoning("Hm."), call)), RESULTS], [READ])
        )
        assert has_thought(client.requests[0])

    def test_sees_the_same_messages_after_the_journal(self):
        talk = Talk().go_on()
        stored = json.loads(json.dumps(talk.messages[1].to_dict()))
        assert Response.from_dict(stored) == talk.messages[1]


def test_an_answer_of_thoughts_alone_goes_back():
    talk = Talk(HELLO)
    talk.messages += [Response((Reasoning("Hm."),)), UserMessage("And?")]
    talk.ask()
    assert [each["role"] for each in talk.client.requests[0]["messages"][-3:]] == ["user", "assistant", "user"]


def test_merged_roles_keep_the_thoughts():
    talk = Talk(HELLO, path=CallPath("text", alternate=True))
    talk.messages += [
        Response((Reasoning("One."), Text("a"))),
        Response((Reasoning("Two."), Text("b"))),
        UserMessage("c"),
    ]
    talk.ask()
    assert talk.sent == {
        "role": "assistant",
        "content": "a\n\nb",
        "reasoning": "One.Two.",
        "reasoning_content": "One.Two.",
    }


class TestTheMeter:
    """What of a turn the next prompt begins with, by the server's own token ids."""

    def ask(self, prompts, between=lambda talk: None):
        def answer(ids, *deltas):
            first = b'data: {"choices": [], "prompt_token_ids":[%s]}\n\n' % ids
            return first + b"".join(map(stream_event, deltas)) + b"data: [DONE]\n\n"

        said = {"content": "Hello.", "ids": [7, 8]}
        talk = Talk(*(answer(ids, said, {"finish": "stop"}) for ids in prompts))
        told = []
        for _ in prompts:
            told += [each for each in talk.model.respond(talk.messages, [READ]) if isinstance(each, PrefixKept)]
            talk.messages += [Response((Text("Hello."),)), UserMessage("Go on.")]
            between(talk)
        return told, talk

    def test_tells_that_a_prompt_begins_with_all_of_the_last_turn(self):
        told, talk = self.ask([b"1,2", b"1,2,7,8,3"])
        assert told == [PrefixKept(4, 4)]
        assert talk.model.core.kept == PrefixKept(4, 4)

    def test_names_the_answer_where_the_server_writes_it_otherwise(self):
        assert self.ask([b"1,2", b"1,2,7,9,3"])[0] == [PrefixKept(3, 4, "answer")]

    def test_names_an_edit_and_its_place(self):
        def edit(talk):
            talk.messages[0] = UserMessage("Something else.")

        told, _ = self.ask([b"1,2", b"5,2,7,8"], edit)
        assert [(each.cause, each.tokens) for each in told] == [("edit", 0)]
