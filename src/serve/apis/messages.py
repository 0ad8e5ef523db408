"""Anthropic's Messages API over chat completions: requests in, answers and events out. Pure.

Shapes and mappings: vLLM 0.32, entrypoints/anthropic/serving.py, and Anthropic's API reference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

from ...providers.wire_json import as_dict, as_dicts, as_str, dump_json
from ...types.events import ReasoningDelta, TextDelta, ToolCallDelta
from ...types.messages import write_arguments
from .call_order import CallOrder, Piece

_BILLING = "x-anthropic-billing-header"  # Claude Code's, with a hash of its own in each request
# Claude Code tells how many tokens are left, in a message that is another one in each request.
_COUNTDOWN = re.compile(r"<total_tokens>[^<]*</total_tokens>\s*")
_RENAMED = {"stop_sequences": "stop"}
_SAME = (
    "model", "max_tokens", "temperature", "top_p", "top_k", "stream", "cache_salt", "chat_template_kwargs",
    "vllm_xargs", "kv_transfer_params", "ec_transfer_params", "watermarking", "priority",
)  # fmt: skip
_CHOICES: Mapping[str, Any] = {"auto": "auto", "any": "required", "none": "none"}
_CACHE_COUNTS = {
    "cached_tokens": "cache_read_input_tokens",
    "created_cache_tokens": "cache_creation_input_tokens",
}
# By the status of the answer; see convert_error. 503 is what vLLM and proxies say where Anthropic says 529.
ERROR_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn", "content_filter": "refusal"}


def to_chat(body: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion request that asks the same. Raises ValueError, with a sentence for the client."""
    chat: dict[str, Any] = {name: body[name] for name in _SAME if body.get(name) is not None}
    chat.update({chat_name: body[name] for name, chat_name in _RENAMED.items() if body.get(name) is not None})
    if not isinstance(body.get("messages"), list):
        raise ValueError("messages: a list is required.")
    chat["messages"] = [*_convert_system(body.get("system")), *_convert_messages(body["messages"])]
    if chat.get("stream"):
        chat["stream_options"] = {"include_usage": True, "continuous_usage_stats": True}
    if isinstance(body.get("tools"), list):
        chat["tools"] = [_convert_tool(tool) for tool in as_dicts(body["tools"])]
        chat["tool_choice"] = "auto"
    if choice := as_dict(body.get("tool_choice")):
        name = {"type": "function", "function": {"name": choice.get("name")}}
        chat["tool_choice"] = _CHOICES.get(as_str(choice.get("type")), name)
        chat["parallel_tool_calls"] = not choice.get("disable_parallel_tool_use")
    _convert_thinking(body, chat)
    return chat


def _convert_thinking(body: Mapping[str, Any], chat: dict[str, Any]) -> None:
    thinking, output = as_dict(body.get("thinking")), as_dict(body.get("output_config"))
    if schema := as_dict(output.get("format")).get("schema"):
        chat["response_format"] = {"type": "json_schema", "json_schema": {"name": "json_schema", "schema": schema}}
    if output.get("effort") is not None:
        chat["reasoning_effort"] = output["effort"]
    if thinking.get("type") == "disabled":
        chat["reasoning_effort"] = "none"
    elif thinking.get("type") == "enabled" and thinking.get("budget_tokens") is not None:
        chat["thinking_token_budget"] = thinking["budget_tokens"]


def _convert_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = {
        "name": tool.get("name"),
        "description": tool.get("description"),
        "parameters": tool.get("input_schema"),
        "strict": tool.get("strict"),
        "defer_loading": tool.get("defer_loading"),
    }
    return {"type": "function", "function": {name: value for name, value in function.items() if value is not None}}


def _convert_system(system: object) -> list[dict[str, Any]]:
    texts = [system] if isinstance(system, str) else [as_str(block.get("text")) for block in as_dicts(system)]
    text = _COUNTDOWN.sub("", "".join(text for text in texts if not text.startswith(_BILLING)))
    return [{"role": "system", "content": text}] if text else []


def _convert_messages(messages: list[Any]) -> Iterator[dict[str, Any]]:
    for message in as_dicts(messages):
        role, content = message.get("role"), message.get("content")
        if role == "system":
            yield from _convert_system(content)
        elif isinstance(content, list):
            yield from _convert_blocks(as_str(role), as_dicts(content))
        else:
            yield {"role": role, "content": content}


