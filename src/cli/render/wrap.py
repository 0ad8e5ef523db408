"""Wrap the program's own lines with a hanging indent. Pure, and without rich, which the plain screen does not need."""

from __future__ import annotations

import re
from collections.abc import Callable

ELLIPSIS = "..."
TAB_COLUMNS = 4
HANGING_INDENT = 4
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")  # between columns
FIRST_EAST_ASIAN = "\u2e80"  # these scripts have no blanks between words


def wrap_line(line: str, columns: int, width: Callable[[str], int] = len) -> list[str]:
    """Break a line into pieces that fit, indented to the last column of text that starts in its left half.

    A wide gap before a column in the right half is closed instead.
    A word longer than a line is left for the terminal to break. `width` measures a text in columns. Tabs become blanks.
    """
    line = line.expandtabs(TAB_COLUMNS)
    if width(line) <= columns:
        return [line]
    margin = len(line) - len(line.lstrip(" "))
    starts = [0, margin, *(found.end() for found in _GAP.finditer(line))]
    indent = max(start for start in starts if start <= columns // 2)
    if max(starts) > columns // 2 and (closed := _GAP.sub("  ", line)) != line:
        line, indent = closed, min(margin, indent) + HANGING_INDENT
    pieces, piece = [], line[:indent]
    for number, word in enumerate(line[indent:].split(" ")):
        longer = f"{piece} {word}" if number else f"{piece}{word}"
        if width(longer) > columns and piece.strip() and width(word) <= columns - indent:
            pieces.append(piece.rstrip())
            longer = " " * indent + word
        piece = longer
    return [*pieces, piece.rstrip()]


def wrap_text(text: str, columns: int, width: Callable[[str], int] = len) -> str:
    return "\n".join(piece for line in text.split("\n") for piece in wrap_line(line, columns, width))


def cut_at_word(text: str, columns: int, width: Callable[[str], int] = len) -> str:
    """The text, or its first whole words and `...` if it does not fit."""
    if width(text) <= columns:
        return text
    end = 0
    while end < len(text) and width(text[: end + 1]) <= columns - len(ELLIPSIS):
        end += 1
    while 0 < end < len(text) and _is_of_word(text[end - 1]) and _is_of_word(text[end]):
        end -= 1
    return text[:end].rstrip(" \\") + ELLIPSIS[: max(columns, 0)]


def _is_of_word(character: str) -> bool:
    return (character.isalnum() or character == "_") and character < FIRST_EAST_ASIAN
