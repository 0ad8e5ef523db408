"""The table of mappings between the neutral format and each provider's, a test a cell."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from src.providers.base import ChatRequest
from src.types.messages import Named, Response, Text, ToolCall, ToolDefinition, ToolResult, ToolResults, UserMessage
from tests.each import check_rows

from .doubles import codec, decoded

PROVIDERS = ("openai", "anthropic", "gemini")
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = ToolDefinition("read", "Read a file.", PARAMETERS)
STRICT = ToolDefinition("read", "Read a file.", PARAMETERS, strict=True)
PIXEL = "iVBORw0KGgo="
CALL = ToolCall("call1", "read", {"path": "a"})


HELLO = (UserMessage("Hello"),)


def request(provider, messages=HELLO, **fields):
    return json.loads(codec(provider).encode(ChatRequest("any", messages, **fields)).body)


DEFINITIONS = {
    "openai": [
        {
            "type": "function",
            "function": {"name": "read", "description": "Read a file.", "parameters": PARAMETERS, "strict": True},
        }
    ],
    "anthropic": [{"name": "read", "description": "Read a file.", "input_schema": PARAMETERS}],
    "gemini": [
        {
            "functionDeclarations": [
                {
                    "name": "read",
                    "description": "Read a file.",
                    "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}, "required": ["path"]},
                }
            ]
        }
    ],
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_definition(provider):
    assert request(provider, tools=[STRICT])["tools"] == DEFINITIONS[provider]


def test_an_anthropic_definition_is_always_of_an_object():
    (sent,) = request("anthropic", tools=[ToolDefinition("now", "The time.", {})])["tools"]
    assert sent["input_schema"] == {"type": "object"}


def test_a_gemini_declaration_without_parameters_has_none():
    (sent,) = request("gemini", tools=[ToolDefinition("now", "The time.", {"type": "object", "properties": {}})])[
        "tools"
    ]
    assert sent["functionDeclarations"] == [{"name": "now", "description": "The time."}]


CHOICES = {
    "openai": {
        "auto": "auto",
        "none": "none",
        "required": "required",
        "read": {"type": "function", "function": {"name": "read"}},
    },
    "anthropic": {
        "auto": {"type": "auto"},
        "none": {"type": "none"},
        "required": {"type": "any"},
        "read": {"type": "tool", "name": "read"},
    },
    "gemini": {
        "auto": {"mode": "AUTO"},
        "none": {"mode": "NONE"},
        "required": {"mode": "ANY"},
        "read": {"mode": "ANY", "allowedFunctionNames": ["read"]},
    },
}


def choice_in(provider, sent):
    return sent["toolConfig"]["functionCallingConfig"] if provider == "gemini" else sent["tool_choice"]


@check_rows(
    "provider, choice, expected",
    [(provider, choice, expected) for provider, row in CHOICES.items() for choice, expected in row.items()],
)
def test_choice(provider, choice, expected):
    tool_choice = Named("read") if choice == "read" else choice
    assert choice_in(provider, request(provider, tools=[READ], tool_choice=tool_choice)) == expected


@check_rows("name", ["auto", "none", "required"])
@check_rows("provider", CHOICES)
def test_a_tool_that_is_named_as_a_choice_can_be_forced(provider, name):
    forced = choice_in(provider, request(provider, tools=[READ], tool_choice=Named(name)))
    expected = json.dumps(CHOICES[provider]["read"]).replace('"read"', f'"{name}"')
    assert forced == json.loads(expected)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_without_tools_there_are_neither_definitions_nor_a_choice(provider):
    assert not {"tools", "tool_choice", "toolConfig"} & request(provider).keys()


def openai(content):
    return {"role": "tool", "tool_call_id": "call1", "content": content}


def anthropic(content, **more):
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call1", "content": content, **more}]}


def gemini(response):
    return {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": response}}]}


BLOCKS = [{"type": "text", "text": "A red dot."}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}]

RESULTS = {  # kind and value -> what each provider is sent
    "text": (
        ("text", "buy milk"),
        openai("buy milk"),
        anthropic("buy milk"),
        gemini({"output": "buy milk"}),
    ),
    "data, an object": (
        ("data", {"lines": [1, None, "ä"]}),
        openai('{"lines":[1,null,"ä"]}'),
        anthropic('{"lines":[1,null,"ä"]}'),
        gemini({"lines": [1, None, "ä"]}),
    ),
    "data, a list": (
        ("data", [1, 2]),
        openai("[1,2]"),
        anthropic("[1,2]"),
        gemini({"output": [1, 2]}),
    ),
    "data, a string": (
        ("data", "7"),
        openai('"7"'),
        anthropic('"7"'),
        gemini({"output": "7"}),
    ),
    "data, nothing": (("data", None), openai("null"), anthropic("null"), gemini({"output": None})),
    "error": (
        ("error", "There is no file a."),
        openai('{"error":"There is no file a."}'),
        anthropic("There is no file a.", is_error=True),
        gemini({"error": "There is no file a."}),
    ),
    "denied": (
        ("error", "Not run: the user said no.", "", True),
        openai('{"error":"Not run: the user said no.","denied":true}'),
        anthropic("Not run: the user said no.", is_error=True),
        gemini({"error": "Not run: the user said no.", "denied": True}),
    ),
    "multimodal": (
        ("multimodal", BLOCKS),
        openai("A red dot.\n[image 1: it follows below]"),
        anthropic(
            [
                {"type": "text", "text": "A red dot."},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            ]
        ),
        gemini({"output": "A red dot.\n[image 1: it follows below]"}),
    ),
    "multimodal, sound": (
        ("multimodal", [{"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"}]),
        openai("[audio 1: it follows below]"),
        anthropic([{"type": "text", "text": "[audio of type audio/wav, not shown]"}]),
        gemini({"output": "[audio 1: it follows below]"}),
    ),
    "multimodal, of a kind nobody takes": (
        ("multimodal", [{"type": "hologram", "mimeType": "model/dream"}]),
        openai("[hologram of type model/dream, not shown]"),
        anthropic([{"type": "text", "text": "[hologram of type model/dream, not shown]"}]),
        gemini({"output": "[hologram of type model/dream, not shown]"}),
    ),
}


@pytest.mark.parametrize(
    ("provider", "given", "expected"),
    [
        pytest.param(provider, given, expected, id=f"{provider}: {name}")
        for name, (given, *row) in RESULTS.items()
        for provider, expected in zip(PROVIDERS, row, strict=True)
    ],
)
def test_result(provider, given, expected):
    result = ToolResult("call1", "read", *given)
    sent = request(provider, [UserMessage("Hello"), Response((CALL,)), ToolResults((result,))])
    message = (sent.get("messages") or sent["contents"])[2]
    if provider == "gemini":  # media come after the results, in the same message
        message["parts"] = [part for part in message["parts"] if "functionResponse" in part]
    assert message == expected


@pytest.mark.parametrize(
    ("provider", "expected"),
    [
        (
            "openai",
            [
                {"type": "text", "text": "Image 1, from read:"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                {"type": "text", "text": "Image 2, from tool_of_images:"},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
            ],
        ),
        (
            "gemini",
            [
                {"text": "Image 1, from read:"},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
                {"text": "Image 2, from tool_of_images:"},
                {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
            ],
        ),
    ],
)
def test_images_of_results_follow_all_of_them(provider, expected):
    results = (
        ToolResult("call1", "read", "multimodal", BLOCKS),
        ToolResult("call2", "tool_of_images", "multimodal", BLOCKS[1:]),
    )
    calls = (CALL, replace(CALL, id="call2"))
    sent = request(provider, [UserMessage("Hello"), Response(calls), ToolResults(results), Response((Text("Two."),))])
    if provider == "gemini":
        assert sent["contents"][2]["parts"][2:] == expected
    else:
        assert [each["role"] for each in sent["messages"]] == ["user", "assistant", "tool", "tool", "user", "assistant"]
        assert sent["messages"][4]["content"] == expected


SOUND = {"type": "audio", "data": "UklGRg==", "mimeType": "audio/mpeg"}
QUESTION = (
    {"type": "text", "text": "See:"},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    SOUND,
    {"type": "text", "text": "What is it?"},
    {"type": "hologram", "mimeType": "model/dream"},
)
HOLOGRAM = "[hologram of type model/dream, not shown]"
SENT_QUESTIONS = {
    "openai": [
        {"type": "text", "text": "See:"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
        {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "mp3"}},
        {"type": "text", "text": "What is it?"},
        {"type": "text", "text": HOLOGRAM},
    ],
    "anthropic": [
        {"type": "text", "text": "See:"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
        {"type": "text", "text": "[audio of type audio/mpeg, not shown]"},
        {"type": "text", "text": "What is it?"},
        {"type": "text", "text": HOLOGRAM},
    ],
    "gemini": [
        {"text": "See:"},
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"inlineData": {"mimeType": "audio/mpeg", "data": "UklGRg=="}},
        {"text": "What is it?"},
        {"text": HOLOGRAM},
    ],
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_question_of_several_blocks(provider):
    sent = request(provider, [UserMessage("", QUESTION)])
    (message,) = sent.get("messages") or sent["contents"]
    assert message == {"role": "user", "parts" if provider == "gemini" else "content": SENT_QUESTIONS[provider]}


CALLS = {
    "openai": b'data: {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "theirs", "function": {"name": "read"}}]}, "finish_reason": "tool_calls"}]}\n\n',
    "anthropic": b'data: {"type": "content_block_start", "index": 0, "content_block": {"type": "tool_use", "id": "theirs", "name": "read", "input": {}}}\n\ndata: {"type": "message_stop"}\n\n',
    "gemini": b'data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "read", "args": {}}}]}, "finishReason": "STOP"}]}\n\n',
}


@pytest.mark.parametrize(("provider", "id"), [("openai", "theirs"), ("anthropic", "theirs"), ("gemini", "made0")])
def test_call_id(provider, id):
    _, response = decoded(codec(provider), [CALLS[provider]])
    assert response.content == (ToolCall(id, "read", {}),)


STOP_REASONS = {
    "openai": {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "other"},
    "anthropic": {
        "end_turn": "end_turn",
        "stop_sequence": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "model_context_window_exceeded": "max_tokens",
        "refusal": "other",
        "pause_turn": "other",
    },
    "gemini": {
        "STOP": "end_turn",
        "MAX_TOKENS": "max_tokens",
        "SAFETY": "other",
        "RECITATION": "other",
        "OTHER": "other",
    },
}
ENDS = {
    "openai": lambda reason: {"choices": [{"delta": {"content": "x"}, "finish_reason": reason}]},
    "anthropic": lambda reason: {"type": "message_delta", "delta": {"stop_reason": reason}},
    "gemini": lambda reason: {"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": reason}]},
}


@check_rows(
    "provider, said, meant",
    [(provider, said, meant) for provider, row in STOP_REASONS.items() for said, meant in row.items()],
)
def test_stop_reason(provider, said, meant):
    end = f"data: {json.dumps(ENDS[provider](said))}\n\n".encode()
    response = decoded(codec(provider), [end])[1]
    assert (response.stop_reason, response.provider_stop_reason) == (meant, said if meant == "other" else "")


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stop_reason_without_end_is_cut(provider):
    end = f"data: {json.dumps(ENDS[provider]('x' * 10_000))}\n\n".encode()
    assert decoded(codec(provider), [end])[1].provider_stop_reason == "x" * 100


def send(**fields) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


IDS = [
    ("openai", [send(id="chatcmpl-1", choices=[{"delta": {"content": "Hi"}, "finish_reason": "stop"}])]),
    ("anthropic", [send(type="message_start", message={"id": "chatcmpl-1"}), send(type="message_stop")]),
    ("gemini", [send(responseId="chatcmpl-1", candidates=[{"content": {"parts": []}, "finishReason": "STOP"}])]),
]


@pytest.mark.parametrize(("provider", "chunks"), IDS, ids=[row[0] for row in IDS])
def test_an_answer_has_the_servers_name_for_it_which_is_neither_compared_nor_saved(provider, chunks):
    _, response = decoded(codec(provider), chunks)
    assert response.id == "chatcmpl-1"
    assert response == replace(response, id="")
    assert "id" not in response.to_dict()


@pytest.mark.parametrize("provider", [row[0] for row in IDS])
def test_an_id_that_is_no_text_is_ignored(provider):
    chunks = next(chunks for name, chunks in IDS if name == provider)
    _, response = decoded(codec(provider), [each.replace(b'"chatcmpl-1"', b"5") for each in chunks])
    assert response.id == ""
