"""Chat completions, as vLLM serves and extends them: neutral request -> bytes, bytes -> neutral events. No I/O.

A message's JSON is made once and kept: a turn joins fragments, so its cost does not grow with the
history, and the prompt's prefix stays the same to the byte. A chunk costs one `json.loads` and three
look-ups. Shapes and texts: vLLM 0.32, entrypoints/openai/chat_completion and serve/exception_handling.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..errors import (
    ContextTooLong,
    ModelNotFound,
    ServerError,
    ServerLoading,
    StreamCut,
    TemplateRejected,
    ToolsUnsupported,
    Unauthorized,
    WireError,
)
from ..messages import (
    JSON,
    Block,
    Completed,
    MalformedCall,
    Message,
    ModelEvent,
    PerMessage,
    Reasoning,
    ReasoningDelta,
    Response,
    StopReason,
    SystemMessage,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
    openai_tool,
)
from .bodies import AnswerDecoder, error_message, error_reason
from .codec import ChatRequest, Decoder, HttpRequest
from .deltas import CallAssembler
from .sse import EventDecoder

_STOP_REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
}

_DONE = b"[DONE]"

_LOADING_HINT = "It had more than vllm.load_timeout to load its model; its log may say why that was not enough."
_PROXY_HINT = "A proxy stands before the server and does not reach it."
_PARSER_HINT = "Start it with --enable-auto-tool-choice --tool-call-parser PARSER."

# What a refusal means: status, a pattern in its message, the error, what to do. The first row that fits counts.
_REFUSALS: tuple[tuple[int | None, str, type[ServerError], str], ...] = (
    (400, r"--enable-auto-tool-choice|--tool-call-parser|does not support tools", ToolsUnsupported, _PARSER_HINT),
    (400, r"maximum context length|max_model_len", ContextTooLong, "Use /reset, or ask for less at once."),
    (
        400,
        r"alternat|\broles?\b.*\b(support|must|first|expected|allowed)|system (message|prompt|role)",
        TemplateRejected,
        "The model's chat template takes no such conversation.",
    ),
    (401, "", Unauthorized, "Set VLLM_API_KEY, or vllm.api_key in config.json."),
    (403, "", Unauthorized, "Set VLLM_API_KEY, or vllm.api_key in config.json."),
    (400, r"plain HTTP request was sent to HTTPS", ServerError, "Begin vllm.base_url with https://."),
    (404, r"\bmodel\b", ModelNotFound, "Choose one it serves: leave vllm.model empty, or see GET /models."),
    (404, "", ServerError, "Check vllm.base_url: it usually ends in /v1."),
    (413, "", ContextTooLong, "The server, or a proxy before it, takes no request of that size: use /reset."),
    (502, "", ServerError, _PROXY_HINT),
    (503, r"\bloading\b|not (yet )?loaded|warming|starting|not ready|initiali[sz]ing", ServerLoading, _LOADING_HINT),
    (504, "", ServerError, _PROXY_HINT),
    (None, "", ServerError, ""),
)


class OpenAICodec:
    """`new_id` names calls that the server left without an id."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._fragments = PerMessage(_encode_message)

    def encode(self, request: ChatRequest) -> HttpRequest:
        fields: dict[str, Any] = {"model": request.model, "stream": True, "stream_options": {"include_usage": True}}
        if request.temperature is not None:
            fields["temperature"] = request.temperature
        if request.max_tokens is not None:
            fields["max_tokens"] = request.max_tokens
        if request.tools:  # an empty list is refused
            fields["tools"] = [openai_tool(tool) for tool in request.tools]
        messages = ",".join(filter(None, self._fragments(request.messages)))
        body = f'{{"messages":[{messages}],{_dumps(fields)[1:]}'
        return HttpRequest("chat/completions", body.encode(errors="replace"))

    def decoder(self, content_type: str) -> Decoder:
        return AnswerDecoder(content_type, lambda: StreamDecoder(self._new_id), lambda: WholeDecoder(self._new_id))

    def refusal(self, status: int, body: bytes, location: str = "") -> ServerError:
        if location:  # not followed: it might lead the API key to another host
            hint = "If that is the right server, set vllm.base_url to it."
            return ServerError(f"The server redirects (HTTP {status}) to {location}.", hint, status=status)
        message = error_message(body) or f"HTTP {status} without an explanation."
        return _refusal(f"The server refused (HTTP {status}): {message}", status, message)

    def models(self, body: bytes) -> list[str]:
        try:
            return [str(model["id"]) for model in json.loads(body)["data"]]
        except (ValueError, TypeError, KeyError) as error:
            raise WireError("The server's list of models is not in OpenAI's shape.", "Check vllm.base_url.") from error


def _refusal(said: str, status: int, message: str) -> ServerError:
    kind, hint = next(
        (kind, hint)
        for wanted, pattern, kind, hint in _REFUSALS
        if wanted in (status, None) and re.search(pattern, message, re.IGNORECASE)
    )
    return kind(said, hint, status=status, body=message)


def _encode_message(message: Message) -> str:
    return ",".join(map(_dumps, chat_messages(message)))


