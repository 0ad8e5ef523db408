"""The pieces of a streamed answer, in an order in which each call is whole before anything follows it. Pure, linear.

Servers send pieces of two calls in turn, text between two pieces of a call, and calls without an index. An event of
Messages has no place for that, and neither API may end a call with a part of its arguments. Whose piece it is is
decided as for all other readers of a chat completion. A call leaves piece by piece. What comes behind it is held until
its arguments are a whole object, or until the answer ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Union

from ...providers.stream.response_builder import ResponseBuilder
from ...providers.wire_json import as_dict, as_dicts, as_str
from ...types.events import ReasoningDelta, TextDelta, ToolCallDelta
from ..chunks.json_prefix import JsonPrefix

Piece = Union[TextDelta, ReasoningDelta, ToolCallDelta]


class _HeldCall:
    """A call behind something that is not whole, or one whose name has not come."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.arguments: list[str] = []

    def add(self, piece: ToolCallDelta) -> None:
        self.id = self.id or piece.id or ""
        self.name = self.name or piece.name or ""
        self.arguments.append(piece.arguments_delta)


class CallOrder:
    """Deltas of a chat completion in, pieces out. The first piece of each call has its name, and no other has one."""

    def __init__(self) -> None:
        self._builder = ResponseBuilder(str)  # knows which call a piece belongs to
        self._held: list[Union[TextDelta, ReasoningDelta, _HeldCall]] = []
        self._waiting: dict[int, _HeldCall] = {}  # those that are held, by their indexes
        self._last = -1  # the index of the call that has begun
        self._arguments = JsonPrefix()  # of that call
        self._is_call_open = False  # nothing has followed that call

    def feed(self, delta: Mapping[str, Any]) -> Iterator[Piece]:
        for piece in self._read(delta):
            if not isinstance(piece, ToolCallDelta):
                self._held.append(piece)
            elif piece.call_index > self._last:
                self._hold(piece)
            elif piece.call_index == self._last and self._is_call_open:
                yield self._pass_on(None, None, piece.arguments_delta)
            # else blanks behind a call that is whole
            yield from self._release()

    def close(self) -> Iterator[Piece]:
        """What is held at the end of the answer. A call without a name is none."""
        yield from self._release(is_over=True)

    def _read(self, delta: Mapping[str, Any]) -> Iterator[Piece]:
        if thought := as_str(delta.get("reasoning")) or as_str(delta.get("reasoning_content")):
            yield ReasoningDelta(thought)
        for part in as_dicts(delta.get("content")):  # Mistral's API sends parts
            for thinking in as_dicts(part.get("thinking")):
                yield ReasoningDelta(as_str(thinking.get("text")))
            if text := as_str(part.get("text")):
                yield TextDelta(text)
        if text := as_str(delta.get("content")) or as_str(delta.get("refusal")):
            yield TextDelta(text)
        for call in as_dicts(delta.get("tool_calls")):
            function = as_dict(call.get("function"))
            name, arguments = function.get("name"), function.get("arguments")
            yield self._builder.add_call(call.get("index"), call.get("id"), name, arguments)

    def _hold(self, piece: ToolCallDelta) -> None:
        index = piece.call_index
        if index not in self._waiting:
            self._waiting[index] = _HeldCall(index)
            self._held.append(self._waiting[index])
        self._waiting[index].add(piece)

    def _release(self, *, is_over: bool = False) -> Iterator[Piece]:
        """What is held, up to the first call that is not whole."""
        count = 0
        for held in self._held:
            is_blocked = self._is_call_open and not self._arguments.is_complete
            if is_blocked and not is_over:
                break
            if not isinstance(held, _HeldCall):
                self._is_call_open = False
                yield held
            elif held.name:
                del self._waiting[held.index]
                self._last, self._arguments, self._is_call_open = held.index, JsonPrefix(), True
                yield self._pass_on(held.id, held.name, "".join(held.arguments))
            elif not is_over:
                break
            count += 1
        del self._held[:count]

    def _pass_on(self, id: str | None, name: str | None, arguments: str) -> ToolCallDelta:
        self._arguments.feed(arguments)
        return ToolCallDelta(self._last, id, name, arguments)
