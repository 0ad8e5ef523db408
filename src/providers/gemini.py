"""generateContent, as the Gemini API and Vertex AI serve it: neutral request -> bytes, bytes -> neutral events. No I/O.

The two differ only in the address and the key. A call comes whole, in one part, mostly without an id; the codec makes
one, and a result goes back under its tool's name, with an id only if the server gave one. A thought signature must go
back in an identical part, so a signed part is never joined to another. Shapes: the API references of generateContent,
Function calling and Thought signatures; Vertex AI's reference of the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from ..errors import ServerError, WireError
from ..types.caching import MessageMemo
from ..types.events import Completed, ModelEvent
from ..types.messages import (
    JSON,
    NATIVE,
    Block,
    MalformedCall,
    Message,
    Reasoning,
    Response,
    StopReason,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    block_text,
)
from .base import ChatRequest, Decoder, HttpRequest, WireEvent
from .gemini_schema import reduced
from .server_errors import broken_off, model_names
from .stream.response_builder import Answer, as_sent, broken, cut, json_events, tool_name
from .stream.sniff import AnswerDecoder
from .stream.sse import EventDecoder
from .wire_json import body, count, dumps, mapping, objects, text

_SIGNATURE = "thoughtSignature"
# A signature is required; the documentation gives this one for calls that the model did not make natively.
_NO_SIGNATURE = "skip_thought_signature_validator"

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}

_STOP_REASONS: dict[str, StopReason] = {
    "STOP": "end_turn",  # or tool_use, depending on the content
    "MAX_TOKENS": "max_tokens",
    "MALFORMED_FUNCTION_CALL": "tool_use",
}


class GeminiCodec:
    """`new_id` makes ids for calls, which mostly come without one."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._served_ids: set[str] = set()
        self._fragments = MessageMemo(self._encode_message)

    def encode(self, request: ChatRequest) -> HttpRequest:
        fields: dict[str, JSON] = {}
        system = [message.text for message in request.messages if isinstance(message, SystemMessage) and message.text]
        if system:
            fields["systemInstruction"] = {"parts": [{"text": each} for each in system]}
        if request.tools:
            fields["tools"] = [{"functionDeclarations": [_declaration(tool) for tool in request.tools]}]
            fields["toolConfig"] = {"functionCallingConfig": _choice(request.tool_choice)}
        fields["generationConfig"] = _generation(request)
        contents = ",".join(filter(None, self._fragments(request.messages)))
        model = request.model if "/" in request.model else f"models/{request.model}"
        method = "streamGenerateContent?alt=sse" if request.stream else "generateContent"
        return HttpRequest(f"{quote(model)}:{method}", body(fields, contents=f"[{contents}]"))

    def decoder(self, content_type: str) -> Decoder:
        return AnswerDecoder(content_type, StreamDecoder(self._new_id))

    def models(self, body: bytes) -> list[str]:
        return model_names(body, _names)

    def _encode_message(self, message: Message) -> str:
        role, parts = "user", list[JSON]()
        if isinstance(message, UserMessage) and message.text:
            parts = [{"text": message.text}]
        elif isinstance(message, ToolResults):
            parts = [self._result(result) for result in message.results]
        elif isinstance(message, Response):
            role, parts = "model", [part for block in message.content for part in self._encode_block(block)]
        return dumps({"role": role, "parts": parts}) if parts else ""

    def _encode_block(self, block: Block) -> list[JSON]:
        if isinstance(block, (ToolCall, MalformedCall)):
            return [self._call(block)]
        sent: dict[str, JSON] = {"text": block.text, **_signature(block.metadata)}
        if isinstance(block, Reasoning):
            sent["thought"] = True
        # Thoughts without a signature are summaries for people, or another model's.
        said = block.text if isinstance(block, Text) else ""
        return [sent] if said or _SIGNATURE in sent else []

    def _call(self, call: ToolCall | MalformedCall) -> JSON:
        name, arguments = as_sent(call)
        metadata: Mapping[str, JSON] = {_SIGNATURE: _NO_SIGNATURE}
        if isinstance(call, ToolCall) and call.origin == NATIVE:
            metadata = call.metadata
        sent: dict[str, JSON] = {"name": name, "args": arguments}
        if "id" in metadata:
            self._served_ids.add(call.id)
            sent["id"] = metadata["id"]
        return {"functionCall": sent, **_signature(metadata)}

    def _result(self, result: ToolResult) -> JSON:
        sent = {"name": tool_name(result.name), **_RESULTS[result.kind](result.value)}
        if result.tool_call_id in self._served_ids:
            sent["id"] = result.tool_call_id
        return {"functionResponse": sent}


def _declaration(tool: ToolDefinition) -> JSON:
    declaration: dict[str, JSON] = {"name": tool.name, "description": tool.description}
    parameters = reduced(tool.parameters)
    if "properties" in parameters:  # an object without properties is refused
        declaration["parameters"] = parameters
    return declaration


