"""Earlier calls and results of a client's history as text, and the text of a message. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ...parsing import render_message, render_results
from ...providers.stream.response_builder import parse_arguments
from ...providers.wire_json import as_dict, as_dicts, as_list
from ...types.lazy_pattern import LazyPattern
from ...types.messages import TEXT, Block, MalformedCall, Response, Text, ToolCall, ToolResult
from ...types.special_tokens import neutralize_with_note

THOUGHTS = ("reasoning", "reasoning_content")
_NAME = LazyPattern(r"[\w.:/-]{1,128}")  # of a tool, so that it stands in a line of the prompt as it is
WRITTEN = "x-vllm-bot-written"  # of a message: its text with the calls in it, as the model wrote it


def read_text(content: object) -> str:
    """The text of a message's content, which is a string or a list of parts."""
    if isinstance(content, str):
        return content
    texts: list[str] = []
    for part in as_list(content):
        text = part
        if isinstance(part, dict):
            text = part.get("text")
            if not isinstance(text, str):
                text = f"[{part.get('type', 'content')}, not shown]"
        texts.append(text if isinstance(text, str) else "")
    return "\n".join(texts)


def has_media(content: object) -> bool:
    return count_media(content) > 0


def count_media(content: object) -> int:
    """The parts that are no text: images, sound."""
    return sum(isinstance(part, dict) and not isinstance(part.get("text"), str) for part in as_list(content))


def render_exchanges(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Earlier calls as text of the assistant, their results as text of the user; other messages stay."""
    names: dict[str, str] = {}
    rendered: list[dict[str, Any]] = []
    results: list[ToolResult] = []
    for message in [*messages, {}]:
        if message.get("role") == "tool":
            results.append(_read_result(message, names))
            continue
        if results:
            rendered.append({"role": "user", "content": render_results(results)})
            results = []
        if calls := [read_call(each) for each in as_dicts(message.get("tool_calls"))]:
            names.update({call.id: call.name for call in calls})
            rendered.append(_render_calls(message, calls))
        elif message:
            rendered.append(leave_out(message, WRITTEN))
    return rendered


def leave_out(message: dict[str, Any], *names: str) -> dict[str, Any]:
    """The message without these fields; itself if it has none of them."""
    if message.keys().isdisjoint(names):
        return message
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


def _read_result(message: Mapping[str, Any], names: Mapping[str, str]) -> ToolResult:
    """`names`: of the tools that were called, by the ids of the calls."""
    id = str(message.get("tool_call_id", ""))
    name = str(names.get(id) or message.get("name") or "tool")
    if not _NAME.fullmatch(name):
        name = "tool"
    return ToolResult(id, name, "text", neutralize_with_note(read_text(message.get("content"))))


def _render_calls(message: Mapping[str, Any], calls: Sequence[ToolCall | MalformedCall]) -> dict[str, Any]:
    thoughts = {name: message[name] for name in THOUGHTS if name in message}
    written = message.get(WRITTEN)
    if not written:
        blocks: list[Block] = [*calls]
        if text := read_text(message.get("content")):
            blocks.insert(0, Text(text))
        rendered = render_message(Response(tuple(blocks)))
        written = rendered.text if isinstance(rendered, Response) else ""
    return {"role": "assistant", "content": written, **thoughts}
