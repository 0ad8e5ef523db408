"""A response under construction: pieces in, blocks out in the order they began. No I/O.

A piece of a call belongs to the call with its `index`, else with its id, else to the last one. Servers differ: id and
name come once, late, or in every chunk; parallel calls interleave, or share index 0 with different ids; arguments are
absent, null or "" if there are none. Shapes: vLLM 0.32, chat_completion/serving.py.

Text, thoughts and arguments are joined once at the end. Calls keep their place among them, since providers that sign
blocks want them back in order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Union

from ...types.events import ModelEvent, ReasoningDelta, TextDelta, ToolCallDelta
from ...types.messages import JSON, Block, MalformedCall, Reasoning, Text, ToolCall, write_arguments
from ...types.strict_json import loads_strict

MAX_DEPTH = 100  # of an argument: lists and objects in one another
TOO_DEEP = "The arguments are nested too deeply."


class TextBlockBuilder:
    """A block of text or thoughts; `metadata` goes back to the provider with it."""

    __slots__ = ("_event", "_pieces", "kind", "metadata")

    def __init__(self, kind: type[Text] | type[Reasoning]) -> None:
        self.kind = kind
        self.metadata: dict[str, JSON] = {}
        self._pieces: list[str] = []
        self._event: type[TextDelta] | type[ReasoningDelta] = TextDelta if kind is Text else ReasoningDelta

    def add(self, piece: str) -> ModelEvent:
        self._pieces.append(piece)
        return self._event(piece)

    def build(self) -> list[Block]:
        """The block; none if nothing came."""
        return [self.kind("".join(self._pieces), self.metadata)] if self._pieces or self.metadata else []


class CallBuilder:
    """A call as its pieces come."""

    __slots__ = ("arguments", "id", "metadata", "name")

    def __init__(self, metadata: Mapping[str, JSON]) -> None:
        self.metadata = metadata
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    @property
    def raw(self) -> str:
        """The arguments so far, as they came."""
        return "".join(self.arguments)

    @property
    def is_whole(self) -> bool:
        """Whether the arguments so far are a whole object."""
        try:
            return isinstance(json.loads(self.raw), dict)
        except (ValueError, RecursionError):
            return False

    def add(self, id: str, name: str, piece: str) -> None:
        self.id = self.id or id
        if name != self.name:  # some servers repeat the name in every chunk
            self.name += name
        if name == self.name and piece.startswith("{") and piece.startswith(self.raw):
            self.arguments.clear()  # some servers send all that came before once more
        if piece:
            self.arguments.append(piece)

    def build(self, new_id: Callable[[], str], truncated: bool) -> ToolCall | MalformedCall:
        id, raw = self.id or new_id(), self.raw
        try:
            arguments = parse_arguments(raw, allow_empty=not truncated)
        except ValueError as error:
            reason = "The call was cut off before its arguments were complete." if truncated else str(error)
            return MalformedCall(id, self.name, raw, reason)
        is_plain = not raw.strip() or raw == write_arguments(arguments)
        written = "" if is_plain else raw
        return ToolCall(id, self.name, arguments, metadata=self.metadata, written=written)


def get_arguments_text(arguments: object) -> str:
    """The arguments of a call, or a piece of them, as text: some servers send an object."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


class ResponseBuilder:
    """`new_id` makes ids for calls that came without one."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._blocks: list[Union[TextBlockBuilder, CallBuilder]] = []
        self._calls: list[CallBuilder] = []
        self._by_index: dict[object, int] = {}

    @property
    def is_empty(self) -> bool:
        """Whether nothing came yet."""
        return not any(isinstance(block, CallBuilder) or block.build() for block in self._blocks)

    @property
    def calls(self) -> list[CallBuilder]:
        """The calls so far: what has neither a name nor arguments is none."""
        return [call for call in self._calls if call.name or call.arguments]

    def begin_text(self, kind: type[Text] | type[Reasoning]) -> TextBlockBuilder:
        block = TextBlockBuilder(kind)
        self._blocks.append(block)
        return block

    def continue_text(self, kind: type[Text] | type[Reasoning], metadata: Mapping[str, JSON]) -> TextBlockBuilder:
        """The last block, if it is of this kind and neither it nor what follows is signed; else a new one."""
        last = next(reversed(self._blocks), None)
        if isinstance(last, TextBlockBuilder) and last.kind is kind and not (last.metadata or metadata):
            return last
        block = self.begin_text(kind)
        block.metadata.update(metadata)
        return block

    def add_call(
        self,
        index: int | None,
        id: str | None = None,
        name: str | None = None,
        arguments: object = None,
        metadata: Mapping[str, JSON] | None = None,
    ) -> ToolCallDelta:
        """Add a piece of a call. `arguments`: text, or an object; `metadata` counts for the first piece."""
        id, name, text = id or "", name or "", get_arguments_text(arguments)
        position = self._find_call(index, id, name, text, metadata or {})
        self._calls[position].add(id, name, text)
        return ToolCallDelta(position, id or None, name or None, text)

    def _find_call(self, index: int | None, id: str, name: str, piece: str, metadata: Mapping[str, JSON]) -> int:
        """The position of the call that a piece belongs to, among the calls; the piece may begin it."""
        key: object = index
        if index is None:
            key = id or next(reversed(self._by_index), None)
        position = self._by_index.get(key)
        if position is None or _is_another(self._calls[position], id, name, piece):
            position = self._by_index[key] = len(self._calls)
            call = CallBuilder(metadata)
            self._calls.append(call)
            self._blocks.append(call)
        return position

    def build(self, truncated: bool) -> tuple[Block, ...]:
        """`truncated`: the answer was cut off, and its last call may be."""
        content: list[Block] = []
        ids: set[str] = set()
        for block in self._blocks:
            if isinstance(block, TextBlockBuilder):
                content += block.build()
            elif block.name or block.arguments:  # else it is no call
                if block.id in ids:  # each result has one call that it belongs to
                    block.id = ""
                ids.add(block.id)
                content.append(block.build(self._new_id, truncated and block is self._calls[-1]))
        return tuple(content)


def _is_another(call: CallBuilder, id: str, name: str, piece: str) -> bool:
    """A name begins a new call on a used index with a new id, or behind arguments, if it is new or they are whole.

    Some servers give each piece of one call a new id.
    """
    if not name or not call.name:
        return False
    if call.id and id not in ("", call.id):
        return not call.arguments or call.is_whole
    if not call.arguments:
        return False
    return (name != call.name and not id) or (piece.startswith("{") and call.is_whole)


def parse_arguments(raw: str, *, allow_empty: bool = True) -> dict[str, JSON]:
    """The arguments string as an object; "" and null mean no arguments. Raises ValueError with a reason."""
    if not raw.strip() and allow_empty:
        return {}
    try:
        value = loads_strict(
            raw,
            error=lambda key: ValueError(f"The arguments hold {key[:64]!r} twice."),
            parse_constant=_parse_float,
            parse_float=_parse_float,
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


def _parse_float(written: str) -> float:
    """Refuses NaN and Infinity, which JSON does not have, and a number that is too large."""
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"The arguments hold {written[:20]}, which is no number, or one that is too large.")
    return number


def _is_deeper(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        value = [*value.values()]
    if not isinstance(value, list):
        return False
    return depth == 0 or any(_is_deeper(child, depth - 1) for child in value)
