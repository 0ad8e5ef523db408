"""Messages, as Anthropic defines and vLLM serves them: neutral request -> bytes, bytes -> neutral events. No I/O.

The JSON of a message is made once and kept, as in openai.py. Neighbouring messages of one role become one turn, as
roles must alternate; in a user turn, tool results come first, as they must follow their calls. `index` identifies the
blocks of an answer; events and blocks of unknown types are skipped, as the documentation asks. Shapes: Anthropic's
API reference (Messages, Streaming, Tool use, Extended thinking); vLLM 0.32, entrypoints/anthropic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import asdict

from ..errors import CHECK_ADDRESS, WireError
from ..types.caching import LastMemo, MessageMemo
from ..types.messages import (
    JSON,
    Block,
    Message,
    Named,
    Reasoning,
    Response,
    StopReason,
    Text,
    ToolChoice,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    block_text,
)
from .base import ChatRequest, Codec, Decoder, HttpRequest, WireEvent, make_sendable, make_sendable_id
from .openai import OpenAICodec
from .server_errors import read_mid_stream_error
from .stream.decoder import BodySniffer, StreamDecoder
from .stream.response_builder import TextBlockBuilder
from .wire_json import StructReader, WireStruct, as_dicts, dump_json, encode_body, encode_json, to_struct

DEFAULT_MAX_TOKENS = 8192  # the field is required; every current model can write this much

_CHOICES: Mapping[str, str] = {"auto": "auto", "none": "none", "required": "any"}


class AnthropicCodec(Codec):
    """`new_id` makes ids for calls without one."""

    shows_tools = True
    signs_calls = True

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._fragments = MessageMemo(_encode_message)
        self._fields = LastMemo[dict[str, JSON], bytes](encode_json)
        self._tools = LastMemo(_encode_tools)

    def encode(self, request: ChatRequest) -> HttpRequest:
        max_tokens = request.max_tokens or DEFAULT_MAX_TOKENS
        fields: dict[str, JSON] = {"model": request.model, "max_tokens": max_tokens, "stream": request.stream}
        if system := request.system_texts:
            fields["system"] = "\n\n".join(system)
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.tools:
            fields["tools"] = self._tools(request.tools)
            fields["tool_choice"] = _encode_choice(request.tool_choice)
        fields |= request.extra
        turns = _join_turns(self._fragments(request.messages))
        return HttpRequest("messages", encode_body("messages", turns, self._fields(fields)))

    def encode_prompt(self, request: ChatRequest) -> bytes:
        """vLLM makes chat completions of Messages."""
        return OpenAICodec(self._new_id).encode_prompt(request)

    def make_decoder(self, content_type: str) -> Decoder:
        return BodySniffer(content_type, AnthropicStream(self._new_id))


def _encode_choice(choice: ToolChoice) -> JSON:
    return {"type": "tool", "name": choice.name} if isinstance(choice, Named) else {"type": _CHOICES[choice]}


def _encode_tools(tools: Sequence[ToolDefinition]) -> list[JSON]:
    return [
        {"name": tool.name, "description": tool.description, "input_schema": {"type": "object", **tool.parameters}}
        for tool in tools
    ]


class _Fragment(Struct, frozen=True):
    """The blocks of a message as comma-separated JSON; `results` come first in their turn."""

    role: str
    results: bytes = b""
    rest: bytes = b""


def _join_turns(fragments: Sequence[_Fragment]) -> list[bytes]:
    used = [fragment for fragment in fragments if fragment.results or fragment.rest]
    turns: list[bytes] = []
    for role, group in groupby(used, key=lambda fragment: fragment.role):
        parts = list(group)
        blocks = [part.results for part in parts] + [part.rest for part in parts]
        turns.append(b'{"role":"%s","content":[%s]}' % (role.encode(), b",".join(filter(None, blocks))))
    return turns


def _encode_message(message: Message) -> _Fragment:
    if isinstance(message, UserMessage):
        parts = _encode_parts(message.blocks) or _encode_text(message.text)
        return _Fragment("user", rest=b",".join(map(encode_json, parts)))
    if isinstance(message, ToolResults):
        return _Fragment("user", b",".join(encode_json(_encode_result(result)) for result in message.results))
    if isinstance(message, Response):
        blocks = [each for block in message.content for each in _encode_block(block)]
        return _Fragment("assistant", rest=b",".join(map(encode_json, blocks)))
    return _Fragment("")  # the system prompt is a separate field


def _encode_text(text: str) -> list[JSON]:
    """One block, or none if the text is blank, since blank blocks are refused."""
    return [{"type": "text", "text": text}] if text.strip() else []


def _encode_block(block: Block) -> list[JSON]:
    if isinstance(block, Text):
        return _encode_text(block.text)
    if isinstance(block, Reasoning):  # thoughts of other models have no signature, and would be refused
        if "redacted_thinking" in block.metadata:
            return [{"type": "redacted_thinking", "data": block.metadata["redacted_thinking"]}]
        if "signature" in block.metadata:
            return [{"type": "thinking", "thinking": block.text, "signature": block.metadata["signature"]}]
        return []
    name, arguments = make_sendable(block)
    return [{"type": "tool_use", "id": make_sendable_id(block.id), "name": name, "input": arguments}]


def _encode_result(result: ToolResult) -> JSON:
    sent: dict[str, JSON] = {"type": "tool_result", "tool_use_id": make_sendable_id(result.tool_call_id)}
    sent["content"] = _RESULTS[result.kind](result)
    if result.kind == "error":  # that it was denied, the text says
        sent["is_error"] = True
    return sent


def _encode_parts(blocks: object) -> list[JSON]:
    return [sent for block in as_dicts(blocks) for sent in _encode_part(block)]


def _encode_part(block: dict[str, Any]) -> list[JSON]:
    if block.get("type") != "image":
        return _encode_text(block_text(block))
    source = {"type": "base64", "media_type": block.get("mimeType", "image/png"), "data": block.get("data", "")}
    return [{"type": "image", "source": source}]


_RESULTS: Mapping[str, Callable[[ToolResult], JSON]] = {
    "text": lambda result: result.text,
    "data": lambda result: dump_json(result.value),
    "error": lambda result: result.text,
    "multimodal": lambda result: _encode_parts(result.value),
}


class AnthropicUsage(WireStruct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None


class AnthropicBlock(WireStruct):
    """A block of an answer, or a piece of one."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None  # of a thought that is encrypted
    id: str | None = None
    name: str | None = None
    input: Any = None
    partial_json: str | None = None
    stop_reason: str | None = None  # in a message_delta


