"""Text that repeats itself and holds no call, passed in one step: models fall into loops, and some text is hostile.

What is decided at an anchor depends on a bounded stretch of text around it and on a few facts about the answer so far.
Where the text repeats with a period, and those facts are what they were one period before, every later repetition is
decided as the last one was. The result is the same as without this; only the work is saved.
"""

from __future__ import annotations

from typing import NamedTuple

CONTEXT_CHARS = 256  # before an anchor: more than are read backwards
_CHECK_EVERY = 64  # anchors
_AHEAD_CHARS = 128  # after an anchor that have to come again
_MAX_PERIOD_CHARS = 4096
_COMPARE_CHARS = 4096  # at once


class LoopContext(NamedTuple):
    """What else decides at an anchor; while it stays the same, only text was found."""

    floor: int  # where the last call or marker ended
    in_fence: bool
    in_call_fence: bool
    unsearched: int  # characters between the anchor and where the search for it began
    unshown: int  # characters before it that are not shown yet, CONTEXT_CHARS at most


class LoopSkip(NamedTuple):
    """How many characters can be passed, and what that costs of the budget for searching blocks again."""

    length: int
    cost: int


class LoopSkipper:
    """Watches the anchors of one answer, one after the other."""

    def __init__(self) -> None:
        self._count = 0
        self._text = ""  # the text that is watched
        self._at = self._period = self._end = 0
        self._context: LoopContext | None = None
        self._budget = 0

    def is_due(self, text: str, at: int) -> bool:
        """Whether the anchor at `at` may repeat the one that is watched, or one should be watched."""
        if self._context is None:
            self._count += 1
            return self._count % _CHECK_EVERY == 0
        if text is not self._text or at > self._end:
            self._context = None
            return False
        return at > self._at and (at - self._at) % self._period == 0

    def find_skip(self, text: str, at: int, context: LoopContext, budget: int, reach: int) -> LoopSkip | None:
        """The repetitions after `at` that need no look, if it is one; what decides lies within `reach` characters."""
        if self._context is None:
            self._watch(text, at, context, budget)
            return None
        if context != self._context:
            if at - self._at >= _CHECK_EVERY * self._period:  # the context of the watched anchor does not come back
                self._at, self._context, self._budget = at, context, budget
            return None
        span, cost = at - self._at, self._budget - budget
        times = (self._end - reach - at) // span
        if cost > 0:
            times = min(times, budget // cost)
        self._context = None
        return LoopSkip(times * span, times * cost) if times > 0 else None

    def _watch(self, text: str, at: int, context: LoopContext, budget: int) -> None:
        """Watches the anchor if the text around it comes again; finds how far the repetition goes."""
        low = at - CONTEXT_CHARS
        again = text.find(text[low : at + _AHEAD_CHARS], low + 1, at + _AHEAD_CHARS + _MAX_PERIOD_CHARS)
        if again < 0:
            return
        period, end, step = again - low, at, _COMPARE_CHARS
        while end + period + step <= len(text) and text.startswith(text[end : end + step], end + period):
            end += step
        if end > at:
            self._text, self._at, self._period, self._end = text, at, period, end + period
            self._context, self._budget = context, budget