def _choice(choice: ToolChoice) -> JSON:
    return {"mode": _MODES[choice]} if choice in _MODES else {"mode": "ANY", "allowedFunctionNames": [choice]}


def _generation(request: ChatRequest) -> JSON:
    wanted = {"temperature": request.temperature, "maxOutputTokens": request.max_tokens}
    return {name: value for name, value in wanted.items() if value is not None}


def _signature(metadata: Mapping[str, JSON]) -> dict[str, JSON]:
    return {_SIGNATURE: metadata[_SIGNATURE]} if _SIGNATURE in metadata else {}


def _names(listed: Any) -> list[str]:
    return [
        str(model["name"]).removeprefix("models/")
        for model in listed["models"]
        if "generateContent" in model.get("supportedGenerationMethods", ["generateContent"])
    ]


def _blocks(blocks: JSON) -> dict[str, JSON]:
    media = [block for block in objects(blocks) if block.get("type") in ("image", "audio")]
    texts = [block_text(block) for block in objects(blocks) if block not in media]
    parts: list[JSON] = [
        {"inlineData": {"mimeType": block.get("mimeType", "image/png"), "data": block.get("data", "")}}
        for block in media
    ]
    return {"response": {"output": "\n".join(texts)}, **({"parts": parts} if parts else {})}


_RESULTS: Mapping[str, Callable[[JSON], dict[str, JSON]]] = {
    "text": lambda value: {"response": {"output": value}},
    "data": lambda value: {"response": value if isinstance(value, dict) else {"output": value}},
    "error": lambda value: {"response": {"error": value}},
    "multimodal": _blocks,
}


class StreamDecoder:
    """Decodes a stream, which is complete only with a finishReason."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._events = EventDecoder()
        self._answer = Answer(new_id)
        self._calls = 0
        self._finish = ""
        self._why = ""
        self._model = ""
        self._usage: Usage | None = None

    def feed(self, chunk: bytes) -> list[WireEvent]:
        found: list[WireEvent] = []
        try:
            for event in json_events(self._events, chunk):
                self._event(event, found)
        except (ServerError, WireError) as error:
            return broken(error, found)
        return found

    def _event(self, event: dict[str, Any], found: list[Any]) -> None:
        if event.get("error"):
            raise broken_off(event)
        candidates = objects(event.get("candidates"))
        blocked = text(mapping(event.get("promptFeedback")).get("blockReason"))
        if blocked and not candidates:
            raise ServerError(f"The provider blocked the prompt: {blocked}.", "Rephrase it.", status=200)
        self._model = text(event.get("modelVersion")) or self._model
        if usage := mapping(event.get("usageMetadata")):
            spent = count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount"))
            self._usage = Usage(count(usage.get("promptTokenCount")), spent)
        for candidate in candidates[:1]:
            for part in objects(mapping(candidate.get("content")).get("parts")):
                self._part(part, found)
            self._finish = text(candidate.get("finishReason")) or self._finish
            self._why = text(candidate.get("finishMessage")) or self._why

    def _part(self, part: dict[str, Any], found: list[Any]) -> None:
        signature = text(part.get(_SIGNATURE))
        metadata: dict[str, JSON] = {_SIGNATURE: signature} if signature else {}
        if call := mapping(part.get("functionCall")):
            found.append(self._called(call, metadata))
            return
        piece = text(part.get("text"))
        if not piece and not signature:
            return
        kind = Reasoning if part.get("thought") is True else Text
        prose = self._answer.last
        if prose is None or prose.kind is not kind or prose.metadata or metadata:
            prose = self._answer.begin(kind)
        prose.metadata.update(metadata)
        found.extend(prose.add(piece))

    def _called(self, call: dict[str, Any], metadata: dict[str, JSON]) -> ModelEvent:
        id, given = text(call.get("id")), call.get("args")
        if id:
            metadata["id"] = id
        arguments = given if isinstance(given, dict) or given is None else dumps(given)
        self._calls += 1
        return self._answer.call(self._calls, arguments, id, text(call.get("name")), metadata)

    def whole(self, answer: Any) -> list[ModelEvent]:
        """One response, or a list of them, as they come without streaming."""
        found: list[ModelEvent] = []
        for event in objects(answer if isinstance(answer, list) else [answer]):
            self._event(event, found)
        return found

    def close(self) -> list[ModelEvent]:
        """Raises StreamCut if the stream ended too early."""
        if not self._finish:
            raise cut()
        reason = _STOP_REASONS.get(self._finish, "other")
        content = self._answer.close(truncated=reason == "max_tokens")
        if self._finish == "MALFORMED_FUNCTION_CALL":
            content += (MalformedCall(self._new_id(), "", self._why, "The call could not be read."),)
        if reason == "end_turn" and self._calls:
            reason = "tool_use"
        return [Completed(Response(content, reason, self._usage, self._model))]
