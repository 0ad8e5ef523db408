"""Text that repeats itself and holds no call, passed in one step: models fall into loops, and some text is hostile.

What is decided at an anchor depends on a bounded stretch of text around it and on a few facts about the answer so far.
Where the text repeats with a period, and those facts are what they were one period before, every later repetition is
decided as the last one was. The result is the same as without this; only the work is saved.
"""

from __future__ import annotations

from typing import NamedTuple

from .block import BlockReader
from .buffer import CONTEXT_CHARS, MAX_SHOWN_CHARS, StreamBuffer
from .prefix_regex import MAX_MATCH_CHARS

_CHECK_EVERY = 64  # anchors
_AHEAD_CHARS = 128  # after an anchor that have to come again
_MAX_PERIOD_CHARS = 4096
_COMPARE_CHARS = (4096, 256, 16)  # at once


class _Context(NamedTuple):
    """What else decides at an anchor; while it stays the same, only text was found."""

    floor: int  # where the last call or marker ended
    in_fence: bool
    in_call_fence: bool
    unsearched: int  # characters between the anchor and where the search for it began
    unshown: int  # characters before it that are not shown yet, CONTEXT_CHARS at most


class LoopSkipper:
    """Watches the anchors of one answer, one after the other."""

    def __init__(self, buffer: StreamBuffer, block: BlockReader) -> None:
        self._buffer = buffer
        self._block = block
        self._count = 0
        self._text = ""  # the text that is watched
        self._at = self._period = self._end = 0
        self._context: _Context | None = None
        self._budget = 0  # for searching blocks again, that was left at the watched anchor

    def skip(self, at: int) -> bool:
        """Passes the repetitions after the anchor at `at`, if it is one; whether there were any."""
        buffer, block = self._buffer, self._block
        if not self._is_due(at) or at - buffer.floor < CONTEXT_CHARS:
            return False
        if buffer.called and buffer.count_shown_at(at) <= MAX_SHOWN_CHARS:
            return False  # the last block still influences what is decided here
        unshown = min(at - buffer.start, CONTEXT_CHARS)
        context = _Context(buffer.floor, buffer.in_fence, block.in_call_fence, at - buffer.position, unshown)
        if self._context is None:
            self._watch(at, context)
            return False
        if context != self._context:
            if at - self._at >= _CHECK_EVERY * self._period:  # the context of the watched anchor does not come back
                self._at, self._context, self._budget = at, context, block.rescan
            return False
        span, cost = at - self._at, self._budget - block.rescan
        reach = MAX_MATCH_CHARS + block.max_returned_chars  # after an anchor, that decide on it
        times = (self._end - reach - at) // span
        times = min(times, block.rescan // cost) if cost > 0 else times
        self._context = None
        if times <= 0:
            return False
        if unshown < CONTEXT_CHARS:
            buffer.show(buffer.start + times * span)
        buffer.position += times * span
        block.rescan -= times * cost
        return True

    def _is_due(self, at: int) -> bool:
        """Whether the anchor at `at` may repeat the one that is watched, or one should be watched."""
        if self._context is None:
            self._count += 1
            return self._count % _CHECK_EVERY == 0
        if self._buffer.text is not self._text or at > self._end:
            self._context = None
            return False
        return at > self._at and (at - self._at) % self._period == 0

    def _watch(self, at: int, context: _Context) -> None:
        """Watches the anchor if the text around it comes again; finds how far the repetition goes."""
        text, low = self._buffer.text, at - CONTEXT_CHARS
        again = text.find(text[low : at + _AHEAD_CHARS], low + 1, at + _AHEAD_CHARS + _MAX_PERIOD_CHARS)
        if again < 0:
            return
        period, end = again - low, at
        for size in _COMPARE_CHARS:
            while end + period + size <= len(text) and text.startswith(text[end : end + size], end + period):
                end += size
        if end > at:
            self._text, self._at, self._period, self._end = text, at, period, end + period
            self._context, self._budget = context, self._block.rescan
            self._block.max_returned_chars = 0
