"""Makes text from others harmless for a terminal. Pure; linear; the same result whatever the chunks.

Text of a model, a tool, a server or a file may contain what a terminal obeys. `Sanitizer` reads it as a terminal would
(ECMA-48: ESC and C1 sequences, and strings that end at BEL, ST, CAN, SUB or ESC) and drops each sequence with its
payload. It holds nothing back, since what came before tells what to drop. A control that moves the cursor within a line
(a carriage return) becomes a line end, so that nothing is overwritten. Bidi controls, zero-width characters and tags
are dropped; joiners and variation selectors stay if a script needs them. `reveal` is for text that the user approves:
it drops nothing and shows all of that as escapes.
"""

from __future__ import annotations

from collections.abc import Set
from typing import ClassVar

from ...types.lazy_pattern import LazyPattern

MAX_STRING_CHARS = 65_536  # of a payload without an end: it hides no more than this, and no further line
MAX_CONTROL_CHARS = 64  # parameters of a control sequence

_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_INVISIBLE_MARKS = (  # or with an effect on the text around them
    "\u00ad\u061c\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
_DROPPED = f"\x00-\x08\x0e-\x1f\x7f-\x9f{_INVISIBLE_MARKS}"
_LINE_ENDS = "\r\x0b\x0c\x85\u2028\u2029"
_SPECIAL = LazyPattern(f"[{_DROPPED}{_LINE_ENDS}{_JOINERS}{_SELECTORS}\ud800-\udfff]")
_SELECTOR = LazyPattern(f"[{_SELECTORS}]")
_CONTROLS = LazyPattern("[\x00-\x08\x0b-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069]")

_INTRODUCED = {"[": "control", "]": "string", "P": "string", "_": "string", "^": "string", "X": "string"}
_C1 = {"\x9b": "control", "\x9d": "string", "\x90": "string", "\x9f": "string", "\x9e": "string", "\x98": "string"}
_STRING_ENDS = frozenset("\x07\x9c\x18\x1a")


class Sanitizer:
    """Sanitizes one text in chunks."""

    _sought: ClassVar[LazyPattern] = _SPECIAL  # what is not let through as it is

    def __init__(self) -> None:
        self._state = "text"  # text, escape, control, string
        self._length = 0  # of the sequence so far
        self._last = ""  # the last character let through, or "\r" where that was a carriage return

    def feed(self, text: str) -> str:
        """The next chunk, without what a terminal would obey."""
        if self._state == "text" and self._last != "\r" and not self._sought.search(text):
            self._last = text[-1:] or self._last
            return text
        out: list[str] = []
        for character in text:
            if self._state != "text" and self._swallows(character):
                continue
            out.append(self._replace(character))
        return "".join(out)

    def _swallows(self, character: str) -> bool:
        """Whether the character belongs to the open sequence. If not, the text goes on with it."""
        state, self._length = self._state, self._length + 1
        if state == "escape":
            self._state = _INTRODUCED.get(character, "escape" if " " <= character <= "/" else "text")
            belongs = " " <= character <= "~"
        elif state == "control":
            self._state = "control" if " " <= character <= "?" and self._length <= MAX_CONTROL_CHARS else "text"
            belongs = " " <= character <= "~"
        else:
            ended = character in _STRING_ENDS
            belongs = ended or (character not in "\x1b\n\r" and self._length <= MAX_STRING_CHARS)
            self._state = "string" if belongs and not ended else "text"
        if not belongs:
            self._state = "text"
        if self._state != state:
            self._length = 0
        return belongs

    def _replace(self, character: str) -> str:
        last, self._last = self._last, character
        if character == "\n" and last == "\r":
            return ""  # it belongs to the carriage return
        if not self._sought.match(character):
            return character
        if character in _LINE_ENDS:
            return "\n"
        if "\ud800" <= character <= "\udfff":
            self._last = "\ufffd"  # what follows is judged by what is shown
            return self._last
        if _may_follow(last, character):
            return character
        self._last = last
        if character == "\x1b" or character in _C1:
            self._state, self._length = _C1.get(character, "escape"), 0
        return ""


class ControlRemover(Sanitizer):
    """Removes what a terminal would obey, and nothing that is only invisible: for a file or a pipe."""

    _sought: ClassVar[LazyPattern] = _CONTROLS


def _may_follow(last: str, character: str) -> bool:
    """Whether a character that is only invisible is a joiner or a variation selector that may stand behind another.

    A joiner may as in Persian and Hindi. Emoji lose theirs: terminals disagree on the width.
    """
    if character in _JOINERS:
        return last > "\u0300" and (last.isalpha() or not last.isprintable() or "\u0300" <= last <= "\u1cff")
    is_selector = _SELECTOR.match(character) is not None
    return is_selector and last > "\xa0" and last not in _JOINERS and not _SELECTOR.match(last)


def sanitize(text: str) -> str:
    """A whole text without what a terminal would obey."""
    return Sanitizer().feed(text) if _SPECIAL.search(text) else text


# Printable for Python, but invisible: fillers, joiners and variation selectors.
_FILLERS = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_VARIATIONS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_INVISIBLE = frozenset(map(chr, (*_FILLERS, *_VARIATIONS)))
_PADDING_CODES = {" ": "\\x20", "\n": "\\n"}
_UNSEEN = f"{_INVISIBLE_MARKS}{_JOINERS}{''.join(sorted(_INVISIBLE))}"
_BLANK = rf"(?:[^\S\n]|[{_UNSEEN}])"
MIN_PADDING = 400  # blanks
# Each alternative begins only where a run begins, so that the search is linear.
_PADDING = LazyPattern(rf"(?<![\s{_UNSEEN}])(?:{_BLANK}*\n){{10,}}|(?<!{_BLANK}){_BLANK}{{{MIN_PADDING},}}")


def reveal(text: str, *, on_one_line: bool = False) -> str:
    """The text with an escape for each character that a terminal would hide or obey, so that the user sees what runs.

    `on_one_line`: for a line end, too.

    Long runs of blanks or of lines of blanks, which would push the rest off the screen, are counted: `\\x20{12000}`,
    or `\\s{12000}` where they are of several kinds. If the text contains any of these, its own backslashes are doubled.
    """
    if len(text) < MIN_PADDING and text.isprintable() and _INVISIBLE.isdisjoint(text):
        return text  # as most lines, without a search: no line end, and too short for blanks
    hidden = {each for each in set(text) if each in _INVISIBLE or not each.isprintable()}
    if not on_one_line:
        hidden.discard("\n")
    if not hidden and not _PADDING.search(text):
        return text
    shown: list[str] = []
    end = 0
    for padding in _PADDING.finditer(text):
        shown += [_escape(text[end : padding.start()], hidden), _count_padding(padding[0], on_one_line=on_one_line)]
        end = padding.end()
    return "".join([*shown, _escape(text[end:], hidden)])


def _escape(text: str, hidden: Set[str]) -> str:
    return "".join(ascii(each)[1:-1] if each in hidden else each for each in text.replace("\\", "\\\\"))


def _count_padding(padding: str, *, on_one_line: bool) -> str:
    code = _PADDING_CODES.get("".join(set(padding)), "\\s")
    return f"{code}{{{len(padding)}}}" + ("\n" if "\n" in padding and not on_one_line else "")
