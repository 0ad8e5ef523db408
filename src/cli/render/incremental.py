"""What a text that goes on is shown as, where that follows from what it was shown as before. Pure.

An answer grows by a word or two a frame, and most of the time these stand behind the last line and change nothing
else. They do where they hold no character that Markdown may read as more than itself, nor stand behind one, where
the line's kind is settled (it holds a letter by then), and where they fit. Anything else is for who draws it anew.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .text_width import width_of

PLAIN = re.compile(  # brackets and stars that open and close nothing yet are shown as they are
    r"(?:[^\W_]|[ ,.;:?!'\"/%&+=@^{}$(\[\u2010-\u2027\u3001-\u303f\uff01-\uff60-]| \*{1,2}(?=[^\W_]))+"
)
LETTER = re.compile(r"[^\W\d_]")
ALIGNED = re.compile(r"\||```|~~~")  # tables, and code
INDENTED = re.compile(r" {4}| {0,3}\t")  # by as much as code is
COLOURED = "\x1b[0m"  # how a line ends in a colour
QUOTED = "▌"  # before a line of a quotation, which is narrower than the rest


class Growing:
    """The text that was drawn last, for so many columns, and its lines. `markdown`: or as it is."""

    def __init__(self, *, markdown: bool = True) -> None:
        self._markdown = markdown
        self._text = ""
        self._width = 0
        self._lines: list[str] = []
        self._grows = False

    def lines(self, text: str, width: int) -> list[str] | None:
        """None where it is to be drawn anew, and `drawn` told."""
        if width != self._width or not text.startswith(self._text):
            return None
        if more := text[len(self._text) :].rstrip(" "):
            blanks = self._text[len(self._text.rstrip(" ")) :]
            longer = f"{self._lines[-1]}{blanks}{more}" if self._grows else ""
            plain = PLAIN.fullmatch(more) if self._markdown else more.isprintable()
            if not longer or not plain or width_of(longer) > width:
                return None
            self._lines[-1] = longer
            self._text += text[len(self._text) : len(self._text) + len(more)]
        return [*self._lines]

    def drawn(self, text: str, width: int, lines: Sequence[str]) -> list[str]:
        self._text, self._width, self._lines = text, width, [*lines]
        self._grows = self._is_settled(text, lines[-1]) if lines and self._markdown else bool(lines)
        return [*lines]

    @staticmethod
    def _is_settled(text: str, last: str) -> bool:
        """Whether a plain word more would change nothing; `last` is the last line drawn."""
        line = text[text.rfind("\n") + 1 :]
        settled = (
            LETTER.search(line) and PLAIN.match(line.rstrip(" ")[-1]) and not INDENTED.match(line) and "#" not in line
        )
        return bool(settled and not last.endswith(COLOURED) and QUOTED not in last and not ALIGNED.search(text))
