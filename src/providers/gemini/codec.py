"""generateContent, as the Gemini API and Vertex AI serve it: neutral request -> bytes, bytes -> neutral events. No I/O.

The two differ only in the address and the key. A call comes whole, in one part, mostly without an id; the codec makes
one, and a result goes back under its tool's name, with an id only if the server gave one. A thought signature must go
back in an identical part, so a signed part is never joined to another. Shapes: the API references of generateContent,
Function calling and Thought signatures; Vertex AI's reference of the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from msgspec.structs import astuple, replace

from ...errors import ServerError
from ...types.caching import LastMemo, MessageMemo
from ...types.messages import (
    JSON,
    MEDIA,
    NATIVE,
    Block,
    MalformedCall,
    Message,
    Named,
    Reasoning,
    Response,
    StopReason,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    block_text,
    detach_media,
)
from ..base import (
    ChatRequest,
    Codec,
    Decoder,
    HttpRequest,
    WireEvent,
    describe_failure,
    make_sendable,
    make_sendable_name,
)
from ..server_errors import read_mid_stream_error
from ..stream.decoder import BodySniffer, StreamDecoder
from ..wire_json import (
    StructReader,
    WireStruct,
    as_dict,
    as_dicts,
    dump_json,
    encode_body,
    encode_json,
    to_struct,
)
from .schema import reduce_schema

_SIGNATURE = "thoughtSignature"
# A signature is required; the documentation gives this one for calls that the model did not make natively.
_NO_SIGNATURE = "skip_thought_signature_validator"

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}


class GeminiCodec(Codec):
    """`new_id` makes ids for calls, which mostly come without one."""

    shows_tools = True
    signs_calls = True

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._served_ids: set[str] = set()
        self._fragments = MessageMemo(self._encode_message)
        self._fields = LastMemo[dict[str, JSON], bytes](encode_json)
        self._tools = LastMemo(_encode_tools)

    def encode(self, request: ChatRequest) -> HttpRequest:
        fields: dict[str, JSON] = {}
        if system := request.system_texts:
            fields["systemInstruction"] = {"parts": [{"text": each} for each in system]}
        if request.tools:
            fields["tools"] = self._tools(request.tools)
            fields["toolConfig"] = {"functionCallingConfig": _encode_choice(request.tool_choice)}
        sampling = dict(as_dict(request.extra.get("generationConfig")))
        if request.temperature is not None:
            sampling["temperature"] = request.temperature
        if request.max_tokens is not None:
            sampling["maxOutputTokens"] = request.max_tokens
        fields |= {**request.extra, "generationConfig": sampling}
        contents = [*filter(None, self._fragments(request.messages))]
        model = request.model if "/" in request.model else f"models/{request.model}"
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return HttpRequest(f"{quote(model)}:{method}", encode_body("contents", contents, self._fields(fields)))

    def make_decoder(self, content_type: str) -> Decoder:
        return BodySniffer(content_type, GeminiStream(self._new_id))

    def _encode_message(self, message: Message) -> bytes:
        role, parts = "user", list[JSON]()
        if isinstance(message, UserMessage):
            parts = [_encode_part(block) for block in message.blocks] or _encode_text(message.text)
        elif isinstance(message, ToolResults):
            results, media = detach_media(message.results)  # only Gemini 3 takes media in a result
            parts = [*map(self._encode_result, results), *map(_encode_part, media)]
        elif isinstance(message, Response):
            role, parts = "model", [part for block in message.content for part in self._encode_block(block)]
        return encode_json({"role": role, "parts": parts}) if parts else b""

    def _encode_block(self, block: Block) -> list[JSON]:
        if isinstance(block, (ToolCall, MalformedCall)):
            return [self._encode_call(block)]
        is_thought, signature = isinstance(block, Reasoning), _get_signature(block.metadata)
        # Thoughts without a signature are summaries for people, or another model's.
        if not signature and (is_thought or not block.text):
            return []
        sent: dict[str, JSON] = {"text": block.text, **signature}
        if is_thought:
            sent["thought"] = True
        return [sent]

    def _encode_call(self, call: ToolCall | MalformedCall) -> JSON:
        name, arguments = make_sendable(call)
        metadata: Mapping[str, JSON] = {_SIGNATURE: _NO_SIGNATURE}
        if isinstance(call, ToolCall) and call.origin == NATIVE:
            metadata = call.metadata
        sent: dict[str, JSON] = {"name": name, "args": arguments}
        if "id" in metadata:
            self._served_ids.add(call.id)
            sent["id"] = metadata["id"]
        return {"functionCall": sent, **_get_signature(metadata)}

    def _encode_result(self, result: ToolResult) -> JSON:
        response: JSON = {"output": result.value}  # `output` and `error` are the documented keys
        if result.kind == "error":
            response = describe_failure(result)
        elif result.kind == "data" and isinstance(result.value, dict):  # an object is its own output
            response = result.value
        sent: dict[str, JSON] = {"name": make_sendable_name(result.name), "response": response}
        if result.tool_call_id in self._served_ids:
            sent["id"] = result.tool_call_id
        return {"functionResponse": sent}


def _encode_tools(tools: Sequence[ToolDefinition]) -> JSON:
    declarations: list[JSON] = []
    for tool in tools:
        declaration: dict[str, JSON] = {"name": tool.name, "description": tool.description}
        parameters = reduce_schema(tool.parameters)
        if "properties" in parameters:  # an object without properties is refused
            declaration["parameters"] = parameters
        declarations.append(declaration)
    return [{"functionDeclarations": declarations}]


def _encode_choice(choice: ToolChoice) -> JSON:
    if isinstance(choice, Named):
        return {"mode": "ANY", "allowedFunctionNames": [choice.name]}
    return {"mode": _MODES[choice]}


def _get_signature(metadata: Mapping[str, JSON]) -> dict[str, JSON]:
    return {name: value for name, value in metadata.items() if name == _SIGNATURE}


def _encode_text(text: str) -> list[JSON]:
    return [{"text": text}] if text else []


def _encode_part(block: dict[str, Any]) -> JSON:
    if block.get("type") not in MEDIA:
        return {"text": block_text(block)}
    return {"inlineData": {"mimeType": block.get("mimeType", "image/png"), "data": block.get("data", "")}}


class GeminiCall(WireStruct):
    id: str | None = None
    name: str | None = None
    args: Any = None


class GeminiPart(WireStruct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: GeminiCall | None = None


class GeminiContent(WireStruct):
    parts: list[GeminiPart] | None = None


class GeminiCandidate(WireStruct, rename="camel"):
    content: GeminiContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class GeminiFeedback(WireStruct, rename="camel"):
    block_reason: str | None = None


class GeminiUsage(WireStruct, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None


class GeminiEvent(WireStruct, rename="camel"):
    candidates: list[GeminiCandidate] | None = None
    prompt_feedback: GeminiFeedback | None = None
    response_id: Any = None
    model_version: str | None = None
    usage_metadata: GeminiUsage | None = None
    error: Any = None


_EVENTS = StructReader(GeminiEvent)


class GeminiStream(StreamDecoder):
    STOP_REASONS: ClassVar[Mapping[str, StopReason]] = {
        "STOP": "end_turn",  # or tool_use, depending on the content
        "MAX_TOKENS": "max_tokens",
        "MALFORMED_FUNCTION_CALL": "tool_use",
    }

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._new_id = new_id
        self._calls = 0
        self._finish_message = ""

    def read_event(self, data: bytes, found: list[WireEvent]) -> None:
        self._add(_EVENTS.read(data), found)

    def _add(self, event: GeminiEvent, found: list[WireEvent]) -> None:
        if event.error:
            raise read_mid_stream_error({"error": event.error})
        self._note(event.model_version, event.response_id)
        if event.usage_metadata:
            prompt, cached, written, thought = (count or 0 for count in astuple(event.usage_metadata))
            self._usage = Usage(prompt, written + thought, cached, thought)
        if event.candidates:
            candidate = event.candidates[0]
            self._add_content(candidate.content, found)
            self._note(stop_reason=candidate.finish_reason)
            self._finish_message = candidate.finish_message or self._finish_message
        elif event.prompt_feedback and (blocked := event.prompt_feedback.block_reason):
            raise ServerError(f"The provider blocked the prompt: {blocked}.", "Rephrase it.", status=200)

    def _add_content(self, content: GeminiContent | None, found: list[WireEvent]) -> None:
        for part in (content and content.parts) or ():
            metadata: dict[str, JSON] = {}
            if part.thought_signature:
                metadata[_SIGNATURE] = part.thought_signature
            if call := part.function_call:
                found.append(self._add_call(call, metadata))
            elif part.text or metadata:
                block = self._builder.continue_text(Reasoning if part.thought else Text, metadata)
                if part.text:
                    found.append(block.add(part.text))

    def _add_call(self, call: GeminiCall, metadata: dict[str, JSON]) -> WireEvent:
        if call.id:
            metadata["id"] = call.id
        arguments = call.args if isinstance(call.args, dict) or call.args is None else dump_json(call.args)
        self._calls += 1
        return self._builder.add_call(self._calls, call.id, call.name, arguments, metadata)

    def read_whole(self, answer: Any) -> list[WireEvent]:
        """One response, or a list of them, as they come without streaming."""
        events: list[WireEvent] = []
        for event in as_dicts(answer) or as_dicts([answer]):
            self._add(to_struct(event, GeminiEvent), events)
        return events

    def _build(self) -> Response:
        response = super()._build()
        if self._stop_reason == "MALFORMED_FUNCTION_CALL":
            call = MalformedCall(self._new_id(), "", self._finish_message, "The call could not be read.")
            return replace(response, content=(*response.content, call))
        if response.stop_reason == "end_turn" and self._calls:
            return replace(response, stop_reason="tool_use")
        return response
