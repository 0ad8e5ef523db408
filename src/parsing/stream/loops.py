"""Text that repeats itself and holds no call, passed in one step: models fall into loops, and there is hostile text.

What is decided at a character of prose depends on a bounded stretch of text round it and on a few facts about the
answer so far. Where the text repeats itself, and the facts are as they were a repetition before, all repetitions
to come are decided as the last one was: nothing is decided otherwise than without this, only the work is left out.
"""

from __future__ import annotations

from typing import NamedTuple

AROUND = 256  # characters before an anchor: more than are looked back over
_PATIENCE = 64  # anchors before a repetition is looked for
_AHEAD = 128  # characters after an anchor that have to come again
_LONGEST_PERIOD = 4096  # characters
_STEP = 4096  # characters compared at once


class Facts(NamedTuple):
    """What else decides. As long as they are the same nothing but text was found."""

    floor: int  # where the last call or marker ended
    in_fence: bool
    in_call_fence: bool
    unsearched: int  # how far the anchor is from where it was searched for
    unshown: int  # how much before it is not shown yet; all that is far is alike


class Passage(NamedTuple):
    """How many characters can be passed, and how much of the budget for searching blocks again that takes."""

    length: int
    cost: int


class Repetition:
    """Watches the anchors of prose, one after the other."""

    def __init__(self) -> None:
        self._count = 0
        self._text = ""  # the text that is watched
        self._at = self._period = self._end = 0
        self._facts: Facts | None = None
        self._budget = 0

    def due(self, text: str, at: int) -> bool:
        """Whether the anchor may be a repetition of the one that is watched, or one is to be watched."""
        if self._facts is None:
            self._count += 1
            return self._count % _PATIENCE == 0
        if text is not self._text or at > self._end:
            self._facts = None
            return False
        return at > self._at and (at - self._at) % self._period == 0

    def passage(self, text: str, at: int, facts: Facts, budget: int, reach: int) -> Passage | None:
        """The repetitions after `at`, where this is one; what decides them lies within `reach`."""
        if self._facts is None:
            self._watch(text, at, facts, budget)
            return None
        if facts != self._facts:
            if at - self._at >= _PATIENCE * self._period:  # what they were has passed
                self._at, self._facts, self._budget = at, facts, budget
            return None
        span, cost = at - self._at, self._budget - budget
        times = (self._end - reach - at) // span
        if cost > 0:
            times = min(times, budget // cost)
        self._facts = None
        return Passage(times * span, times * cost) if times > 0 else None

    def _watch(self, text: str, at: int, facts: Facts, budget: int) -> None:
        """Looks for where what stands round the anchor comes again, and for how far it goes on so."""
        low = at - AROUND
        again = text.find(text[low : at + _AHEAD], low + 1, at + _AHEAD + _LONGEST_PERIOD)
        if again < 0:
            return
        period, end = again - low, at
        while end + period + _STEP <= len(text) and text.startswith(text[end : end + _STEP], end + period):
            end += _STEP
        if end > at:
            self._text, self._at, self._period, self._end = text, at, period, end + period
            self._facts, self._budget = facts, budget
