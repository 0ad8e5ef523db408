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
from src.types.messages import Text
from tests.doubles import ScriptedServer

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


@pytest.mark.parametrize(
    "store", [lambda c: c, lambda c: c.to_dict(), list, lambda c: Conversation.from_json(c.to_json())]
)
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


@pytest.mark.parametrize(
    "stored", [{}, {"type": "conversation"}, {"type": "conversation", "messages": [{"type": "no"}]}, 7]
)
def test_what_was_not_stored_by_it_is_refused(stored):
    with pytest.raises(ConfigError, match="stored conversation"):
        Conversation.from_dict(stored)


def test_one_that_is_set_is_a_conversation_and_keeps_the_system_prompt():
    with Server("http://127.0.0.1:9/v1") as server:
        agent = server.agent(system="Be brief.")
        agent.conversation = [UserMessage("Hi")]
        assert agent.conversation == [SystemMessage("Be brief."), UserMessage("Hi")]
        assert agent.usage == Usage()
