"""Messages, as Anthropic defines and vLLM serves them: neutral request -> bytes, bytes -> neutral events. No I/O.

The JSON of a message is made once and kept, as in openai.py. Neighbouring messages of one role become one turn, as
roles must alternate; in a user turn, tool results come first, as they must follow their calls. `index` identifies the
blocks of an answer; events and blocks of unknown types are skipped, as the documentation asks. Shapes: Anthropic's
API reference (Messages, Streaming, Tool use, Extended thinking); vLLM 0.32, entrypoints/anthropic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..errors import ServerError, WireError
from ..types.caching import MessageMemo
from ..types.events import Completed, ModelEvent
from ..types.messages import (
    JSON,
    Block,
    Message,
    Reasoning,
    Response,
    StopReason,
    SystemMessage,
    Text,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    block_text,
)
from .base import ChatRequest, Decoder, HttpRequest, WireEvent
from .server_errors import broken_off, model_names, openai_names
from .stream.response_builder import Answer, Prose, as_sent, broken, cut, json_events
from .stream.sniff import AnswerDecoder
from .stream.sse import EventDecoder
from .wire_json import body, count, dumps, mapping, objects, text

DEFAULT_MAX_TOKENS = 8192  # the field is required; every current model can write this much

_CHOICES: Mapping[str, JSON] = {"auto": {"type": "auto"}, "none": {"type": "none"}, "required": {"type": "any"}}

_STOP_REASONS: dict[str, StopReason] = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
}

_INPUT_TOKENS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


class AnthropicCodec:
    """`new_id` makes ids for calls without one."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._fragments = MessageMemo(_encode_message)

    def encode(self, request: ChatRequest) -> HttpRequest:
        max_tokens = request.max_tokens or DEFAULT_MAX_TOKENS
        fields: dict[str, JSON] = {"model": request.model, "max_tokens": max_tokens, "stream": request.stream}
        system = [message.text for message in request.messages if isinstance(message, SystemMessage) and message.text]
        if system:
            fields["system"] = "\n\n".join(system)
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.tools:
            fields["tools"] = [_definition(tool) for tool in request.tools]
            named: JSON = {"type": "tool", "name": request.tool_choice}
            fields["tool_choice"] = _CHOICES.get(request.tool_choice, named)
        return HttpRequest("messages", body(fields, messages=_turns(self._fragments(request.messages))))

    def decoder(self, content_type: str) -> Decoder:
        return AnswerDecoder(content_type, StreamDecoder(self._new_id))

    def models(self, body: bytes) -> list[str]:
        return model_names(body, openai_names)


def _definition(tool: ToolDefinition) -> JSON:
    return {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.parameters}}


class _Fragment(NamedTuple):
    """The blocks of a message as comma-separated JSON; `results` come first in their turn."""

    role: str
    results: str
    rest: str


def _turns(fragments: Sequence[_Fragment]) -> str:
    said = [fragment for fragment in fragments if fragment.results or fragment.rest]
    turns: list[str] = []
    for role, group in groupby(said, key=lambda fragment: fragment.role):
        parts = list(group)
        blocks = [part.results for part in parts] + [part.rest for part in parts]
        turns.append(f'{{"role":"{role}","content":[{",".join(filter(None, blocks))}]}}')
    return f"[{','.join(turns)}]"


def _encode_message(message: Message) -> _Fragment:
    if isinstance(message, UserMessage):
        return _Fragment("user", "", ",".join(map(dumps, _text_blocks(message.text))))
    if isinstance(message, ToolResults):
        return _Fragment("user", ",".join(dumps(_result(result)) for result in message.results), "")
    if isinstance(message, Response):
        return _Fragment("assistant", "", ",".join(dumps(each) for b in message.content for each in _encode_block(b)))
    return _Fragment("", "", "")  # the system prompt is a separate field


