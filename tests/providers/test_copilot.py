"""Requests to the Copilot CLI's sessions, and answers made of their events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.errors import ServerError, WireError
from src.providers.base import ChatRequest
from src.types.events import ReasoningDelta, TextDelta, ToolCallDelta
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)

from .doubles import codec, decoded

ADD = ToolDefinition("add", "Add", {"properties": {"a": {"type": "number"}}})
IMAGE: dict[str, Any] = {"type": "image", "data": "AAAA", "mimeType": "image/gif"}


def encode(*messages: Any, **request: Any) -> dict[str, Any]:
    return json.loads(codec("copilot").encode(ChatRequest("gpt", messages, **request)).body)


def make_event(kind: str, **data: Any) -> bytes:
    return b"data: %s\n\n" % json.dumps({"type": kind, "data": data}).encode()


IDLE = make_event("session.idle")


def test_a_request_is_the_sessions_settings_and_the_messages_beside_the_system_prompt() -> None:
    sent = encode(SystemMessage("Be brief."), UserMessage("Hi"), tools=[ADD], max_tokens=9, extra={"x": 1})
    session = sent["session"]
    assert sent["messages"] == [{"role": "user", "text": "Hi", "attachments": []}]
    assert session["systemMessage"] == {"mode": "replace", "content": "Be brief."}
    assert session["tools"][0]["parameters"] == {"type": "object", **ADD.parameters}
    assert (session["model"], session["streaming"], session["availableTools"]) == ("gpt", True, ["custom:*"])
    assert (session["provider"], session["x"]) == ({"maxOutputTokens": 9}, 1)
    assert not any(session[name] for name in ("enableSkills", "enableFileHooks", "enableConfigDiscovery"))


def test_where_no_call_may_come_no_tool_is_on_offer() -> None:
    session = encode(UserMessage("Hi"), tools=[ADD], tool_choice="none")["session"]
    assert (session["tools"], session["availableTools"]) == ([], [])


def test_images_of_the_user_and_of_results_go_beside_the_text() -> None:
    blocks = {"type": "text", "text": "What is this?"}, IMAGE
    result = ToolResult("c1", "look", "multimodal", [{"type": "text", "text": "A picture"}, IMAGE])
    asked, given = encode(UserMessage("", blocks), ToolResults((result,)))["messages"]
    attached = {"data": "AAAA", "mimeType": "image/gif"}
    assert (asked["text"], asked["attachments"]) == ("What is this?", [{**attached, "type": "blob"}])
    assert given["results"][0]["result"] == {
        "textResultForLlm": "A picture",
        "resultType": "success",
        "binaryResultsForLlm": [{**attached, "type": "image"}],
    }


@pytest.mark.parametrize(("is_denied", "kind"), [(False, "failure"), (True, "denied")])
def test_a_result_says_whether_the_call_failed_or_was_denied(is_denied: bool, kind: str) -> None:
    result = ToolResult("c1", "add", "error", "No.", is_denied=is_denied)
    (given,) = encode(ToolResults((result,)))["messages"]
    assert given["results"] == [{"id": "c1", "result": {"textResultForLlm": "No.", "resultType": kind}}]


def test_an_answer_is_told_with_its_calls() -> None:
    response = Response((Reasoning("hm"), Text("See."), ToolCall("c1", "add", {"a": 1})), id="m1")
    (told,) = encode(response)["messages"]
    assert told == {
        "role": "assistant",
        "text": 'See.\nCalls add: {"a":1}',
        "id": "m1",
        "answer": "See.",
        "calls": ["c1"],
    }


def test_events_become_deltas_and_blocks_in_their_order() -> None:
    events, response = decoded(
        codec("copilot"),
        [
            make_event("assistant.turn_start"),
            make_event("assistant.reasoning_delta", deltaContent="Hm."),
            make_event("assistant.message_delta", deltaContent="Let me"),
            make_event("assistant.message_delta", deltaContent=" see."),
            make_event("assistant.tool_call_delta", toolCallId="c1", toolName="add", inputDelta='{"a":'),
            make_event("assistant.tool_call_delta", toolCallId="c2", toolName="add", inputDelta='{"a"'),
            make_event("assistant.tool_call_delta", toolCallId="c1", toolName="add", inputDelta="1}"),
            make_event("assistant.usage", inputTokens=10, outputTokens=5, cacheReadTokens=8),
            make_event(
                "assistant.message",
                messageId="m1",
                model="gpt-5",
                content="Let me see.",
                reasoningText="Hm.",
                toolRequests=[{"toolCallId": "c1", "name": "add"}, {"toolCallId": "c2", "name": "add"}],
            ),
        ],
    )
    assert events[:3] == [ReasoningDelta("Hm."), TextDelta("Let me"), TextDelta(" see.")]
    assert events[3:] == [
        ToolCallDelta(0, "c1", "add", '{"a":'),
        ToolCallDelta(1, "c2", "add", '{"a"'),
        ToolCallDelta(0, "c1", "add", "1}"),
    ]
    *blocks, broken = response.content
    assert blocks == [Reasoning("Hm."), Text("Let me see."), ToolCall("c1", "add", {"a": 1})]
    assert isinstance(broken, MalformedCall) and "not valid JSON" in broken.reason
    assert (response.stop_reason, response.model, response.id) == ("tool_use", "gpt-5", "m1")
    assert response.usage == Usage(10, 5, 8)


def test_a_message_that_did_not_stream_is_taken_whole() -> None:
    call = {"toolCallId": "c1", "name": "add", "arguments": {"a": 1}}
    whole = make_event("assistant.message", content="See.", reasoningText="Hm.", toolRequests=[call])
    events, response = decoded(codec("copilot"), [whole])
    assert events == [ReasoningDelta("Hm."), TextDelta("See."), ToolCallDelta(0, "c1", "add", '{"a": 1}')]
    assert response.content == (Reasoning("Hm."), Text("See."), ToolCall("c1", "add", {"a": 1}))


def test_an_answer_that_the_cli_has_continued_is_one_and_its_tokens_are_added() -> None:
    pieces = [
        make_event("assistant.message_delta", deltaContent="One, "),
        make_event("assistant.usage", inputTokens=10, outputTokens=5),
        make_event("assistant.message_delta", deltaContent="two."),
        make_event("assistant.usage", inputTokens=20, outputTokens=3),
        make_event("assistant.message", content="two.", toolRequests=[]),
    ]
    _, response = decoded(codec("copilot"), [*pieces, IDLE])
    assert (response.text, response.stop_reason, response.usage) == ("One, two.", "end_turn", Usage(20, 8, 0))


def test_tokens_that_the_server_did_not_count_are_not_known() -> None:
    counted = make_event("assistant.usage", inputTokens=0, outputTokens=0)
    _, response = decoded(codec("copilot"), [counted, make_event("assistant.message", content="Hi"), IDLE])
    assert response.usage is None


def test_the_error_of_a_session_is_raised_unless_an_answer_came_before_it() -> None:
    failed = make_event("session.error", message="engine died")
    with pytest.raises(ServerError, match="engine died"):
        decoded(codec("copilot"), [failed])
    _, response = decoded(codec("copilot"), [make_event("assistant.message", content=""), failed, IDLE])
    assert response.content == ()


def test_an_answer_that_is_no_event_is_refused() -> None:
    with pytest.raises(WireError, match="no event"):
        decoded(codec("copilot"), [b'{"id": 1}'], "application/json")
