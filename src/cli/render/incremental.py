"""Extend the drawn lines of a growing text without rendering it again. Pure.

An answer grows by a word or two a frame, and usually they only lengthen the last line. That holds if the words fit, if
neither they nor the character before them is Markdown syntax, and if the kind of the line is settled, which needs a
letter in it. Otherwise the caller renders the text anew. This halves the cost of a frame (tests/benchmarks/render.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .text_width import measure_width

PLAIN = re.compile(  # includes brackets and stars that open or close nothing yet
    r"(?:[^\W_]|[ ,.;:?!'\"/%&+=@^{}$(\[\u2010-\u2027\u3001-\u303f\uff01-\uff60-]| \*{1,2}(?=[^\W_]))+"
)
LETTER = re.compile(r"[^\W\d_]")
ALIGNED = re.compile(r"\||```|~~~")  # tables and code
INDENTED = re.compile(r" {4}| {0,3}\t")  # as code is
COLOUR_END = "\x1b[0m"
QUOTE_BAR = "▌"  # precedes a line of a quotation, which is narrower than the others


class IncrementalText:
    """The text drawn last, its width in columns, and its lines. `markdown`: the text is Markdown."""

    def __init__(self, *, markdown: bool = True) -> None:
        self._markdown = markdown
        self._text = ""
        self._width = 0
        self._lines: list[str] = []
        self._can_grow = False

    def extend(self, text: str, width: int) -> list[str] | None:
        """The lines of the longer text; None if the caller must render it anew and call `remember`."""
        if width != self._width or not text.startswith(self._text):
            return None
        if more := text[len(self._text) :].rstrip(" "):
            if not self._can_grow or not self._is_plain(more):
                return None
            blanks = self._text[len(self._text.rstrip(" ")) :]
            longer = f"{self._lines[-1]}{blanks}{more}"
            if measure_width(longer) > width:
                return None
            self._lines[-1] = longer
            self._text += text[len(self._text) : len(self._text) + len(more)]
        return [*self._lines]

    def remember(self, text: str, width: int, lines: Sequence[str]) -> list[str]:
        """Keep the lines that the caller rendered. Returns them."""
        self._text, self._width, self._lines = text, width, [*lines]
        self._can_grow = bool(lines)
        if lines and self._markdown:
            self._can_grow = self._is_settled(text, lines[-1])
        return [*lines]

    def _is_plain(self, more: str) -> bool:
        if self._markdown:
            return PLAIN.fullmatch(more) is not None
        return more.isprintable()

    @staticmethod
    def _is_settled(text: str, last: str) -> bool:
        """Whether another plain word would change nothing but the last drawn line."""
        line = text[text.rfind("\n") + 1 :]
        settled = (
            LETTER.search(line) and PLAIN.match(line.rstrip(" ")[-1]) and not INDENTED.match(line) and "#" not in line
        )
        return bool(settled and not last.endswith(COLOUR_END) and QUOTE_BAR not in last and not ALIGNED.search(text))