class AnthropicMessage(WireStruct):
    id: Any = None
    model: str | None = None
    content: list[AnthropicBlock] | None = None
    stop_reason: str | None = None
    usage: AnthropicUsage | None = None


class AnthropicEvent(WireStruct):
    type: str | None = None
    index: int | None = None
    message: AnthropicMessage | None = None
    content_block: AnthropicBlock | None = None
    delta: AnthropicBlock | None = None
    usage: AnthropicUsage | None = None
    error: Any = None


_EVENTS = StructReader(AnthropicEvent)
_TEXTS: Mapping[str | None, type[Text] | type[Reasoning]] = {"text": Text, "thinking": Reasoning}


class AnthropicStream(StreamDecoder):
    STOP_REASONS: ClassVar[Mapping[str, StopReason]] = {
        "end_turn": "end_turn",
        "stop_sequence": "end_turn",
        "tool_use": "tool_use",
        "max_tokens": "max_tokens",
        "model_context_window_exceeded": "max_tokens",
    }

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._texts: dict[int, TextBlockBuilder] = {}
        self._calls: set[int] = set()
        self._counts = dict.fromkeys(AnthropicUsage.__struct_fields__, 0)
        self._usage: Usage = Usage()

    def read_event(self, data: bytes, found: list[WireEvent]) -> None:
        event = _EVENTS.read(data)
        index, delta = event.index or 0, event.delta or AnthropicBlock()
        if event.error:
            raise read_mid_stream_error({"error": event.error})
        if event.type == "content_block_delta":
            self._add(index, delta, found)
        elif event.type == "content_block_start":
            self._begin(index, event.content_block or AnthropicBlock(), found)
        elif event.type in ("message_start", "message_delta"):
            self._add_message(event.message or AnthropicMessage(stop_reason=delta.stop_reason, usage=event.usage))
        elif event.type == "message_stop":
            self._is_done = True

    def _add_message(self, message: AnthropicMessage) -> None:
        """Take in model, stop reason and usage; later values replace earlier ones."""
        self._note(message.model, message.id, message.stop_reason)
        if message.usage:
            self._counts.update({name: count for name, count in asdict(message.usage).items() if count})
        read = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        self._usage = Usage(
            sum(self._counts[name] for name in read),
            self._counts["output_tokens"],
            self._counts["cache_read_input_tokens"],
        )

    def _begin(self, index: int, block: AnthropicBlock, found: list[WireEvent]) -> None:
        if block.type == "tool_use":
            self._calls.add(index)
            arguments = block.input or ""  # {} if the arguments come in pieces
            found.append(self._builder.add_call(index, block.id, block.name, arguments))
        elif block.type == "redacted_thinking":
            self._builder.begin_text(Reasoning).metadata["redacted_thinking"] = block.data or ""
        elif block.type in _TEXTS:
            self._texts[index] = self._builder.begin_text(_TEXTS[block.type])
            self._add(index, block, found)

    def _add(self, index: int, piece: AnthropicBlock, found: list[WireEvent]) -> None:
        """Add a piece to the block `index`; a block that begins may hold its first piece."""
        if block := self._texts.get(index):
            if text := piece.text or piece.thinking:
                found.append(block.add(text))
            if piece.signature:
                block.metadata["signature"] = piece.signature
        elif index in self._calls and piece.partial_json is not None:
            found.append(self._builder.add_call(index, arguments=piece.partial_json))

    def read_whole(self, answer: Any) -> list[WireEvent]:
        message, events = to_struct(answer, AnthropicMessage), list[WireEvent]()
        if not isinstance(answer, dict):
            raise WireError("The server's answer is not a JSON object.", CHECK_ADDRESS)
        if message.content is None:
            raise read_mid_stream_error(answer)
        for index, block in enumerate(message.content):
            self._begin(index, block, events)
        self._add_message(message)
        self._is_done = True
        return events
