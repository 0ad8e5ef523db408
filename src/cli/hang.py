"""The program's own lines on a narrower terminal: broken at blanks, and what follows indented. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable


def hang(line: str, columns: int, width: Callable[[str], int] = len) -> list[str]:
    """The line in pieces that fit, what goes on below the last column that begins in its left half.

    A word that would not fit there either stays where it is: the terminal breaks it.
    """
    if width(line) <= columns:
        return [line]
    indent = _indent(line, columns)
    pieces, piece = [], line[:indent]
    for number, word in enumerate(line[indent:].split(" ")):
        longer = f"{piece} {word}" if number else f"{piece}{word}"
        if width(longer) > columns and piece.strip() and width(word) <= columns - indent:
            pieces.append(piece.rstrip())
            longer = " " * indent + word
        piece = longer
    return [*pieces, piece.rstrip()]


def hung(text: str, columns: int, width: Callable[[str], int] = len) -> str:
    return "\n".join(piece for line in text.split("\n") for piece in hang(line, columns, width))


def _indent(line: str, columns: int) -> int:
    starts = [0, *(found.end() for found in re.finditer(r"(?:^ +)|(?<=\S) {2,}(?=\S)", line))]
    return max(start for start in starts if start <= columns // 2)
