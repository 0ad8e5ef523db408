"""The text that is not emitted yet, and what has been emitted: where every event comes from.

`start` is the first character not emitted, `position` the first not searched. Text is indexed, never sliced
while it is read; `taken` cuts it down once a feed. What is shown goes out as TextDelta, what is a block goes out
with its event as `raw`, so that both, joined in order, are the input.
"""

from __future__ import annotations

from ...types.events import TextDelta
from ...types.messages import ToolCall
from ..classify import Verdict
from ..events import Malformed, ParsedCall, ParserEvent

MAX_SAID = 80  # characters of text after a call; what merely looks like a call further on explains or repeats
_HEAD = 160  # characters of what is shown; they mostly say enough
LOOK_BACK = 160  # characters of a line that are looked at backwards


class Tape:
    """One answer's text and events."""

    def __init__(self) -> None:
        self.text = ""
        self.start = 0
        self.position = 0
        self.called = False  # a call or a malformed one was emitted
        self.said = 0  # how much was shown since, space aside, counted up to a bit more than matters
        self._counted, self._ahead = 0, 0  # how much is written from `start` up to a position that was asked for
        self.answered = False
        self.in_fence = False  # in a fence that holds other than a call
        self.trailing_calls: list[ToolCall] = []  # the calls after which nothing was shown
        self._events: list[ParserEvent] = []
        self._behind = ""  # the line that the text begins in, so far
        self.floor = 0  # where the last block ended: a line begins there, too

    def add(self, text: str) -> None:
        self.text = self.text + text if self.text else text

    def emit(self, event: ParserEvent) -> None:
        self._events.append(event)

    def taken(self) -> list[ParserEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def cut_down(self) -> int:
        """Drops the text that was emitted; how much that was."""
        start = self.start
        if start:
            self._behind = self.line(start)
            self.text = self.text[start:]
            self.position = max(0, self.position - start)
            self.start = self.floor = self._counted = 0
        return start

    def show(self, end: int) -> None:
        """The text up to `end` is shown."""
        if end <= self.start:
            return
        if self.called:
            self.said = self.said_by(end)
        text = self.text[self.start : end]
        self._events.append(TextDelta(text))
        self.start = end
        self._counted = 0
        if (self.trailing_calls or not self.answered) and not text.isspace():
            self.answered = True
            self.trailing_calls = []

    def said_by(self, at: int) -> int:
        """How much will have been said, space aside, once the text up to `at` is shown; counts no text twice."""
        if self.said > MAX_SAID:
            return self.said
        if not self.start < self._counted <= at:
            self._counted, self._ahead = self.start, 0
        self._ahead += solid_length(self.text[self._counted : at])
        self._counted = at
        return self.said + self._ahead

    def verdict(self, verdict: Verdict, raw: str) -> None:
        """A call or a malformed one, whose block is `raw`, is emitted."""
        self.called = self.answered = True
        self.said = 0
        if isinstance(verdict, ToolCall):
            self.trailing_calls.append(verdict)
            self._events.append(ParsedCall(verdict, raw))
        else:
            self._events.append(Malformed(verdict, raw))

    def forget(self) -> None:
        """What was emitted so far was no answer."""
        self.called = self.answered = self.in_fence = False
        self.said, self.trailing_calls = 0, []

    def skip_to(self, end: int) -> None:
        """All up to `end` was emitted, as other than text; a line begins there."""
        self.start = self.position = self.floor = end
        self._counted = 0
        self._behind = ""

    def replace(self, text: str, behind: str) -> None:
        """What is to be read next is `text`, on a line that began with `behind`."""
        self.text, self._behind = text, behind
        self.start = self.position = self.floor = self._counted = 0

    def line(self, at: int) -> str:
        """The line up to `at`, as much of it as is looked at."""
        low = max(0, at - LOOK_BACK, self.floor)
        newline = self.text.rfind("\n", low, at)
        if newline >= 0:
            return self.text[newline + 1 : at]
        line = self.text[low:at]
        return line if low else (self._behind + line)[-LOOK_BACK:]

    def before(self) -> str:
        """The character before the first that is not emitted, where it was shown."""
        if self.start > self.floor:
            return self.text[self.start - 1]
        return self._behind[-1:] if self.floor == 0 else ""

    def starts_line(self, at: int) -> bool:
        return not self.line(at).strip()


def solid_length(text: str) -> int:
    """How much is written there, space aside; exact up to MAX_SAID, and more than that where it is more."""
    head = len("".join(text[:_HEAD].split()))
    return head if head > MAX_SAID or len(text) <= _HEAD else len("".join(text.split()))
