"""Views of messages: calls in order, and text for readers of text."""

import pytest

from src.types.messages import MalformedCall, Reasoning, Response, Text, ToolCall, ToolResult, Usage, UserMessage
from tests.each import check_rows

CALL, BROKEN = ToolCall("c1", "look", {}), MalformedCall("c2", "", "{", "no end")


def test_requested_calls_are_all_calls_in_order():
    response = Response((Text("a"), BROKEN, Reasoning("hm"), CALL, Text("b")))
    assert response.requested_calls == (BROKEN, CALL)
    assert (response.calls, response.malformed, response.text) == ((CALL,), (BROKEN,), "ab")


@check_rows("kind, value, text",
    [
        ("text", "plain", "plain"),
        ("error", "It failed.", "It failed."),
        ("data", {"ä": [1]}, '{"ä": [1]}'),
        ("multimodal", [{"type": "text", "text": "a"}, "b"], "a\nb"),
        ("multimodal", [{"type": "image", "mimeType": "image/png"}, {}], "[image of type image/png, not shown]\n[content of type unknown, not shown]"),
        ("multimodal", "not a list", "not a list"),
    ])  # fmt: skip
def test_a_result_has_a_text(kind, value, text):
    assert ToolResult("c", "look", kind, value).text == text


@pytest.mark.parametrize(
    ("kind", "is_denied", "failure"),
    [("text", False, ""), ("error", False, "error"), ("error", True, "denied")],
)
def test_a_call_that_was_denied_did_not_fail(kind, is_denied, failure):
    assert ToolResult("c", "look", kind, "no", is_denied=is_denied).failure == failure


TEXT, IMAGE = {"type": "text", "text": "Look:"}, {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
SHOWN = "Look:\n[image of type image/png, not shown]"


def test_the_text_of_a_user_message_follows_from_its_blocks():
    assert UserMessage("", (TEXT, IMAGE)).text == SHOWN
    assert UserMessage("another text", (TEXT, IMAGE)) == UserMessage("", (TEXT, IMAGE))


@check_rows(
    "first, second, both",
    [
        (UserMessage("a"), UserMessage("b"), UserMessage("a\n\nb")),
        (UserMessage("Look:"), UserMessage("", (IMAGE,)), UserMessage("", (TEXT, IMAGE))),
        (UserMessage("", (IMAGE,)), UserMessage("Look:"), UserMessage("", (IMAGE, TEXT))),
        (UserMessage(""), UserMessage("", (IMAGE,)), UserMessage("", (IMAGE,))),
    ],
)
def test_two_user_messages_become_one(first, second, both):
    assert first.merge(second) == both


def test_a_sum_of_usages_counts_thoughts():
    assert (Usage(1, 9, 0, thought_tokens=7) + Usage(1, 4, 0, thought_tokens=2)).thought_tokens == 9
