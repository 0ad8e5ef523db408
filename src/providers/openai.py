"""Chat completions, as vLLM serves and extends them: neutral request -> bytes, bytes -> neutral events. No I/O.

The JSON of a message is made once and kept: a turn only joins fragments, and the prompt's prefix stays identical for
the server's cache. A chunk costs one `json.loads` and three look-ups. Shapes and texts: vLLM 0.32,
entrypoints/openai/chat_completion and serve/exception_handling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import ServerError, WireError
from ..types.caching import MessageMemo
from ..types.events import Completed, ModelEvent, ReasoningDelta, TextDelta
from ..types.messages import (
    JSON,
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
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    block_text,
)
from ..types.tool_schema import openai_tool
from .base import ChatRequest, Decoder, HttpRequest, RawTokens, WireEvent
from .server_errors import broken_off, is_error, model_names, openai_names
from .stream.likeness import Likeness
from .stream.response_builder import CallAssembler, as_sent, broken, cut
from .stream.sniff import AnswerDecoder
from .stream.sse import EventDecoder
from .wire_json import body, count, dumps, event_object, load, mapping, objects, text

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
}

_DONE = b"[DONE]"
LONG = 65536  # bytes of an event that is not held beside what it says


class OpenAICodec:
    """`new_id` makes ids for calls without one; `max_tokens` is the server's name for that limit."""

    def __init__(self, new_id: Callable[[], str], max_tokens: str = "max_tokens") -> None:
        self._new_id = new_id
        self._max_tokens = max_tokens
        self._fragments = MessageMemo(_encode_message)

    def encode(self, request: ChatRequest) -> HttpRequest:
        fields: dict[str, JSON] = {"model": request.model, "stream": request.stream, **request.options}
        if not request.stream:
            fields.pop("stream_options", None)  # refused without a stream
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields[self._max_tokens] = request.max_tokens
        return HttpRequest("chat/completions", self._body(request, fields))

    def prompt(self, request: ChatRequest) -> bytes:
        """The body of vLLM's /tokenize for the prompt that `request` would make."""
        return self._body(request, {"model": request.model})

    def _body(self, request: ChatRequest, fields: dict[str, JSON]) -> bytes:
        if request.tools:  # servers refuse an empty list, and a choice without tools
            fields["tools"] = [openai_tool(tool) for tool in request.tools]
            fields["tool_choice"] = _choice(request.tool_choice)
        messages = ",".join(filter(None, self._fragments(request.messages)))
        return body(fields, messages=f"[{messages}]")

    def decoder(self, content_type: str) -> Decoder:
        return AnswerDecoder(content_type, StreamDecoder(self._new_id))

    def models(self, body: bytes) -> list[str]:
        return model_names(body, openai_names)


def _choice(choice: ToolChoice) -> JSON:
    named: JSON = {"type": "function", "function": {"name": choice}}
    return choice if choice in ("auto", "none", "required") else named


def _encode_message(message: Message) -> str:
    return ",".join(map(dumps, chat_messages(message)))


def chat_messages(message: Message) -> list[dict[str, JSON]]:
    """A neutral message as chat messages: one per tool result, none for an answer of only reasoning."""
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": message.text}]
    if isinstance(message, UserMessage):
        return [{"role": "user", "content": message.text}]
    if isinstance(message, ToolResults):
        return [
            {"role": "tool", "tool_call_id": result.tool_call_id, "content": result_content(result)}
            for result in message.results
        ]
    calls: list[JSON] = [_encode_call(call) for call in message.requested_calls]
    if calls:
        # Not null: templates that print `message.content` would print None.
        return [{"role": "assistant", "content": message.text, "tool_calls": calls}]
    return [{"role": "assistant", "content": message.text}] if message.text else []


def _encode_call(call: ToolCall | MalformedCall) -> JSON:
    name, arguments = as_sent(call)
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": dumps(arguments)}}


def result_content(result: ToolResult) -> JSON:
    """The content of a tool message: text, JSON as text, or parts."""
    return _RESULTS[result.kind](result.value)


def _parts(blocks: JSON) -> JSON:
    return [_PARTS.get(text(block.get("type")), _text_part)(block) for block in objects(blocks)]


def _text_part(block: Mapping[str, Any]) -> JSON:
    return {"type": "text", "text": block_text(dict(block))}


def _image_part(block: Mapping[str, Any]) -> JSON:
    url = f"data:{block.get('mimeType', 'image/png')};base64,{block.get('data', '')}"
    return {"type": "image_url", "image_url": {"url": url}}


def _audio_part(block: Mapping[str, Any]) -> JSON:
    kind = text(block.get("mimeType")).rpartition("/")[2]
    return {"type": "input_audio", "input_audio": {"data": block.get("data", ""), "format": kind}}


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], JSON]] = {"image": _image_part, "audio": _audio_part}

_RESULTS: Mapping[str, Callable[[JSON], JSON]] = {
    "text": lambda value: value,
    "data": dumps,
    "error": lambda value: dumps({"error": value}),
    "multimodal": _parts,
}


