"""Where a block ends, found piece by piece; work is linear in the new text whatever the chunking.

`BracketMatcher` counts brackets outside strings. A quote opens a string only where a value may begin, so that an
apostrophe in running text does not; a string ends at the next quote with no odd run of backslashes before it.
`UntilMarker` waits for a closing marker. Both are fed a text and a position, and return how far the block reaches and
whether it ends there; they are fed the rest again. What they passed is kept in `parts`, joined once. Nothing need be
fed before `may_end` finds a character in it, or inside a string its `quote`.
"""

from __future__ import annotations

import re

from ...types.lazy_pattern import LazyPattern
from .prefix_regex import PrefixMatcher, any_of, either, sequence, some

MAX_BLOCK_CHARS = 8_000_000  # a longer block is malformed

_PLAIN = r"""[^"'`{}\[\]()<“]*"""
_NO_MARK = "<(?=[^|/｜te]|tool_call[^|])"
_OUTSIDE = LazyPattern(  # up to the next mark, over strings that begin where a value certainly may
    rf"""(?:(?:(?<=[{{\[(])|{_PLAIN}[,:=]\s{{0,64}})"[^"\\]*"){{0,4096}}{_PLAIN}(?:{_NO_MARK}{_PLAIN}){{0,64}}"""
)
_MAX_ESCAPES = 4096  # passed in one match, which bounds the memory of the regular expression engine
_TO_QUOTE = {
    quote: LazyPattern(rf"[^{quote}\\]*(?:\\.[^{quote}\\]*){{0,{_MAX_ESCAPES}}}", re.DOTALL)
    for quote in ('"', "'", "`", "”")
}
_OPENS_STRING = frozenset("{[(,:=")
_PREFIXES = frozenset("rbfuRBFU")
_LOOK_BACK_CHARS = 200  # searched for the character that decides whether a value may begin
_OPENERS, _CLOSERS = frozenset("{[("), frozenset("}])")
FENCE = "```"
_ENDS_BLOCK = frozenset(("</", FENCE, "<|", "<｜", "<tool_call|"))
_FOLLOWS_STRING = frozenset(",}])<\\;")
_NOT_SPACE = LazyPattern(r"\S")
TOKEN_QUOTES = ('<|"|>', '<|\\"|>', "<escape>")
STRING_END = LazyPattern(r"\}\s{0,8}(?:\\n){0,4}(?:\\{1,7}\"){0,3}(?<!\\)\"")  # of an object, encoded up to four times
MAX_STRING_END_CHARS = 48
_MARK = PrefixMatcher(
    either(
        any_of((*TOKEN_QUOTES, "</", "```", "<tool_call|", "<｜")),
        sequence("<|", some(r"(?=[a-z/])", 1, 1)),
    )
)


