"""The providers' own SDKs as judges: their types take what we send, and their clients make of an answer what we make.

They are heavy and serve no other purpose, so that they are no requirement: where one is missing, its tests
are skipped.

    python -m pip install anthropic openai google-genai
"""

from __future__ import annotations

import json
from types import ModuleType

import pytest

from src.providers.base import ChatRequest
from src.tools import REGISTRY
from src.types.messages import (
    MalformedCall,
    Named,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from tests.doubles import ScriptedServer

from .doubles import codec
from .test_exchanges import ANSWERS, WHOLE, answer, response

PIXEL = "iVBORw0KGgo="
NESTED = ToolDefinition(
    "plan",
    "Plan a voyage.",
    {
        "type": "object",
        "properties": {
            "legs": {"type": "array", "items": {"$ref": "#/$defs/Leg"}},
            "crew": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
            "mood": {"enum": ["calm", "bold"]},
            "extra": {"type": ["object", "string"], "additionalProperties": True},
        },
        "required": ["legs"],
        "additionalProperties": False,
        "$defs": {"Leg": {"type": "object", "properties": {"to": {"type": "string", "format": "uri"}}}},
    },
)
TOOLS = [*REGISTRY.definitions, NESTED]
CONVERSATION = [
    SystemMessage("Be brief."),
    UserMessage("Look around."),
    Response(
        (
            Reasoning("Where?", {"signature": "c2ln", "thoughtSignature": "c2ln"}),
            Text("Looking."),
            ToolCall("c1", "read", {"path": "a"}, metadata={"thoughtSignature": "c2ln"}),
            ToolCall("c2", "exec", {"command": "ls"}),
            ToolCall("c3", "read", {"path": "b"}),
            ToolCall("c4", "read", {"path": "c.png"}),
            MalformedCall("c5", "", "{oops", "no JSON"),
        )
    ),
    ToolResults(
        (
            ToolResult("c1", "read", "text", "hello"),
            ToolResult("c2", "exec", "data", {"exit": 0}),
            ToolResult("c3", "read", "error", "There is no file b."),
            ToolResult(
                "c4",
                "read",
                "multimodal",
                [{"type": "text", "text": "A dot."}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}],
            ),
            ToolResult("c5", "unreadable call", "error", "no JSON"),
        )
    ),
    UserMessage(
        "",
        (
            {"type": "text", "text": "Go on with this."},
            {"type": "image", "data": PIXEL, "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
        ),
    ),
]
CHOICES = ["auto", "none", "required", Named("read")]
QUESTION = [{"role": "user", "content": "Go on."}]


def sent(provider: str, choice: ToolChoice) -> dict:
    request = ChatRequest("any", CONVERSATION, TOOLS, temperature=0.5, max_tokens=99, tool_choice=choice)
    return json.loads(codec(provider).encode(request).body)


def cases(*providers: str) -> list[str]:
    """The documented streams of these providers."""
    return [
        name
        for name in WHOLE
        if ANSWERS[name]["provider"] in providers and ANSWERS[name]["content_type"] == "text/event-stream"
    ]


def calls(got: Response) -> list[tuple[str, dict]]:
    return [(call.name, dict(call.arguments)) for call in got.calls]


class TestAnthropic:
    @pytest.fixture
    def sdk(self) -> ModuleType:
        return pytest.importorskip("anthropic")

    @pytest.mark.parametrize("choice", CHOICES)
    def test_its_types_take_what_we_send(self, sdk, choice):
        from pydantic import TypeAdapter

        params = TypeAdapter(sdk.types.message_create_params.MessageCreateParamsStreaming)
        body = sent("anthropic", choice)
        taken = params.dump_python(params.validate_python(body), mode="json")
        # Their latest version of the API has dropped it; the version that we name has it.
        assert taken.keys() | {"temperature"} == body.keys()

    @pytest.mark.parametrize("name", cases("anthropic"))
    def test_its_client_makes_of_an_answer_what_we_make(self, sdk, name):
        ours = response(ANSWERS[name])
        with ScriptedServer(answer(ANSWERS[name])) as server:
            client = sdk.Anthropic(api_key="x", base_url=server.url.removesuffix("/v1"), max_retries=0)
            with client.messages.stream(model="any", max_tokens=9, messages=QUESTION) as stream:
                theirs = stream.get_final_message()
            client.close()
        assert "".join(block.text for block in theirs.content if block.type == "text") == ours.text
        if not ours.malformed:  # their client mends a call that was cut off
            assert [(b.name, b.input) for b in theirs.content if b.type == "tool_use"] == calls(ours)
        assert theirs.usage.output_tokens == ours.usage.output_tokens
        assert [b.signature for b in theirs.content if b.type == "thinking"] == [
            b.metadata["signature"] for b in ours.content if isinstance(b, Reasoning) and "signature" in b.metadata
        ]


class TestOpenAI:
    @pytest.fixture
    def sdk(self) -> ModuleType:
        return pytest.importorskip("openai")

    @pytest.mark.parametrize("choice", CHOICES)
    def test_its_types_take_what_we_send(self, sdk, choice):
        from pydantic import TypeAdapter

        params = TypeAdapter(sdk.types.chat.completion_create_params.CompletionCreateParamsStreaming)
        body = sent("openai", choice)
        for message in body["messages"]:
            if isinstance(message["content"], list):  # their type has text alone in a tool's message
                message["content"] = [part for part in message["content"] if part["type"] == "text"]
        taken = params.dump_python(params.validate_python(body), mode="json")
        assert taken.keys() == body.keys()

    @pytest.mark.parametrize("name", cases("openai", "ollama", "vllm"))
    def test_its_client_makes_of_an_answer_what_we_make(self, sdk, name):
        ours = response(ANSWERS[name])
        with ScriptedServer(answer(ANSWERS[name])) as server:
            client = sdk.OpenAI(api_key="x", base_url=server.url, max_retries=0)
            with client.chat.completions.stream(model="any", messages=QUESTION) as stream:
                theirs = stream.get_final_completion().choices[0].message
            client.close()
        assert (theirs.content or theirs.refusal or "") == ours.text
        asked = [(call.function.name, json.loads(call.function.arguments)) for call in theirs.tool_calls or ()]
        assert asked == calls(ours)


class TestGemini:
    @pytest.fixture
    def sdk(self) -> ModuleType:
        return pytest.importorskip("google.genai")

    @pytest.mark.parametrize("choice", CHOICES)
    def test_its_types_take_what_we_send_and_know_every_field(self, sdk, choice):
        from google.genai import types

        body = sent("gemini", choice)
        for content in body["contents"]:
            for part in content["parts"]:
                if part.get("thoughtSignature") == "skip_thought_signature_validator":
                    del part["thoughtSignature"]  # documented, and no base64, which their type wants
        contents = [types.Content.model_validate(content) for content in body["contents"]]
        assert [content.role for content in contents] == ["user", "model", "user", "user"]
        config = types.GenerateContentConfig.model_validate(
            {
                "systemInstruction": body["systemInstruction"],
                "tools": body["tools"],
                "toolConfig": body["toolConfig"],
                **body["generationConfig"],
            }
        )
        (tool,) = config.tools
        assert [each.name for each in tool.function_declarations] == [each.name for each in TOOLS]
        plan = tool.function_declarations[-1].parameters
        assert plan.properties["legs"].items.properties["to"].type == types.Type.STRING
        assert plan.properties["crew"].nullable

    @pytest.mark.parametrize("name", cases("gemini", "vertex"))
    def test_its_client_makes_of_an_answer_what_we_make(self, sdk, name):
        ours = response(ANSWERS[name])
        with ScriptedServer(answer(ANSWERS[name])) as server:
            client = sdk.Client(api_key="x", http_options={"base_url": server.url})
            chunks = list(client.models.generate_content_stream(model="any", contents="Go on."))
            client.close()
        parts = [
            part
            for chunk in chunks
            for part in (chunk.candidates[0].content.parts if chunk.candidates[0].content else ()) or ()
        ]
        assert "".join(part.text for part in parts if part.text and not part.thought) == ours.text
        asked = [(p.function_call.name, p.function_call.args or {}) for p in parts if p.function_call]
        assert asked == calls(ours)
