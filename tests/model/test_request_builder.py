"""A request is built from what is new since the one before, and is the same as one that is built from nothing."""

from src.model.request_builder import ModelOptions, RequestBuilder
from src.negotiation.call_path import CallPath
from src.types.messages import (
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.each import check_rows
from tests.providers.doubles import codec

READ = ToolDefinition("read", "Read", {"type": "object", "properties": {"path": {"type": "string"}}})
ADD = ToolDefinition("add", "Add", {"type": "object", "properties": {}})
CONVERSATION = [
    SystemMessage("Be brief."),
    UserMessage("What is in a?"),
    Response((Text("I look."), ToolCall("c1", "read", {"path": "a"})), "tool_use"),
    ToolResults((ToolResult("c1", "read", "text", "alpha"),)),
    Response((ToolCall("c2", "read", {"path": "b"}, "text"),), "tool_use"),
    ToolResults((ToolResult("c2", "read", "text", "beta"),)),
    Response((Text("Two words."),)),
    UserMessage("And now?"),
]
PATHS = [
    CallPath("native"),
    CallPath("text"),
    CallPath("template"),
    CallPath("native", alternate=True, fold_system=True),
    CallPath("native", text_only=True),
]


def make_builder(provider="vllm"):
    return RequestBuilder(codec(provider), ModelOptions())


def encode(builder, messages, path, tools=(READ,)):
    return builder.encode(builder.build("tiny", messages, tools, path, None)).body


@check_rows("provider", ["vllm", "anthropic", "gemini"])
@check_rows("path", PATHS)
def test_each_turn_of_a_conversation_is_sent_as_if_it_were_the_first(path, provider):
    builder = make_builder(provider)
    for end in range(1, len(CONVERSATION) + 1):
        assert encode(builder, CONVERSATION[:end], path) == encode(make_builder(provider), CONVERSATION[:end], path)


def test_each_turn_is_sent_as_if_it_were_the_first_where_its_path_changes_and_messages_are_shortened_or_taken_back():
    builder, shorter = make_builder(), [*CONVERSATION]
    shorter[3] = ToolResults((ToolResult("c1", "read", "text", "[left out]"),))
    for path in [*PATHS, *PATHS]:
        for messages in (CONVERSATION[:5], CONVERSATION, shorter, CONVERSATION[:2], CONVERSATION[:6]):
            assert encode(builder, messages, path) == encode(make_builder(), messages, path)


def test_a_request_that_is_asked_for_twice_is_built_once():
    builder = make_builder()
    assert builder.build("tiny", CONVERSATION, (READ,), CallPath(), None) is builder.build(
        "tiny", [*CONVERSATION], [READ], CallPath(), None
    )


def test_what_a_program_changes_in_its_own_lists_is_seen():
    builder, messages, tools = make_builder(), [*CONVERSATION], [READ]
    encode(builder, messages, CallPath(), tools)
    messages.append(UserMessage("More."))
    tools.append(ADD)
    body = encode(builder, messages, CallPath(), tools)
    assert b"More." in body
    assert b'"name":"add"' in body


@check_rows(
    "provider, is_listed",
    [("vllm", True), ("openai", True), ("anthropic", False), ("gemini", False), ("vertex", False)],
)
def test_the_system_prompt_lists_no_tools_where_the_api_itself_shows_them(provider, is_listed):
    native, text = (encode(make_builder(provider), CONVERSATION[:2], CallPath(mode)) for mode in ("native", "text"))
    assert (b"## Available Tools" in native) == is_listed
    assert b"## Available Tools" in text
