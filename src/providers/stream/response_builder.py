"""An answer under construction: pieces in, blocks out in the order they began. No I/O.

A piece of a call belongs to the call with its `index`, else with its id, else to the last one. Servers differ: id and
name come once, late, or in every chunk; parallel calls interleave, or share index 0 with different ids; arguments are
absent, null or "" if there are none. Shapes: vLLM 0.32, chat_completion/serving.py.

Text, thoughts and arguments are joined once at the end. Calls keep their place among them, since providers that sign
blocks want them back in order.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, Union

from ...errors import BotError, StreamCut
from ...types.events import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from ...types.messages import JSON, Block, MalformedCall, Reasoning, Text, ToolCall
from ...types.strict_json import loads_strict
from ..base import Broken, Decoder, WireEvent
from ..wire_json import event_object, load, text
from .sse import MAX_EVENT_BYTES, EventDecoder, too_large


class Prose:
    """A block of text or thoughts; `metadata` goes back to the provider with it."""

    __slots__ = ("kind", "metadata", "pieces")

    def __init__(self, kind: type[Text] | type[Reasoning]) -> None:
        self.kind = kind
        self.pieces: list[str] = []
        self.metadata: dict[str, JSON] = {}

    def add(self, piece: str) -> list[ModelEvent]:
        if not piece:
            return []
        self.pieces.append(piece)
        return [TextDelta(piece) if self.kind is Text else ReasoningDelta(piece)]


class Answer:
    """`new_id` names calls that came without an id."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._assembler = CallAssembler(new_id)
        self._blocks: list[Union[Prose, int]] = []  # an int is a call's place among the calls
        self._signed: list[Mapping[str, JSON]] = []  # each call's metadata

    @property
    def last(self) -> Prose | None:
        """The last block, if text can be added to it; None if it is a call or there is none."""
        block = self._blocks[-1] if self._blocks else None
        return block if isinstance(block, Prose) else None

    def begin(self, kind: type[Text] | type[Reasoning]) -> Prose:
        prose = Prose(kind)
        self._blocks.append(prose)
        return prose

    def call(
        self, index: int, arguments: Any, id: str = "", name: str = "", metadata: Mapping[str, JSON] | None = None
    ) -> ToolCallDelta:
        """Add a piece to the call `index`; metadata counts for the first piece."""
        delta = self._assembler.add({"index": index, "id": id, "function": {"name": name, "arguments": arguments}})
        if delta.call_index == len(self._signed):
            self._signed.append(metadata or {})
            self._blocks.append(delta.call_index)
        return delta

    def close(self, truncated: bool) -> tuple[Block, ...]:
        return tuple(self._finished(truncated))

    def _finished(self, truncated: bool) -> Iterator[Block]:
        calls = self._assembler.finish(truncated)
        for block in self._blocks:
            if isinstance(block, int):
                call = calls[block]
                yield replace(call, metadata=self._signed[block]) if isinstance(call, ToolCall) else call
            elif block.pieces or block.metadata:
                yield block.kind("".join(block.pieces), block.metadata)


def json_events(events: EventDecoder, chunk: bytes) -> Iterator[dict[str, Any]]:
    """The events that are whole by now, as objects; what is no object is an empty one. Raises WireError."""
    return (event_object(load(data)) for data in events.feed(chunk) if data.strip())


def broken(error: BotError, found: Sequence[WireEvent]) -> list[WireEvent]:
    """What was found before the error, and then it. Raises the error where nothing was."""
    if not found:
        raise error
    return [*found, Broken(error)]


class StreamingDecoder(Decoder, Protocol):
    """A stream decoder that also accepts the whole answer at once."""

    def whole(self, answer: Any) -> list[ModelEvent]: ...


class WholeDecoder:
    """Decodes an answer that is one JSON body."""

    def __init__(self, decoder: StreamingDecoder) -> None:
        self._decoder = decoder
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """Raises WireError if it gets too large."""
        self._body += chunk
        if len(self._body) > MAX_EVENT_BYTES:
            raise too_large()
        return []

    def close(self) -> list[WireEvent]:
        """Raises WireError, ServerError or StreamCut: see Decoder."""
        found = self._decoder.whole(load(bytes(self._body)))
        return [*found, *self._decoder.close()]


def cut() -> StreamCut:
    """The error for an answer that ended too early."""
    return StreamCut("The server's answer ended in the middle.", "None of it was run.")


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
        """Take in one entry of a chunk's `tool_calls`, which must be an object."""
        function = delta.get("function")
        if not isinstance(function, Mapping):
            function = {}
        id, name, piece = text(delta.get("id")), text(function.get("name")), _piece(function.get("arguments"))
        position = self._position(delta.get("index"), id, name)
        slot = self._slots[position]
        slot.id = slot.id or id
        if name != slot.name:  # some servers repeat the name in every chunk
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
        """A new id on a used index begins a new call; so does a new name after arguments."""
        return bool((id and slot.id and id != slot.id) or (name and name != slot.name and slot.arguments and not id))

    def finish(self, truncated: bool) -> list[ToolCall | MalformedCall]:
        """The calls in the order they began. `truncated`: the answer was cut off."""
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
    """The arguments string as an object; "" and null mean no arguments. Raises ValueError with a reason."""
    if not raw.strip() and allow_empty:
        return {}
    try:
        value = loads_strict(
            raw,
            error=lambda key: ValueError(f"The arguments hold {key[:64]!r} twice, with different values."),
            allow_equal=True,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise ValueError(f"The arguments are not valid JSON: {error.msg} at character {error.pos}.") from None
    if value is None and allow_empty:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"The arguments must be a JSON object, not {type(value).__name__}.")
    if _is_deeper(value, MAX_DEPTH):  # it might not be writable from deeper in the stack
        raise ValueError(TOO_DEEP)
    return value


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
    """The arguments as text; some servers send an object instead of a string."""
    return json.dumps(arguments, ensure_ascii=False) if isinstance(arguments, dict) else text(arguments)


def as_sent(call: ToolCall | MalformedCall) -> tuple[str, dict[str, JSON]]:
    """Name and arguments of an earlier call, in a form that every server accepts.

    The text of a malformed call would make servers that parse it refuse every later turn.
    """
    return tool_name(call.name), dict(call.arguments) if isinstance(call, ToolCall) else {}


def tool_name(name: str) -> str:
    """The name with invalid characters replaced, since providers refuse a conversation that contains them."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unreadable_call"
