"""What others wrote, made harmless for a terminal. Pure; linear; the same whatever the chunks.

A model, a tool, a server and a file can hold what a terminal obeys. `Sanitizer` reads them as a terminal
would (ECMA-48: ESC and C1 sequences, and strings that end at BEL, ST, CAN, SUB or ESC), and leaves out
all of a sequence, its payload too; the text between stays. Nothing is held back: what is left out is
known from what came before. What moves the cursor within a line (a carriage return) becomes a new line,
so that nothing is written over. Bidi controls, zero-width characters and tags are left out; joiners and
variation selectors stay where a script needs them. `reveal` is for what must be seen before it is
approved: it leaves out nothing and shows all of that as escapes.
"""

from __future__ import annotations

import re

MAX_STRING_CHARS = (
    65_536  # characters of a sequence's payload: an unended one hides no more than this, and no line after
)
LONGEST_CONTROL = 64  # of a control sequence's parameters

_JOINERS = "\u200c\u200d"
_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_GONE = (  # no shape of their own, or an effect on what is around them
    "\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u061c\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\U000e0000-\U000e007f\U000e0080-\U000e00ff\U000e01f0-\U000e0fff"
)
_LINE_ENDS = "\r\x0b\x0c\x85\u2028\u2029"
_SPECIAL = re.compile(f"[{_GONE}{_LINE_ENDS}{_JOINERS}{_SELECTORS}\ud800-\udfff]")
_SELECTOR = re.compile(f"[{_SELECTORS}]")

_INTRODUCED = {"[": "control", "]": "string", "P": "string", "_": "string", "^": "string", "X": "string"}
_C1 = {"\x9b": "control", "\x9d": "string", "\x90": "string", "\x9f": "string", "\x9e": "string", "\x98": "string"}
_STRING_ENDS = frozenset("\x07\x9c\x18\x1a")


class Sanitizer:
    """State between the chunks of one text."""

    def __init__(self) -> None:
        self._state = "text"  # text, escape, control, string
        self._length = 0  # of the sequence so far
        self._last = ""  # the last character let through, or "\r" where that was a carriage return

    def feed(self, text: str) -> str:
        """The next chunk, without what would steer a terminal."""
        if self._state == "text" and self._last != "\r" and not _SPECIAL.search(text):
            self._last = text[-1:] or self._last
            return text
        out: list[str] = []
        for character in text:
            if self._state != "text" and self._swallows(character):
                continue
            if shown := self._shown(character):
                out.append(shown)
        return "".join(out)

    def _swallows(self, character: str) -> bool:
        """Whether the character belongs to the sequence that is open; where not, it is text again."""
        state, self._length = self._state, self._length + 1
        if state == "escape":
            self._state = _INTRODUCED.get(character, "escape" if " " <= character <= "/" else "text")
            ours = " " <= character <= "~"
        elif state == "control":
            self._state = "control" if " " <= character <= "?" and self._length <= LONGEST_CONTROL else "text"
            ours = " " <= character <= "~"
        else:
            ended = character in _STRING_ENDS
            ours = ended or (character not in "\x1b\n\r" and self._length <= MAX_STRING_CHARS)
            self._state = "string" if ours and not ended else "text"
        if not ours:
            self._state = "text"
        if self._state != state:
            self._length = 0
        return ours

    def _shown(self, character: str) -> str:
        last, self._last = self._last, character
        if character == "\n" and last == "\r":
            return ""  # the line has ended already
        if not _SPECIAL.match(character):
            return character
        if character in _LINE_ENDS:
            return "\n"
        if "\ud800" <= character <= "\udfff":
            self._last = "\ufffd"  # what follows it follows what is shown
            return self._last
        if (character in _JOINERS and _joins(last)) or (_SELECTOR.match(character) and _varies(last)):
            return character
        self._last = last
        if character == "\x1b" or character in _C1:
            self._state, self._length = _C1.get(character, "escape"), 0
        return ""


def _joins(last: str) -> bool:
    """Whether a script that is written with joiners may have one here: Persian and Hindi may, emoji lose theirs,
    since terminals do not agree on how wide the joined ones are."""
    return last > "\u0300" and (last.isalpha() or not last.isprintable() or "\u0300" <= last <= "\u1cff")


def _varies(last: str) -> bool:
    return last > "\xa0" and last not in _JOINERS and not _SELECTOR.match(last)


def sanitize(text: str) -> str:
    """A whole text without what would steer a terminal."""
    return Sanitizer().feed(text) if _SPECIAL.search(text) else text


# Printable by Unicode's count, and nothing to see: fillers, joiners and variation selectors.
_FILLERS = (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0)
_VARIATIONS = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))
_UNSEEN = frozenset(map(chr, (*_FILLERS, *_VARIATIONS)))
_PADDING = re.compile(r" {400,}|\n{10,}")


def reveal(text: str) -> str:
    """The text with every character visible that a terminal would hide or obey: what the user approves is what runs.

    Blanks or empty lines by the dozen, which would push the rest off the screen, are counted: `\\x20{12000}`.
    A text that needs any of it has its own backslashes doubled.
    """
    padded = _PADDING.search(text)
    if not padded and all(map(_is_seen, text)):
        return text
    shown = "".join(each if _is_seen(each) else ascii(each)[1:-1] for each in text.replace("\\", "\\\\"))
    return _PADDING.sub(_counted, shown) if padded else shown


def _counted(padding: re.Match[str]) -> str:
    code = "\\x20" if padding[0][0] == " " else "\\n"
    return f"{code}{{{len(padding[0])}}}" + ("\n" if code == "\\n" else "")


def _is_seen(character: str) -> bool:
    return (character.isprintable() and character not in _UNSEEN) or character == "\n"
