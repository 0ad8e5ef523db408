"""Earlier calls and results of a client's history as text, and the text of a message. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...parsing import render_message, render_results
from ...providers.stream.response_builder import parse_arguments
from ...providers.wire_json import as_dict
from ...types.messages import TEXT, Block, MalformedCall, Response, Text, ToolCall, ToolResult
from ...types.special_tokens import neutralize_with_note

THOUGHTS = ("reasoning", "reasoning_content")
WRITTEN = "x-vllm-bot-written"  # of a message: its text with the calls in it, as the model wrote it


def read_text(content: object) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts = (part if isinstance(part, str) else _read_part(part) for part in as_list(content))
    return "\n".join(texts)


def _read_part(part: object) -> str:
    if not isinstance(part, dict):
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else f"[{part.get('type', 'content')}, not shown]"


def has_media(content: object) -> bool:
    return count_media(content) > 0


def count_media(content: object) -> int:
    """The parts that are no text: images, sound."""
    return sum(isinstance(part, dict) and not isinstance(part.get("text"), str) for part in as_list(content))


def as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def render_exchanges(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earlier calls as text of the assistant, their results as text of the user; other messages stay."""
    names: dict[str, str] = {}
    rendered: list[dict[str, Any]] = []
    results: list[ToolResult] = []
    for message in [*messages, {}]:
        if message.get("role") == "tool":
            id = str(message.get("tool_call_id", ""))
            text = neutralize_with_note(read_text(message.get("content")))
            name = names.get(id) or str(message.get("name") or "tool")
            results.append(ToolResult(id, name, "text", text))
            continue
        if results:
            rendered.append({"role": "user", "content": render_results(results)})
            results = []
        if calls := [each for each in as_list(message.get("tool_calls")) if isinstance(each, dict)]:
            blocks = [read_call(each) for each in calls]
            names.update({block.id: block.name for block in blocks})
            thoughts = {name: message[name] for name in THOUGHTS if name in message}
            text = message.get(WRITTEN) or _render_turn(read_text(message.get("content")), blocks)
            rendered.append({"role": "assistant", "content": text, **thoughts})
        elif message:
            rendered.append(leave_out(message, WRITTEN))
    return rendered


def leave_out(message: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in names}


def read_call(call: dict[str, Any]) -> ToolCall | MalformedCall:
    function = as_dict(call.get("function"))
    name, raw = str(function.get("name", "")), function.get("arguments")
    try:
        return ToolCall(
            str(call.get("id", "")), name, parse_arguments(raw if isinstance(raw, str) else json.dumps(raw)), TEXT
        )
    except ValueError as error:
        return MalformedCall(str(call.get("id", "")), name, str(raw), str(error))  # raw is the arguments alone


def _render_turn(text: str, calls: Sequence[ToolCall | MalformedCall]) -> str:
    blocks: list[Block] = [*([Text(text)] if text else []), *calls]
    message = render_message(Response(tuple(blocks)))
    return message.text if isinstance(message, Response) else ""
