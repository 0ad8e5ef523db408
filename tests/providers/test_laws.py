"""What holds of every codec, whatever a server sends: chunking changes nothing, and only errors of ours come out."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from src.errors import BotError, ServerError, StreamCut, WireError
from src.providers.base import ChatRequest, decode
from src.providers.server_errors import read_model_names, read_refusal
from src.providers.table import PROVIDERS
from src.types.events import TextDelta
from src.types.messages import Response, SystemMessage, ToolCall, ToolDefinition, ToolResult, ToolResults, UserMessage
from tests.each import check_rows

from .doubles import codec, decoded

OPENAI, ANTHROPIC, GEMINI, COPILOT = "openai", "anthropic", "gemini", "copilot"
CODECS = (OPENAI, ANTHROPIC, GEMINI, COPILOT)

# Words that the decoders look for: what is made of them gets further than what is made of any.
KEYS = st.sampled_from(
    [
        "choices",
        "delta",
        "message",
        "content",
        "tool_calls",
        "index",
        "id",
        "function",
        "name",
        "arguments",
        "finish_reason",
        "usage",
        "model",
        "refusal",
        "reasoning",
        "prompt_tokens",
        "type",
        "content_block",
        "text",
        "thinking",
        "input",
        "partial_json",
        "signature",
        "data",
        "stop_reason",
        "error",
        "candidates",
        "parts",
        "functionCall",
        "args",
        "thought",
        "thoughtSignature",
        "finishReason",
        "finishMessage",
        "usageMetadata",
        "promptTokenCount",
        "promptFeedback",
        "blockReason",
        "modelVersion",
        "role",
        "deltaContent",
        "toolRequests",
        "toolCallId",
        "inputDelta",
        "inputTokens",
        "reasoningText",
    ]
)
WORDS = st.sampled_from(
    [
        "assistant.message",
        "assistant.message_delta",
        "assistant.tool_call_delta",
        "session.idle",
        "message_start",
        "content_block_start",
        "content_block_delta",
        "message_delta",
        "message_stop",
        "ping",
        "error",
        "text_delta",
        "thinking_delta",
        "input_json_delta",
        "signature_delta",
        "tool_use",
        "text",
        "thinking",
        "redacted_thinking",
        "STOP",
        "MAX_TOKENS",
        "MALFORMED_FUNCTION_CALL",
        "stop",
        "length",
        "tool_calls",
        "{}",
        "null",
        "�",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | WORDS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6)


def stream(events):
    return b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def outcome(provider, chunks, content_type="text/event-stream"):
    """What comes out, an error by its words, so that two runs can be compared."""
    try:
        return repr(decoded(codec(provider), chunks, content_type))
    except (WireError, ServerError, StreamCut) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize("provider", CODECS)
class TestAnyAnswer:
    @given(st.binary(max_size=200))
    def test_any_bytes_are_an_answer_or_an_error_of_ours(self, provider, data):
        outcome(provider, [data])
        outcome(provider, [data], "application/json")

    @given(st.lists(VALUES, max_size=4))
    @example([{"usage": 5, "choices": [{"finish_reason": {}}]}])
    @example([{"choices": None, "error": "\ud800"}])
    @example(
        [{"choices": [{"delta": {"tool_calls": [{"index": 1.5, "function": {"arguments": {"a": float("nan")}}}]}}]}]
    )
    def test_any_json_is_an_answer_or_an_error_of_ours(self, provider, events):
        outcome(provider, [stream(events)])
        for event in events:
            outcome(provider, [json.dumps(event).encode()], "application/json")

    @given(st.lists(OBJECTS, max_size=4), st.data())
    def test_chunking_changes_nothing(self, provider, events, data):
        whole = stream(events)
        cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
        chunks = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
        assert outcome(provider, chunks) == outcome(provider, [whole])

    def test_nesting_beyond_measure_is_an_error_of_ours(self, provider):
        deep = b"[" * 100_000
        assert outcome(provider, [b"data: " + deep + b"\n\n"]).startswith("WireError")
        assert outcome(provider, [deep], "application/json").startswith("WireError")

    def test_a_page_is_no_answer(self, provider):
        with pytest.raises(WireError, match="text/html"):
            decoded(codec(provider), [b"<html><title>Sign in</title>"], "text/html; charset=utf-8")


@given(st.binary(max_size=80) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_list_of_models_is_one_or_an_error_of_ours(body):
    try:
        assert all(isinstance(name, str) for name in read_model_names(body))
    except BotError as error:
        assert isinstance(error, WireError)


TEXTS = st.text(max_size=8) | st.just("a\ud800b")
RESULTS = st.builds(ToolResult, TEXTS, TEXTS, st.sampled_from(["text", "data", "error", "multimodal"]), VALUES | TEXTS)
MESSAGES = st.one_of(
    st.builds(SystemMessage, TEXTS),
    st.builds(UserMessage, TEXTS),
    st.builds(Response, st.tuples(st.builds(ToolCall, TEXTS, TEXTS, OBJECTS))),
    st.builds(ToolResults, st.tuples(RESULTS)),
)


@pytest.mark.parametrize("provider", CODECS)
class TestAnyRequest:
    @given(st.lists(MESSAGES, max_size=6), OBJECTS)
    def test_any_conversation_is_valid_json(self, provider, messages, parameters):
        tool = ToolDefinition("read", "Read.", parameters)
        sent = codec(provider).encode(ChatRequest("any", messages, [tool]))
        json.loads(sent.body, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    def test_the_beginning_is_the_same_to_the_byte_from_turn_to_turn(self, provider):
        ours = codec(provider)
        conversation = [SystemMessage("s"), UserMessage("a"), Response((ToolCall("c", "read", {"b": 1, "a": 2}),))]
        first = ours.encode(ChatRequest("any", conversation)).body
        more = [*conversation, ToolResults((ToolResult("c", "read", "text", "x"),)), UserMessage("b")]
        second = ours.encode(ChatRequest("any", more)).body
        alone = first[: first.index(b"]}]" if provider != OPENAI else b"}}]}]") + 2]
        assert len(alone) > 100 and second.startswith(alone)
        assert codec(provider).encode(ChatRequest("any", more)).body == second

    def test_each_message_is_encoded_once(self, provider):
        ours, arguments = codec(provider), {"path": "a"}
        request = ChatRequest("any", [UserMessage("Hello"), Response((ToolCall("c", "read", arguments),))])
        first = ours.encode(request).body
        arguments["path"] = "b"  # what is looked at again would show it
        assert ours.encode(request).body == first


def test_there_is_a_codec_for_each_provider_that_can_be_configured():
    from src.config import BASE_URLS

    assert PROVIDERS.keys() == BASE_URLS.keys()


@check_rows("breaks", [b'data: {"error": {"message": "engine died"}}\n\n', b"data: {oops\n\n"])
@check_rows(
    "provider, said",
    [
        (OPENAI, b'data: {"choices": [{"delta": {"content": "Hi"}}]}\n\n'),
        (
            ANTHROPIC,
            b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Hi"}}\n\n',
        ),
        (GEMINI, b'data: {"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}\n\n'),
    ],
)
def test_what_came_in_one_piece_with_an_error_is_said_before_it_is_raised(provider, said, breaks):
    heard = []
    with pytest.raises((ServerError, WireError)):
        for events in decode(codec(provider).make_decoder("text/event-stream"), [said + breaks]):
            heard += [event for event in events if isinstance(event, TextDelta)]
    assert heard == [TextDelta("Hi")]


@given(st.integers(300, 599), st.binary(max_size=80) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_any_refusal_is_a_server_error(status, body):
    assert isinstance(read_refusal(status, body), ServerError)