def _convert_blocks(role: str, blocks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages for one: the results of tools come first, as messages of their own."""
    parts: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for block in blocks:
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            parts.append({"type": "text", "text": block["text"]})
        elif kind == "image":
            parts.append(_convert_image(block))
        elif kind == "thinking":
            thoughts.append(as_str(block.get("thinking")))
        elif kind == "tool_use":
            calls.append(_convert_call(block))
        elif kind == "tool_result":
            yield from _convert_result(block)
    if role != "user" or parts:
        yield _make_message(role, thoughts, calls, parts)


def _convert_call(block: dict[str, Any]) -> dict[str, Any]:
    """A call whose input is no object is malformed, and goes on as it is."""
    arguments = block.get("input")
    if isinstance(arguments, dict):
        arguments = write_arguments(arguments)
    elif not isinstance(arguments, str):
        arguments = dump_json({} if arguments is None else arguments)
    function = {"name": as_str(block.get("name")), "arguments": arguments}
    return {"id": as_str(block.get("id")), "type": "function", "function": function}


def _make_message(
    role: str, thoughts: list[str], calls: list[dict[str, Any]], parts: list[dict[str, Any]]
) -> dict[str, Any]:
    message: dict[str, Any] = {"role": role}
    if thoughts:
        message["reasoning"] = "".join(thoughts)
    if calls:
        message["tool_calls"] = calls
    if parts:
        message["content"] = parts[0]["text"] if len(parts) == 1 and parts[0]["type"] == "text" else parts
    return message


def _convert_result(block: dict[str, Any]) -> Iterator[dict[str, Any]]:
    content = block.get("content")
    inner = as_dicts(content)
    text = content if isinstance(content, str) else "\n".join(_read_texts(inner))
    yield {"role": "tool", "tool_call_id": as_str(block.get("tool_use_id")), "content": text}
    if images := [_convert_image(each) for each in inner if each.get("type") == "image"]:
        yield {"role": "user", "content": images}


def _read_texts(blocks: list[dict[str, Any]]) -> list[str]:
    return [as_str(each.get("text")) for each in blocks if each.get("type") == "text"]


def _convert_image(block: dict[str, Any]) -> dict[str, Any]:
    source = as_dict(block.get("source"))
    data = f"data:{source.get('media_type', 'image/jpeg')};base64,{source.get('data', '')}"
    return {"type": "image_url", "image_url": {"url": source.get("url", "") if source.get("type") == "url" else data}}


def convert_error(message: str, status: int) -> dict[str, Any]:
    """An error with Anthropic's type for an answer of this status."""
    kind = ERROR_TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}}


