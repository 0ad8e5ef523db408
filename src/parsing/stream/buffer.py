"""The text of an answer that is not read yet, and the end of what was: StreamParser alone changes it.

The readers of blocks and of reasoning get a Position, or the text and where to begin, and return how far they read, or
the text of a block without a call. `start` is the first character that is not emitted, `position` the first that is not
searched, `floor` the end of the last block. The text is indexed, not sliced, while it is read. What was shown stays
before `start`, CONTEXT_CHARS of it at least, so that what precedes a block is read there.
"""

from __future__ import annotations

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from .lookback import LOOK_BACK_CHARS, Position

MAX_SHOWN_CHARS = 80  # after a call; what merely looks like a call further on explains or repeats one
_HEAD_CHARS = 160  # of text whose characters are counted first; they mostly suffice
LEAD_CHARS = 240  # of the text before a block
CONTEXT_CHARS = 256  # that are kept of what was shown: more than are read backwards
_MAX_KEPT_CHARS = 768  # text that was shown is dropped beyond these
_BLANKS = LazyPattern(r"[ \t]{0,64}")
_WHITESPACE = LazyPattern(r"\s{0,64}")


class GivenBack(Struct, frozen=True):
    """Text that was taken and is read again: `raw`, which stands behind `before` and ends at `end` in the buffer.

    No block is searched for in its first `searched` characters. `in_fence`: whether a fence of code is open there.
    """

    raw: str
    before: str
    end: int
    searched: int
    in_fence: bool


class TextBuffer:
    """One answer's text."""

    def __init__(self) -> None:
        self.text = ""
        self.start = 0
        self.position = 0
        self.passed = 0  # the end of what is not searched again, as markers without a body and a fence of code
        self.floor = 0  # a line begins here, too
        self.in_fence = False  # of code: in a fence that holds other than a call
        self._counted, self._ahead = 0, 0  # `_ahead` characters, whitespace aside, between `start` and `_counted`

    def drop_shown(self) -> None:
        """Drops the text before the last block's end, and what was shown long ago."""
        if self.floor or self.start > _MAX_KEPT_CHARS:
            cut = max(self.floor, self.start - CONTEXT_CHARS)
            self.text = self.text[cut:]
            self.start -= cut
            self.passed -= cut
            self.position = max(self.start, self.position - cut)
            self.floor = self._counted = 0

    def count_ahead(self, at: int) -> int:
        """How many characters between `start` and `at` are no whitespace; no text is counted twice."""
        if not self.start < self._counted <= at:
            self._counted, self._ahead = self.start, 0
        self._ahead += count_nonspace(self.text[self._counted : at])
        self._counted = at
        return self._ahead

    def pass_shown(self, end: int) -> None:
        """The text up to `end` was emitted as text of the answer."""
        self.start = end
        self._counted = 0

    def take(self, end: int) -> None:
        """The text up to `end` is a reader's, who emits it in an event or gives it back."""
        self.start = self.position = end

    def skip(self, end: int) -> None:
        """The text up to `end` was emitted as other than text; a line begins there."""
        self.start = self.position = self.floor = end
        self._counted = 0

    def pass_over(self, end: int) -> None:
        """No text up to `end` is searched again."""
        self.position = self.passed = end

    def replace(self, text: str) -> None:
        """`text` is read next, instead of what is left."""
        self.text = text
        self.start = self.position = self.floor = self.passed = self._counted = 0

    def give_back(self, given: GivenBack) -> None:
        """The text that a reader took is read again. Where it is still there, only the position moves."""
        text = given.before + given.raw
        self.floor = given.end - len(text)
        if self.floor < 0 or not self.text.startswith(text, self.floor):
            self.text = text + self.text[given.end :]
            self.floor = 0
        self.start = self.floor + len(given.before)
        self._counted = 0
        self.pass_over(self.start + given.searched)
        self.in_fence = given.in_fence

    def locate(self, at: int) -> Position:
        """What a reader needs to know of `at`."""
        return Position(self.text, at, self.start, self.find_line(at), self.floor)

    def find_line(self, at: int) -> str:
        """The line up to `at`, its last LOOK_BACK_CHARS at most."""
        low = max(self.floor, at - LOOK_BACK_CHARS)
        return self.text[max(low, self.text.rfind("\n", low, at) + 1) : at]

    def find_lead(self, at: int) -> str:
        """The text before `at` and after the last block, its last CONTEXT_CHARS at most."""
        return self.text[max(self.floor, at - CONTEXT_CHARS) : at]

    def starts_line(self, at: int) -> bool:
        return not self.find_line(at).strip()


def skip_blanks(text: str, start: int) -> int:
    """Where the blanks at `start` end."""
    return _BLANKS.match(text, start).end()  # type: ignore[union-attr]  # it matches the empty string, too


def skip_whitespace(text: str, start: int) -> int:
    """Where the whitespace at `start` ends."""
    return _WHITESPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches the empty string, too


def count_backticks(text: str) -> int:
    """How many backticks, up to four, end the text: those that follow decide what they are."""
    return min(4, len(text) - len(text.rstrip("`"))) if text.endswith("`") else 0


def count_nonspace(text: str) -> int:
    """How many characters are no whitespace; exact up to MAX_SHOWN_CHARS, and else some number above it."""
    head = len("".join(text[:_HEAD_CHARS].split()))
    return head if head > MAX_SHOWN_CHARS or len(text) <= _HEAD_CHARS else len("".join(text.split()))