def _text_blocks(text: str) -> list[JSON]:
    """One block, or none if the text is blank, since blank blocks are refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _encode_block(block: Block) -> list[JSON]:
    if isinstance(block, Text):
        return _text_blocks(block.text)
    if isinstance(block, Reasoning):
        return _encode_reasoning(block)
    name, arguments = as_sent(block)
    return [{"type": "tool_use", "id": block.id, "name": name, "input": arguments}]


def _encode_reasoning(block: Reasoning) -> list[JSON]:
    """The thought with its signature; thoughts of other models have none and would be refused."""
    if "redacted_thinking" in block.metadata:
        return [{"type": "redacted_thinking", "data": block.metadata["redacted_thinking"]}]
    if "signature" in block.metadata:
        return [{"type": "thinking", "thinking": block.text, "signature": block.metadata["signature"]}]
    return []


def _result(result: ToolResult) -> JSON:
    sent: dict[str, JSON] = {"type": "tool_result", "tool_use_id": result.tool_call_id}
    sent["content"] = _RESULTS[result.kind](result)
    if result.kind == "error":
        sent["is_error"] = True
    return sent


def _content(result: ToolResult) -> JSON:
    return [sent for block in objects(result.value) for sent in _content_block(block)]


def _content_block(block: dict[str, Any]) -> list[JSON]:
    if block.get("type") != "image":
        return _text_blocks(block_text(block))
    source = {"type": "base64", "media_type": block.get("mimeType", "image/png"), "data": block.get("data", "")}
    return [{"type": "image", "source": source}]


_RESULTS: Mapping[str, Callable[[ToolResult], JSON]] = {
    "text": lambda result: result.text,
    "data": lambda result: dumps(result.value),
    "error": lambda result: result.text,
    "multimodal": _content,
}

# Block and delta types for text and thoughts, and the field that holds it.
_PROSE: Mapping[str, tuple[type[Text] | type[Reasoning], str]] = {
    "text": (Text, "text"),
    "text_delta": (Text, "text"),
    "thinking": (Reasoning, "thinking"),
    "thinking_delta": (Reasoning, "thinking"),
}


class StreamDecoder:
    """Decodes a stream, which is complete only with a stop_reason or message_stop."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._events = EventDecoder()
        self._answer = Answer(new_id)
        self._prose: dict[int, Prose] = {}
        self._calls: set[int] = set()
        self._stop = ""
        self._done = False
        self._model = ""
        self._usage = Usage()

    def feed(self, chunk: bytes) -> list[WireEvent]:
        found: list[WireEvent] = []
        try:
            for event in json_events(self._events, chunk):
                self._event(event, found)
                if self._done:  # a server may keep the connection open
                    return [*found, *self.close()]
        except (ServerError, WireError) as error:
            return broken(error, found)
        return found

    def _event(self, event: dict[str, Any], found: list[Any]) -> None:
        if event.get("error"):
            raise broken_off(event)
        kind, index = text(event.get("type")), count(event.get("index"))
        if kind == "content_block_delta":
            self._delta(index, mapping(event.get("delta")), found)
        elif kind == "content_block_start":
            self._begin(index, mapping(event.get("content_block")), found)
        elif kind == "message_start":
            self._message(mapping(event.get("message")))
        elif kind == "message_delta":
            self._message({**event, **mapping(event.get("delta"))})
        self._done = self._done or kind == "message_stop"

    def _message(self, message: Mapping[str, Any]) -> None:
        """Take in model, stop reason and usage; later values replace earlier ones."""
        self._model = text(message.get("model")) or self._model
        self._stop = text(message.get("stop_reason")) or self._stop
        usage = mapping(message.get("usage"))
        self._usage = Usage(
            sum(count(usage.get(field)) for field in _INPUT_TOKENS) or self._usage.input_tokens,
            count(usage.get("output_tokens")) or self._usage.output_tokens,
        )

    def _begin(self, index: int, block: dict[str, Any], found: list[Any]) -> None:
        kind = text(block.get("type"))
        if kind == "tool_use":
            self._calls.add(index)
            whole = block.get("input") or ""  # {} if the arguments come in pieces
            found.append(self._answer.call(index, whole, text(block.get("id")), text(block.get("name"))))
        elif kind == "redacted_thinking":
            self._answer.begin(Reasoning).metadata["redacted_thinking"] = text(block.get("data"))
        elif kind in _PROSE:
            self._prose[index] = self._answer.begin(_PROSE[kind][0])
            self._delta(index, block, found)
            self._sign(index, block)

    def _delta(self, index: int, delta: dict[str, Any], found: list[Any]) -> None:
        kind = text(delta.get("type"))
        if kind in _PROSE and index in self._prose:
            found.extend(self._prose[index].add(text(delta.get(_PROSE[kind][1]))))
        elif kind == "input_json_delta" and index in self._calls:
            found.append(self._answer.call(index, text(delta.get("partial_json"))))
        elif kind == "signature_delta":
            self._sign(index, delta)

    def _sign(self, index: int, signed: Mapping[str, Any]) -> None:
        if index in self._prose and (signature := text(signed.get("signature"))):
            self._prose[index].metadata["signature"] = signature

    def whole(self, message: Any) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        if not isinstance(message, dict):
            raise WireError("The server's answer is not a JSON object.", "Check vllm.base_url.")
        if not isinstance(message.get("content"), list):
            raise broken_off(message)
        for index, block in enumerate(objects(message["content"])):
            self._begin(index, block, found)
        self._message(message)
        self._done = True
        return found

    def close(self) -> list[ModelEvent]:
        """Raises StreamCut if the stream ended too early."""
        if not self._stop and not self._done:
            raise cut()
        reason = _STOP_REASONS.get(self._stop, "other")
        content = self._answer.close(truncated=reason == "max_tokens")
        return [Completed(Response(content, reason, self._usage, self._model))]
