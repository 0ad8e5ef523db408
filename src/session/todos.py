"""What the model has to do, out of a journal: its calls of todo_write that went well, whatever was summed up since."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ..types.messages import JSON, Response, ToolCall, read_message
from .journal_reader import Line

TODO_WRITE = "todo_write"  # the tool whose last call says what there is to do
HEAD = 1000  # bytes of a result, in which its name stands; what it says may be long
_NAMED = TODO_WRITE.encode()


class Todos(NamedTuple):
    """The record of the result, and the arguments of the call."""

    number: int
    arguments: Mapping[str, JSON]


def todos_of(lines: Iterable[Line]) -> Iterator[Todos]:
    """The oldest first. Only lines that have to do with it are parsed."""
    said = b""
    calls: list[ToolCall] | None = None  # those of what was said; None: not yet parsed
    for line in lines:
        if line.kind == "response":
            said, calls = line.data, None
        elif line.kind == "result" and _NAMED in line.data[:HEAD]:
            result = _parsed(line.data).get("result")
            if isinstance(result, dict) and result.get("name") == TODO_WRITE and result.get("kind") != "error":
                calls = _calls(said) if calls is None else calls
                wrote = next((call for call in calls if call.id == result.get("tool_call_id")), None)
                if wrote:
                    yield Todos(line.number, wrote.arguments)


def _calls(response: bytes) -> list[ToolCall]:
    try:
        message = read_message(_parsed(response).get("message"))
    except ValueError:
        return []
    calls = message.calls if isinstance(message, Response) else ()
    return [call for call in calls if call.name == TODO_WRITE]


def _parsed(data: bytes) -> dict[str, JSON]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):  # said elsewhere
        return {}
    return value if isinstance(value, dict) else {}
