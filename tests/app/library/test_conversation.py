"""A conversation as data: stored, handed in, forked."""

import json

import pytest

from src import (
    Conversation,
    MalformedCall,
    Media,
    Response,
    Server,
    SystemMessage,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)
from src.errors import ConfigError
from src.tools.sdk.result import to_content_block
from src.types.call_results import NOT_PERMITTED, UNKNOWN
from src.types.messages import Text
from tests.doubles import ScriptedServer
from tests.each import check_rows

HELLO = [{"content": "Hi"}, {"finish": "stop", "usage": {"prompt_tokens": 5, "completion_tokens": 2}}]
EVERYTHING = Conversation(
    [
        SystemMessage("Be brief."),
        UserMessage("", (to_content_block("What is it?"), to_content_block(Media(b"\x89PNG", "image/png")))),
        Response((Text("Looking."), ToolCall("1", "look", {"at": ["a", 1, None]}), MalformedCall("2", "", "{", "cut"))),
        ToolResults((ToolResult("1", "look", "data", {"found": True}), ToolResult("2", "", "error", "cut"))),
        Response((Text("A dot."),), usage=Usage(10, 3), model="tiny"),
    ]
)


def test_it_is_the_same_from_json():
    assert Conversation.from_json(EVERYTHING.to_json()) == EVERYTHING
    assert Conversation.from_dict(json.loads(json.dumps(EVERYTHING.to_dict()))) == EVERYTHING


def test_its_last_answer_and_its_tokens():
    assert EVERYTHING.text == "A dot."
    assert EVERYTHING.usage == Usage(10, 3)


@check_rows("store", [lambda c: c, lambda c: c.to_dict(), list, lambda c: Conversation.from_json(c.to_json())])
def test_an_agent_goes_on_with_what_was_stored(store):
    with ScriptedServer(HELLO, HELLO) as scripted, Server(scripted.url) as server:
        first = server.agent(system="Be brief.")
        first.answer("one")
        second = server.agent(system="Another prompt.", conversation=store(first.conversation))
        second.answer("two")
    before, after = [request["messages"] for request in scripted.requests]
    assert after[: len(before)] == before
    assert [message["content"] for message in after] == ["Be brief.", "one", "Hi", "two"]
    assert second.usage == Usage(10, 4)


def test_a_conversation_that_is_handed_in_grows_and_a_fork_does_not():
    with ScriptedServer(HELLO) as scripted, Server(scripted.url) as server:
        kept = Conversation()
        other = kept.fork()
        server.agent(conversation=kept, system="").answer("one")
    assert [type(message) for message in kept] == [UserMessage, Response]
    assert other == []


@check_rows("stored", [{}, {"type": "conversation"}, {"type": "conversation", "messages": [{"type": "no"}]}, 7])
def test_what_was_not_stored_by_it_is_refused(stored):
    with pytest.raises(ConfigError, match="stored conversation"):
        Conversation.from_dict(stored)


def test_one_that_is_set_is_a_conversation_and_keeps_the_system_prompt():
    with Server("http://127.0.0.1:9/v1") as server:
        agent = server.agent(system="Be brief.")
        agent.conversation = [UserMessage("Hi")]
        assert agent.conversation == [SystemMessage("Be brief."), UserMessage("Hi")]
        assert agent.usage == Usage()


def test_another_version_is_refused():
    for stored in ({**EVERYTHING.to_dict(), "version": 99}, {"type": "conversation", "messages": []}):
        with pytest.raises(ConfigError, match="and only 1 can be read here"):
            Conversation.from_dict(stored)


def test_calls_that_have_no_result_are_answered_before_the_next_question():
    open_calls = Conversation(EVERYTHING[:3])
    with ScriptedServer(HELLO) as scripted, Server(scripted.url) as server:
        server.agent(conversation=open_calls).answer("Go on.")
    (request,) = scripted.requests
    roles = [message["role"] for message in request["messages"]]
    assert roles[-3:] != ["user", "assistant", "user"]
    assert json.dumps(request["messages"][-3:]).count(UNKNOWN) == 2
    assert isinstance(open_calls[3], ToolResults)


def test_what_is_printed_of_a_server_and_of_an_agent_tells_which_it_is():
    with ScriptedServer(HELLO) as scripted, Server(scripted.url) as server:
        agent = server.agent()
        assert repr(server) == f"<Server vllm at {scripted.url}>"
        run = agent.ask("Hi")
        assert repr(run) == "<Run: running or not begun>"
        run.finish()
        assert repr(run) == "<Run: answered>"
        assert repr(agent) == f"<Agent of tiny at {scripted.url}: 0 tools, 1 questions>"


def test_results_belong_to_the_calls_that_they_name():
    calls = Response((ToolCall("1", "look", {}), ToolCall("2", "send", {})))
    conversation = Conversation([UserMessage("Go."), calls, ToolResults((ToolResult("2", "send", "text", "sent"),))])
    conversation.close_open_calls()
    assert [(each.tool_call_id, each.value) for each in conversation[-1].results] == [
        ("1", NOT_PERMITTED), ("2", "sent"),
    ]  # fmt: skip
    assert len(conversation) == 3


def test_whatever_it_holds_its_json_can_be_written_to_a_file():
    stored = Conversation([UserMessage("\ud800 é")])
    assert Conversation.from_json(stored.to_json().encode()) == stored
    assert Conversation([UserMessage("é")]).to_json().count("é") == 1


def test_it_gives_json_values_only():
    call = ToolCall("1", "set", {"to": float("nan"), "all": (1, float("inf"))})
    stored = Conversation([UserMessage("Go."), Response((call,))])
    json.dumps(stored.to_dict(), allow_nan=False)
    (read,) = Conversation.from_json(stored.to_json())[1].calls
    assert read.arguments == {"to": None, "all": [1, None]}