class StreamDecoder:
    """Decodes a stream, which is complete only with a finish_reason or [DONE]."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._events = EventDecoder()
        self._assembler = CallAssembler(new_id)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._finish = ""
        self._done = False
        self._usage: Usage | None = None
        self._model = ""
        self._token_ids: list[int] = []
        self._silent = 0
        self._likeness = Likeness()

    def feed(self, chunk: bytes) -> list[WireEvent]:
        found: list[WireEvent] = []
        try:
            self._take(self._events.feed(chunk), found)
        except (ServerError, WireError) as error:
            return broken(error, found)
        return found

    def _take(self, events: list[bytes], found: list[WireEvent]) -> None:
        events.reverse()
        while events and not self._done:
            if events[-1] == _DONE:
                self._done = True
                found += self.close()
            elif alike := self._likeness.read(events[-1]):
                said, ids = alike
                self._text.append(said)
                self._token_ids += ids
                found.append(TextDelta(said))
            elif len(events[-1]) > LONG:
                self._chunk(event_object(load(events.pop())), found)  # popped, so that a huge event is not held twice
                continue
            elif events[-1].strip():
                self._other(events[-1], found)
            events.pop()

    def _other(self, data: bytes, found: list[WireEvent]) -> None:
        """Take in an event unlike the last one; later events may be like it."""
        before = len(found)
        self._chunk(event_object(load(data)), found)
        if len(found) == before + 1 and isinstance(said := found[-1], TextDelta):
            self._likeness.learn(data, said.text, _said)

    def _chunk(self, chunk: dict[str, Any], found: list[Any]) -> None:
        if not isinstance(chunk.get("choices"), list) and is_error(chunk):  # null in an event with only usage
            raise broken_off(chunk)
        self._model = self._model or text(chunk.get("model"))
        if usage := mapping(chunk.get("usage")):
            self._usage = Usage(count(usage.get("prompt_tokens")), count(usage.get("completion_tokens")))
        for choice in objects(chunk.get("choices")):
            self._finish = text(choice.get("finish_reason")) or self._finish
            before = len(found)
            if isinstance(delta := choice.get("delta"), dict):
                self._delta(delta, found)
            if isinstance(ids := choice.get("token_ids"), list):
                said = _without_end(ids, choice.get("finish_reason"))
                self._token_ids += said
                self._silent += 0 if len(found) > before else len(said)

    def _delta(self, delta: Mapping[str, Any], found: list[Any]) -> None:
        # OpenAI's models explain a refusal in a separate field.
        if said := text(delta.get("content")) or text(delta.get("refusal")):
            self._text.append(said)
            found.append(TextDelta(said))
        # vLLM before 0.16 said reasoning_content.
        if thought := text(delta.get("reasoning")) or text(delta.get("reasoning_content")):
            self._reasoning.append(thought)
            found.append(ReasoningDelta(thought))
        found.extend(map(self._assembler.add, objects(delta.get("tool_calls"))))

    def whole(self, completion: Any) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        if not isinstance(completion, dict):
            raise WireError("The server's answer is not a JSON object.", "Check vllm.base_url.")
        if not isinstance(completion.get("choices"), list) and not is_error(completion):
            raise WireError("The server's answer is JSON, but not a chat completion.", "Check vllm.base_url.")
        for choice in objects(completion.get("choices")):
            choice["delta"] = mapping(choice.get("message"))
            if isinstance(ids := choice.pop("token_ids", None), list):
                # A whole answer does not tell which of them became nothing.
                self._token_ids = _without_end(ids, choice.get("finish_reason"))
                self._silent = len(self._token_ids)
            for index, call in enumerate(objects(choice["delta"].get("tool_calls"))):
                call["index"] = index
        self._chunk(completion, found)
        return found

    def close(self) -> list[WireEvent]:
        """Raises StreamCut if the stream ended too early."""
        if not self._finish and not self._done:
            raise cut()
        calls = self._assembler.finish(truncated=self._finish == "length")
        content = _blocks("".join(self._reasoning), "".join(self._text), calls)
        tokens = [RawTokens(self._token_ids, self._silent)] if self._token_ids else []
        response = Response(content, _STOP_REASONS.get(self._finish, "other"), self._usage, self._model)
        return [*tokens, Completed(response)]


def _without_end(ids: list[int], finish: object) -> list[int]:
    """Without the token that ends the turn; others may come in the same event."""
    return ids[:-1] if finish and finish != "length" else ids


def _said(data: bytes) -> tuple[str, list[int]]:
    """The text and the token ids of one event; nothing if it contains anything else."""
    decoder, found = StreamDecoder(str), list[Any]()
    decoder._chunk(event_object(load(data)), found)
    if decoder._finish or decoder._usage or decoder._silent:
        return "", []
    return "".join(event.text for event in found if isinstance(event, TextDelta)), decoder._token_ids


def _blocks(reasoning: str, text: str, calls: Iterable[ToolCall | MalformedCall]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if reasoning:
        blocks.append(Reasoning(reasoning))
    if text:
        blocks.append(Text(text))
    return (*blocks, *calls)
