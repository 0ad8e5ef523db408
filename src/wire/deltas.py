"""Native calls out of streaming deltas: pieces in, whole calls at the end. No I/O.

A call is told from its neighbours by `index`, else by its id, else it goes on with the last one.
Servers differ: id and name come once, late, or in every chunk; parallel calls interleave, or share
index 0 with ids of their own; arguments are absent, null or "" where there are none. Argument
pieces are kept in a list and joined once. Shapes: vLLM 0.32, chat_completion/serving.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from ..messages import JSON, MalformedCall, ToolCall, ToolCallDelta
from .values import text

MAX_DEPTH = 100
TOO_DEEP = "The arguments are nested too deeply."


class _Slot:
    __slots__ = ("arguments", "id", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []


class CallAssembler:
    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._slots: list[_Slot] = []
        self._by_index: dict[object, int] = {}

    def add(self, delta: Mapping[str, Any]) -> ToolCallDelta:
        """One entry of a chunk's `tool_calls`; entries that are no objects are the caller's to leave out."""
        function = delta.get("function")
        if not isinstance(function, Mapping):
            function = {}
        id, name, piece = text(delta.get("id")), text(function.get("name")), _piece(function.get("arguments"))
        position = self._position(delta.get("index"), id, name)
        slot = self._slots[position]
        slot.id = slot.id or id
        if name != slot.name:  # the same name in every chunk is not appended to itself
            slot.name += name
        if piece:
            slot.arguments.append(piece)
        return ToolCallDelta(position, id or None, name or None, piece)

    def _position(self, index: object, id: str, name: str) -> int:
        if isinstance(index, int):
            key: object = index
        else:
            key = id or (next(reversed(self._by_index)) if self._by_index else None)
        position = self._by_index.get(key)
        if position is None or self._is_another(self._slots[position], id, name):
            position = self._by_index[key] = len(self._slots)
            self._slots.append(_Slot())
        return position

    @staticmethod
    def _is_another(slot: _Slot, id: str, name: str) -> bool:
        """A new id on a used index opens a new call; so does a new name once arguments have come."""
        return bool((id and slot.id and id != slot.id) or (name and name != slot.name and slot.arguments and not id))

    def finish(self, truncated: bool) -> list[ToolCall | MalformedCall]:
        """The calls in the order they began. `truncated`: the answer stopped at max_tokens or was cut."""
        return [
            self._call(slot, truncated and position == len(self._slots) - 1)
            for position, slot in enumerate(self._slots)
        ]

    def _call(self, slot: _Slot, truncated: bool) -> ToolCall | MalformedCall:
        id, raw = slot.id or self._new_id(), "".join(slot.arguments)
        try:
            arguments = parse_arguments(raw, allow_empty=not truncated)
        except ValueError as error:
            reason = "The call was cut off before its arguments were complete." if truncated else str(error)
            return MalformedCall(id, slot.name, raw, reason)
        return ToolCall(id, slot.name, arguments)


def parse_arguments(raw: str, *, allow_empty: bool = True) -> dict[str, JSON]:
    """The arguments string as an object; "" and null are a call without arguments. Raises ValueError saying why not."""
    if not raw.strip() and allow_empty:
        return {}
    try:
        value = json.loads(raw, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_unique)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"The arguments are not valid JSON: {error.msg} at character {error.pos}.") from None
    if value is None and allow_empty:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"The arguments must be a JSON object, not {type(value).__name__}.")
    if _is_deeper(value, MAX_DEPTH):  # it could be read here and not be written again from deeper in the stack
        raise ValueError(TOO_DEEP)
    return value


def _unique(pairs: list[tuple[str, JSON]]) -> dict[str, JSON]:
    members = dict(pairs)
    for key, value in pairs if len(members) < len(pairs) else ():
        if members[key] != value:  # whoever looks at the call and whoever runs it may take another
            raise ValueError(f"The arguments hold {key[:64]!r} twice, with different values.")
    return members


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"The arguments hold {digits[:20]}, which is too large a number.")
    return number


def _is_deeper(value: JSON, depth: int) -> bool:
    if not isinstance(value, (dict, list)):
        return False
    children = value.values() if isinstance(value, dict) else value
    return depth == 0 or any(_is_deeper(child, depth - 1) for child in children)


def _refuse_constant(name: str) -> JSON:
    raise ValueError(f"The arguments hold {name}, which is not JSON.")


def _piece(arguments: object) -> str:
    """Some servers send the object itself in place of a string."""
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else text(arguments)


def as_sent(call: ToolCall | MalformedCall) -> tuple[str, dict[str, JSON]]:
    """Name and arguments of a call of an earlier turn, in a shape that every server takes.

    A malformed call's own text would make every later turn an HTTP 400 on servers that parse it.
    """
    return tool_name(call.name), dict(call.arguments) if isinstance(call, ToolCall) else {}


def tool_name(name: str) -> str:
    """The name a model gave, less what no tool's name holds: providers refuse a conversation with it."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unreadable_call"
