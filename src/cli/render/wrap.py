"""Wrap lines: the program's own with a hanging indent, those of others behind a mark. Pure.

Without rich, which the plain screen does not need.
"""

from __future__ import annotations

from collections.abc import Callable
from unicodedata import east_asian_width

from ...types.lazy_pattern import LazyPattern

ELLIPSIS = "..."
TAB_COLUMNS = 4
HANGING_INDENT = 4
_GAP = LazyPattern(r"(?<=\S) {2,}(?=\S)")  # between columns
FIRST_EAST_ASIAN = "\u2e80"  # these scripts have no blanks between words
FIRST_EMOJI = "\U0001f000"
QUOTE_MARGIN = "    "  # before the marks of text that others wrote
QUOTE_COLUMNS = len(QUOTE_MARGIN) + len("| ")
MIN_PIECE_COLUMNS = 2  # of such a text, however narrow the terminal is


def wrap_line(line: str, columns: int, width: Callable[[str], int] = len) -> list[str]:
    """Break a line into pieces that fit, indented to the last column of text that starts in its left half.

    A wide gap before a column in the right half is closed instead.
    A word longer than a line is left for the terminal to break. `width` measures a text in columns. Tabs become blanks.
    Below one column, there is no terminal: the line stays as it is.
    """
    if columns < 1:
        return [line]
    line = line.expandtabs(TAB_COLUMNS)
    if width(line) <= columns:
        return [line]
    margin = len(line) - len(line.lstrip(" "))
    starts = [0, margin, *(gap.end() for gap in _GAP.finditer(line))]
    indent = max(start for start in starts if start <= columns // 2)
    if max(starts) > columns // 2 and (closed := _GAP.sub("  ", line)) != line:
        line, indent = closed, min(margin, indent) + HANGING_INDENT
    return _break_line(line, indent, columns, width)


def _break_line(line: str, indent: int, columns: int, width: Callable[[str], int]) -> list[str]:
    """Break it between words; each piece but the first is indented."""
    first, *words = line[indent:].split(" ")
    pieces: list[str] = []
    piece = line[:indent]
    for word, longer_by in ((first, first), *((word, f" {word}") for word in words)):
        longer = piece + longer_by
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


def measure_at_most(text: str) -> int:
    """The columns that the text takes on any terminal, at most. Terminals differ, above all about emoji."""
    if text.isascii():
        return len(text)
    return sum(map(_measure_character, text))


def _measure_character(character: str) -> int:
    if character >= FIRST_EMOJI or east_asian_width(character) in "WF":
        return 2
    return 1


def split_at_columns(text: str, columns: int, first: int = 0) -> list[str]:
    """Pieces of at most so many columns, broken behind a blank where one is near. Together they are the text.

    `first`: of the first piece, if it differs.
    """
    pieces: list[str] = []
    start, room = 0, first or columns
    while start < len(text):
        end = _find_end(text, start, room)
        blank = text.rfind(" ", start, end) + 1
        if end < len(text) and blank - start > (end - start) // 2:
            end = blank
        pieces.append(text[start:end])
        start, room = end, columns
    return pieces or [""]


def _find_end(text: str, start: int, columns: int) -> int:
    """Where a piece from `start` on ends that has so many columns; it has one character at least."""
    end = start + columns
    if len(text[start:end]) == measure_at_most(text[start:end]):
        return min(end, len(text))
    end, used = start + 1, _measure_character(text[start])
    while end < len(text) and (used := used + _measure_character(text[end])) <= columns:
        end += 1
    return end


def fold_line(line: str, columns: int) -> list[str]:
    """A line in which others have a say. What does not fit stands behind `: ` on the next lines; 0 columns: all fits.

    No line of the program's own begins like that, and the terminal breaks none at its first column.
    """
    if not columns:
        return [line]
    first, *others = split_at_columns(line, max(columns - QUOTE_COLUMNS, MIN_PIECE_COLUMNS), columns)
    return [first, *(f"{QUOTE_MARGIN}: {piece}" for piece in others)]


def quote_text(text: str, columns: int) -> list[str]:
    """The lines of a text that others wrote, each behind `| `, and the rest of a long one behind `: `."""
    return [piece for line in text.split("\n") for piece in fold_line(f"{QUOTE_MARGIN}| {line}", columns)]


def mark_text(text: str, mark: str, columns: int) -> list[str]:
    """The lines of a text, and the pieces of long ones, behind the same mark; 0 columns: all fit."""
    room = len(text)
    if columns:
        room = max(columns - len(mark), MIN_PIECE_COLUMNS)
    return [f"{mark}{piece}".rstrip() for line in text.split("\n") for piece in split_at_columns(line, room)]