def chat_messages(message: Message) -> list[dict[str, JSON]]:
    """One neutral message as chat messages: results are one each, an answer of nothing but reasoning is none."""
    if isinstance(message, SystemMessage):
        return [{"role": "system", "content": message.text}]
    if isinstance(message, UserMessage):
        return [{"role": "user", "content": message.text}]
    if isinstance(message, ToolResults):
        return [
            {"role": "tool", "tool_call_id": result.tool_call_id, "content": result_text(result)}
            for result in message.results
        ]
    blocks = message.content
    calls: list[JSON] = [_encode_call(block) for block in blocks if isinstance(block, (ToolCall, MalformedCall))]
    if calls:
        # Not null: templates that print `message.content` would print None.
        return [{"role": "assistant", "content": message.text, "tool_calls": calls}]
    return [{"role": "assistant", "content": message.text}] if message.text else []


def _encode_call(call: ToolCall | MalformedCall) -> JSON:
    # A malformed call's own text would make every later turn an HTTP 400 on servers that parse it.
    arguments = _dumps(dict(call.arguments)) if isinstance(call, ToolCall) else "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name or "unknown", "arguments": arguments}}


def result_text(result: ToolResult) -> str:
    if result.kind == "error":
        return _dumps({"error": result.value})
    return result.value if isinstance(result.value, str) else json.dumps(result.value, ensure_ascii=False)


class StreamDecoder:
    """A streamed answer. It is whole only with a finish_reason or [DONE]."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._events = EventDecoder()
        self._assembler = CallAssembler(new_id)
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._finish = ""
        self._done = False
        self._usage: Usage | None = None
        self._model = ""

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        found: list[ModelEvent] = []
        for data in self._events.feed(chunk):
            if self._done:
                break
            if data == _DONE:
                self._done = True
                found += self.close()
            elif data.strip():
                self._chunk(_load(data), found)
        return found

    def _chunk(self, chunk: Any, found: list[ModelEvent]) -> None:
        if not isinstance(chunk, dict):  # no event of any server we know, and nothing is lost with it
            return
        if _is_error(chunk):
            raise _broken_off(chunk)
        self._model = self._model or str(chunk.get("model") or "")
        if usage := chunk.get("usage"):
            self._usage = _usage(usage)
        for choice in _objects(chunk.get("choices")):
            self._finish = choice.get("finish_reason") or self._finish
            if isinstance(delta := choice.get("delta"), dict):
                self._delta(delta, found)

    def _delta(self, delta: Mapping[str, Any], found: list[ModelEvent]) -> None:
        if (text := delta.get("content")) and isinstance(text, str):
            self._text.append(text)
            found.append(TextDelta(text))
        # vLLM before 0.16 said reasoning_content.
        if (thought := delta.get("reasoning") or delta.get("reasoning_content")) and isinstance(thought, str):
            self._reasoning.append(thought)
            found.append(ReasoningDelta(thought))
        found.extend(map(self._assembler.add, _objects(delta.get("tool_calls"))))

    def close(self) -> list[ModelEvent]:
        """Raises StreamCut where the stream ended without saying so."""
        if not self._finish and not self._done:
            raise StreamCut("The server's answer ended in the middle.", "Nothing of it was run. Ask again.")
        calls = self._assembler.finish(truncated=self._finish == "length")
        content = _blocks("".join(self._reasoning), "".join(self._text), calls)
        return [Completed(Response(content, _STOP_REASONS.get(self._finish, "other"), self._usage, self._model))]


class WholeDecoder(StreamDecoder):
    """A whole completion in one JSON body, as servers and proxies send that do not stream."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        super().__init__(new_id)
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        self._body += chunk
        return []

    def close(self) -> list[ModelEvent]:
        """Raises WireError, ServerError or StreamCut: see Decoder."""
        found: list[ModelEvent] = []
        completion = _load(bytes(self._body))
        if not isinstance(completion, dict):
            raise WireError("The server's answer is no JSON object.", "Check vllm.base_url.")
        if not isinstance(completion.get("choices"), list) and not _is_error(completion):
            raise WireError("The server's answer is JSON, but no chat completion.", "Check vllm.base_url.")
        for choice in _objects(completion.get("choices")):
            message = choice["delta"] = choice.get("message")
            for index, call in enumerate(_objects(message.get("tool_calls")) if isinstance(message, dict) else ()):
                call["index"] = index
        self._chunk(completion, found)
        return [*found, *super().close()]


def _blocks(reasoning: str, text: str, calls: Iterable[ToolCall | MalformedCall]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if reasoning:
        blocks.append(Reasoning(reasoning))
    if text:
        blocks.append(Text(text))
    return (*blocks, *calls)


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0))


def _is_error(chunk: Mapping[str, Any]) -> bool:
    """`choices` may be null or missing where there is only usage; an error has a reason in their place."""
    return not isinstance(chunk.get("choices"), list) and (
        bool(chunk.get("error")) or chunk.get("object") == "error" or bool(chunk.get("message") or chunk.get("detail"))
    )


def _broken_off(chunk: Mapping[str, Any]) -> ServerError:
    """An error inside an answer with status 200; what status it would have had may stand in it."""
    error = chunk.get("error")
    code = error.get("code") if isinstance(error, dict) else chunk.get("code")
    message = error_reason(chunk) or "no reason given"
    return _refusal(f"The server broke off: {message}", code if isinstance(code, int) else 0, message)


def _load(data: bytes) -> Any:
    try:
        return json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise WireError(f"The server sent an event that is no JSON: {data[:100].decode(errors='replace')}") from error


def _objects(value: object) -> list[dict[str, Any]]:
    """The objects in what should be a list of them."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _dumps(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
