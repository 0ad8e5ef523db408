"""An answer that a grammar makes the JSON of calls, where the request forces one. Pure.

Each object is read by itself, so that a call is given as soon as it ends, whatever becomes of the next. What no call
comes of stays text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from ..parsing.stream.brackets import BracketMatcher
from ..types.events import TextDelta
from .call_stream import CallStream, Delta

_BETWEEN = "[], \t\r\n"  # what stands around the calls in a list


class ForcedCallStream:
    """`tool`: whose arguments the answer is; empty if it is a list of calls. `begin`: begins to read one call."""

    def __init__(self, tool: str, begin: Callable[..., CallStream]) -> None:
        self._begin = begin
        self._opening, self._head = "[", "[TOOL_CALLS]"
        if tool:
            self._opening, self._head = "{", f"[TOOL_CALLS]{tool}[ARGS]"
        self._unread = ""
        self._is_json = False
        self._free: CallStream | None = None  # which reads an answer that no grammar held
        self._call: CallStream | None = None  # which reads the object that is being written
        self._brackets = BracketMatcher()  # of that object
        self._source: list[str] = []  # what was read since the last call
        self._count = 0  # of the calls given
        self._first = 0  # how many of them stood before this object

    def feed(self, text: str) -> list[Delta]:
        if self._free:
            return self._free.feed(text)
        text, self._unread = self._unread + text, ""
        if self._is_json:
            return list(self._read(text))
        if not text.strip():
            self._unread = text
            return []
        if text.lstrip().startswith(self._opening):
            self._is_json = True
            return list(self._read(text))
        self._free = self._begin()
        return self._free.feed(text)

    def close(self) -> list[Delta]:
        """The rest, at the end of the answer."""
        if self._free:
            return self._free.close()
        self._source.append(self._unread)
        deltas: list[Delta] = []
        if self._call:
            deltas += self._give(self._call.feed(self._unread))
            deltas += self._end_call(self._call)
        if not self._count or "".join(self._source).strip(_BETWEEN):
            deltas += self._show_source()
        return deltas

    def _read(self, text: str) -> Iterator[Delta]:
        position = 0
        while position < len(text):
            if self._call is None:
                start = text.find("{", position)
                if start < 0:
                    self._source.append(text[position:])
                    return
                self._source.append(text[position:start])
                position = start
                self._call, self._brackets, self._first = self._begin(is_forced=True), BracketMatcher(), self._count
                self._call.feed(self._head)
            end, is_whole = self._brackets.feed(text, position)
            piece = text[position:end]
            position = end
            self._source.append(piece)
            yield from self._give(self._call.feed(piece))
            if not is_whole:
                self._unread = text[position:]
                return
            yield from self._end_call(self._call)

    def _give(self, deltas: list[Delta]) -> Iterator[Delta]:
        """The pieces of calls. The text of a block without a call is in the source."""
        for delta in deltas:
            if not isinstance(delta, TextDelta):
                index = self._first + delta.call_index
                self._count = index + 1
                yield replace(delta, call_index=index)

    def _end_call(self, call: CallStream) -> Iterator[Delta]:
        self._call = None
        yield from self._give(call.close())
        if self._count > self._first:
            self._source = []
        else:
            yield from self._show_source()

    def _show_source(self) -> Iterator[Delta]:
        text, self._source = "".join(self._source), []
        if text:
            yield TextDelta(text)