def convert_answer(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The message for a whole chat completion."""
    choice = as_dicts(answer.get("choices"))[0]
    message = as_dict(choice.get("message"))
    content: list[dict[str, Any]] = []
    if thought := message.get("reasoning") or message.get("reasoning_content"):
        content.append({"type": "thinking", "thinking": thought, "signature": _sign(thought)})
    if text := message.get("content"):
        content.append({"type": "text", "text": text})
    written: list[list[str]] = []  # the arguments of each call
    for call in as_dicts(message.get("tool_calls")):
        function = as_dict(call.get("function"))
        written.append([as_str(function.get("arguments"))])
        given = _read_input(written[-1])
        content.append({"type": "tool_use", "id": call.get("id"), "name": function.get("name"), "input": given or {}})
    reason, sequence = _convert_reason(choice, written)
    described = _describe(answer, content or [{"type": "text", "text": ""}], reason, sequence)
    return {name: value for name, value in described.items() if value is not None}


def _describe(
    answer: Mapping[str, Any], content: list[dict[str, Any]], reason: str | None, sequence: str | None
) -> dict[str, Any]:
    """The message with this content. `answer`: the chat completion, or its first chunk."""
    return {
        "id": answer.get("id"),
        "type": "message",
        "role": "assistant",
        "content": content,
        "model": answer.get("model"),
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": _convert_usage(answer.get("usage")),
    }


def _sign(thought: str) -> str:
    """A signature that clients hand back; vLLM checks none."""
    return sha256(thought.encode(errors="replace")).hexdigest()[:32]


def _convert_reason(choice: Mapping[str, Any], calls: list[list[str]]) -> tuple[str | None, str | None]:
    """stop_reason and stop_sequence. `calls`: the arguments of each, in pieces; a client runs none that was cut."""
    reason, stop = choice.get("finish_reason"), choice.get("stop_reason")
    if reason in ("stop", "tool_calls") and calls:
        is_complete = all(_read_input(pieces) is not None for pieces in calls)
        return "tool_use" if is_complete else "end_turn", None
    if reason == "stop" and isinstance(stop, str):
        return "stop_sequence", stop
    return _STOP_REASONS.get(as_str(reason)), None


def _convert_usage(usage: object) -> dict[str, int]:
    counted = as_dict(usage)
    total, details = counted.get("prompt_tokens") or 0, as_dict(counted.get("prompt_tokens_details"))
    converted = {"output_tokens": counted.get("completion_tokens") or 0}
    for name, ours in _CACHE_COUNTS.items():
        if (count := details.get(name)) is not None:
            total -= count
            converted[ours] = count
    return {**converted, "input_tokens": max(0, total)}


class MessagesStream:
    """Chunks of a chat completion in, events of a message out, each as its name and its data."""

    def __init__(self) -> None:
        self._has_begun = False
        self._open = ""  # the kind of the open block
        self._index = 0  # of the open or the next block
        self._thought: list[str] = []
        self._calls: list[list[str]] = []  # the arguments of each, in pieces
        self._order = CallOrder()
        self._last: dict[str, Any] = {}  # the choice with the finish reason
        self._usage: object = None

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if not self._has_begun:
            self._has_begun = True
            yield {"type": "message_start", "message": _describe(chunk, [], None, None)}
        self._usage = chunk.get("usage") or self._usage
        for choice in as_dicts(chunk.get("choices")):
            for piece in self._order.feed(as_dict(choice.get("delta"))):
                yield from self._feed_piece(piece)
            if choice.get("finish_reason"):
                self._last = choice

    def close(self) -> Iterator[dict[str, Any]]:
        """The events at the end."""
        for piece in self._order.close():
            yield from self._feed_piece(piece)
        yield from self._close_block()
        reason, sequence = _convert_reason(self._last, self._calls)
        usage = _convert_usage(self._usage)
        yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": sequence}, "usage": usage}
        yield {"type": "message_stop"}

    def _feed_piece(self, piece: Piece) -> Iterator[dict[str, Any]]:
        if isinstance(piece, ReasoningDelta):
            yield from self._open_block("thinking", {"thinking": ""})
            self._thought.append(piece.text)
            yield self._make_delta({"type": "thinking_delta", "thinking": piece.text})
        elif isinstance(piece, TextDelta):
            yield from self._open_block("text", {"text": ""})
            yield self._make_delta({"type": "text_delta", "text": piece.text})
        else:
            yield from self._feed_call(piece)

    def _feed_call(self, piece: ToolCallDelta) -> Iterator[dict[str, Any]]:
        if piece.name:
            self._calls.append([])
            yield from self._close_block()
            yield from self._open_block("tool_use", {"id": piece.id or "", "name": piece.name, "input": {}})
        if piece.arguments_delta:
            self._calls[-1].append(piece.arguments_delta)
            yield self._make_delta({"type": "input_json_delta", "partial_json": piece.arguments_delta})

    def _open_block(self, kind: str, fields: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if self._open != kind:
            yield from self._close_block()
            self._open = kind
            block = {"type": kind, **fields}
            yield {"type": "content_block_start", "index": self._index, "content_block": block}

    def _close_block(self) -> Iterator[dict[str, Any]]:
        if not self._open:
            return
        if self._open == "thinking":
            yield self._make_delta({"type": "signature_delta", "signature": _sign("".join(self._thought))})
            self._thought = []
        yield {"type": "content_block_stop", "index": self._index}
        self._open, self._index = "", self._index + 1

    def _make_delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}


def _read_input(pieces: list[str]) -> Any:
    """The arguments of a call; None if they were cut."""
    try:
        return json.loads("".join(pieces) or "{}") or {}
    except ValueError:
        return None
