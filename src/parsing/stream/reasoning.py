"""Reasoning in the text itself: its markers are cut, its text is reasoning, and calls in it do not count.

Only where the answer after it is empty the complete calls count that the reasoning ends with. A closing marker
that nothing opened makes all before it reasoning: the prompt held the opening one.
"""

from __future__ import annotations

from typing import NamedTuple

from ...types.events import ReasoningDelta
from ...types.messages import ToolCall
from ..events import Cut, Reasoned
from ..formats.table import REASONING
from . import openers
from .buffer import Tape
from .detector import Hold


class Marker(NamedTuple):
    at: int
    end: int
    opens: bool


class Thinking:
    """Reads reasoning off the tape. `text` is all of it."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._closer = ""
        self._parts: list[str] = []
        self.calls: list[ToolCall] = []  # those at the end of text that turned out to be reasoning

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def sight(self, at: int) -> Marker | Hold | None:
        """The marker at `at`: an opening one at the start of a line, or a closing one that nothing opened."""
        text, opens, closes = self._tape.text, openers.reasoning(), openers.reasoning_end()
        if opener := opens.match(text, at):
            return Marker(at, opener.end(), True) if self._tape.starts_line(at) else None
        if closer := closes.match(text, at):
            return Marker(at, closer.end(), False)
        return Hold(at) if opens.begun(text, at) or closes.begun(text, at) else None

    def begin(self, marker: Marker) -> bool:
        """Passes the marker; whether reasoning follows."""
        tape = self._tape
        tape.show(marker.at)
        text = tape.text[marker.at : marker.end]
        tape.skip_to(marker.end)
        if marker.opens:
            tape.emit(Cut(text))
            self._closer = next(closer for opener, closer in REASONING if opener.casefold() == text.casefold())
            return True
        tape.emit(Reasoned(text))
        self.calls = tape.trailing_calls
        self._parts.clear()
        tape.forget()
        return False

    def read(self, final: bool) -> bool:
        """Reasoning as far as it is there; whether its end was."""
        tape, closer = self._tape, self._closer
        end = tape.text.find(closer, tape.start)
        held = 0 if final else _overlap(tape.text, closer, tape.start)
        stop = end if end >= 0 else len(tape.text) - held
        if stop > tape.start:
            self._parts.append(tape.text[tape.start : stop])
            tape.emit(ReasoningDelta(self._parts[-1]))
        tape.start = tape.position = stop
        if end < 0:
            return False
        tape.emit(Cut(closer))
        tape.skip_to(end + len(closer))
        return True


def _overlap(text: str, marker: str, start: int) -> int:
    """How many characters at the end of `text` may begin `marker`."""
    for length in range(min(len(marker) - 1, len(text) - start), 0, -1):
        if text.endswith(marker[:length]):
            return length
    return 0
