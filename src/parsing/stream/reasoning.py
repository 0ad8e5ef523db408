"""Reasoning inside the text: its markers are cut, its text is reasoning, and calls in it do not count.

Where the answer after it is empty, the complete calls at the end of the reasoning count after all. A closing marker
that no opening one preceded makes all text before it reasoning: the opening one stood in the prompt.
"""

from __future__ import annotations

from typing import NamedTuple

from ...types.events import ReasoningDelta
from ...types.messages import ToolCall
from ..events import Cut, Reasoned
from ..formats.table import REASONING
from . import openers
from .buffer import StreamBuffer
from .detector import NeedMore


class ReasoningMarker(NamedTuple):
    at: int
    end: int
    opens: bool


class ReasoningReader:
    """Reads reasoning from the buffer; `calls` are those at the end of text that turned out to be reasoning."""

    def __init__(self, buffer: StreamBuffer) -> None:
        self._buffer = buffer
        self._closer = ""
        self._parts: list[str] = []
        self.calls: list[ToolCall] = []

    @property
    def text(self) -> str:
        """All reasoning between markers so far."""
        return "".join(self._parts)

    def find_marker(self, at: int) -> ReasoningMarker | NeedMore | None:
        """The marker at `at`: an opening one at the start of a line, or a closing one."""
        text, opens, closes = self._buffer.text, openers.REASONING_OPENER, openers.REASONING_CLOSER
        if opener := opens.match(text, at):
            return ReasoningMarker(at, opener.end(), True) if self._buffer.starts_line(at) else None
        if closer := closes.match(text, at):
            return ReasoningMarker(at, closer.end(), False)
        return NeedMore(at) if opens.is_prefix(text, at) or closes.is_prefix(text, at) else None

    def pass_marker(self, marker: ReasoningMarker) -> bool:
        """Moves behind the marker; whether reasoning follows."""
        buffer = self._buffer
        buffer.show(marker.at)
        text = buffer.text[marker.at : marker.end]
        buffer.skip(marker.end)
        if marker.opens:
            buffer.emit(Cut(text))
            self._closer = next(closer for opener, closer in REASONING if opener.casefold() == text.casefold())
            return True
        buffer.emit(Reasoned(text))
        self.calls = buffer.trailing_calls
        self._parts.clear()
        buffer.reset()
        return False

    def read(self, final: bool) -> bool:
        """Emits the reasoning that is there; whether its closing marker was."""
        buffer, closer = self._buffer, self._closer
        end = buffer.text.find(closer, buffer.start)
        held = 0 if final else _count_overlap(buffer.text, closer, buffer.start)
        stop = end if end >= 0 else len(buffer.text) - held
        if stop > buffer.start:
            self._parts.append(buffer.text[buffer.start : stop])
            buffer.emit(ReasoningDelta(self._parts[-1]))
        buffer.take(stop)
        if end < 0:
            return False
        buffer.emit(Cut(closer))
        buffer.skip(end + len(closer))
        return True


def _count_overlap(text: str, marker: str, start: int) -> int:
    """How many characters at the end of `text`, from `start` on, may begin `marker`."""
    for length in range(min(len(marker) - 1, len(text) - start), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0