class BracketMatcher:
    """Follows brackets from the one that opens the block to the one that closes it; `depth` are open already."""

    may_end = re.compile(r"[}\])<`]").search

    def __init__(self, depth: int = 0) -> None:
        self.parts: list[str] = []
        self.size = 0
        self._quote = ""
        self._may_be_key = False  # the string that a special token opened
        self._depth = depth
        self._fence_depth = -1  # at which a fence of code around a value began; -1 outside
        self._tail = ""  # the end of what was passed, _LOOK_BACK_CHARS at most

    @property
    def quote(self) -> str:
        """The one character that ends the string the text is in; empty outside strings and for longer quotes."""
        return self._quote if len(self._quote) == 1 else ""

    def feed(self, text: str, position: int) -> tuple[int, bool]:
        """How far the block reaches in `text` from `position` on, and whether it ends there."""
        start, length, ended = position, len(text), False
        while position < length:
            step = self._scan_string if self._quote else self._scan_outside
            at = step(text, position, start)
            if at < 0:
                position, ended = ~at, True
                break
            if at == position:
                break
            position = at
        if position > start:
            self.parts.append(text[start:position])
            self.size += position - start
            self._tail = (self._tail + text[max(start, position - _LOOK_BACK_CHARS) : position])[-_LOOK_BACK_CHARS:]
        return position, ended

    def _scan_string(self, text: str, position: int, _start: int) -> int:
        """The position behind the string, or behind what is certainly inside it."""
        quote = self._quote
        if len(quote) > 1:
            return self._scan_long_string(text, position, quote)
        to_quote, length = _TO_QUOTE[quote], len(text)
        while position < length:
            run = to_quote.match(text, position)
            end = run.end() if run else position  # the pattern matches the empty string, too
            if end == length or (text[end] == "\\" and end + 1 == length):
                return end  # a backslash is fed again with what follows
            if text[end] == quote:
                self._quote = ""
                return end + 1
            position = end
        return length

    def _scan_long_string(self, text: str, position: int, quote: str) -> int:
        """The position behind the string. Its quote ends it where a value may end: templates do not escape it."""
        end = text.find(quote, position)
        while end >= 0:
            follows = _NOT_SPACE.search(text, end + len(quote))
            if follows is None:
                return end  # fed again with what follows
            if follows[0] in _FOLLOWS_STRING or (self._may_be_key and follows[0] == ":"):
                self._quote = ""
                return end + len(quote)
            end = text.find(quote, end + 1)  # quotes of the value may stand before the closing one
        tail = max(position, len(text) - len(quote) + 1)
        while tail < len(text) and not quote.startswith(text[tail:]):
            tail += 1
        return tail

    def _scan_outside(self, text: str, position: int, start: int) -> int:
        """The position behind one more mark; its complement where the block ends, `position` to wait for more text."""
        length, skip = len(text), _OUTSIDE.match
        while True:
            run = skip(text, position)
            at = run.end() if run else position  # the pattern matches the empty string, too
            if at == length:
                return at
            character = text[at]
            if character in _OPENERS:
                self._depth += 1
            elif character in _CLOSERS:
                self._depth -= 1
                if not self._depth:
                    return ~(at + 1)
            else:
                break
            position = at + 1
        if character == "<" or character == "`":
            return self._scan_mark(text, at, start)
        self._quote = self._find_quote(text, at, start)
        return at + 1

    def _find_quote(self, text: str, at: int, start: int) -> str:
        """What closes the string that the mark at `at` opens; empty if it opens none."""
        mark = text[at]
        if self._opens_string(text, at, start):
            return "”" if mark == "“" else mark
        if at > start and text[at - 1] != mark:
            return ""
        before = self._look_back(text, at, start)
        is_triple = before.endswith(mark * 2) and before[:-2].rstrip()[-1:] in _OPENS_STRING
        return mark * 3 if is_triple else ""

    def _scan_mark(self, text: str, at: int, start: int) -> int:
        mark = _MARK.match(text, at)
        if mark is None:
            if _MARK.is_prefix(text, at):
                return at  # fed again with what follows
            if text[at] == "`" and self._opens_string(text, at, start):
                self._quote = "`"
            return at + 1
        if mark.group() == FENCE:
            if self._fence_depth == self._depth:
                self._fence_depth = -1
                return mark.end()
            if self._fence_depth < 0 and self._opens_string(text, at, start):
                self._fence_depth = self._depth
                return mark.end()
        if mark.group() in _ENDS_BLOCK:
            return ~at
        self._quote = mark.group()
        self._may_be_key = self._look_back(text, at, start).rstrip()[-1:] in ("{", ",")
        return mark.end()

    def _opens_string(self, text: str, at: int, start: int) -> bool:
        """Whether a value may begin at `at`, by the last character before it that is no whitespace."""
        before = self._look_back(text, at, start)
        solid = before.rstrip()
        if before[-1:] in _PREFIXES and len(before) == len(solid):
            solid = solid[:-1].rstrip()
        return solid[-1:] in _OPENS_STRING

    def _look_back(self, text: str, at: int, start: int) -> str:
        """What stands before `at`, _LOOK_BACK_CHARS at most; what was passed earlier ends at `start`."""
        if at - start >= _LOOK_BACK_CHARS:
            return text[at - _LOOK_BACK_CHARS : at]
        return (self._tail + text[start:at])[-_LOOK_BACK_CHARS:]


class UntilMarker:
    """The block reaches to the end of the first match of `closer`, which has `max_chars` characters at most."""

    quote, may_end = "", bool

    def __init__(self, closer: re.Pattern[str] | LazyPattern, max_chars: int) -> None:
        self.parts: list[str] = []
        self.size = 0
        self._closer = closer
        self._max_chars = max_chars

    def feed(self, text: str, position: int) -> tuple[int, bool]:
        closer = self._closer.search(text, position)
        end = closer.end() if closer else max(position, len(text) - self._max_chars)
        self.parts.append(text[position:end])
        self.size += end - position
        return end, closer is not None
