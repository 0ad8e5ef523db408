"""The lines at the bottom of the terminal that change, redrawn in place below the finished lines.

The region never exceeds the screen, so lines that have scrolled away are never touched. A change is one write; an
update without a change writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

# Synchronized output (DEC mode 2026) where the terminal has it; the cursor is hidden for the others.
_BEGIN, _END = "\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[K", "\x1b[J"


class ScreenLine(NamedTuple):
    """A line with its colours, and its width in columns, which is less than the terminal's."""

    text: str
    width: int


class LiveRegion:
    """The region. Between updates the cursor is at the end of its last line, or at the start of an empty line.

    `columns` returns the width of the terminal.
    """

    def __init__(self, stream: TextIO, columns: Callable[[], int]) -> None:
        self._stream = stream
        self._columns = columns
        self._drawn_columns = 0
        self._lines: list[ScreenLine] = []

    def update(self, above: Sequence[str], lines: Sequence[ScreenLine]) -> None:
        """Add finished lines of any length above the region, and redraw the region as `lines`."""
        columns, old, new = self._columns(), self._lines, list(lines)
        resized = bool(old) and columns != self._drawn_columns
        if not above and old == new and not resized:
            return
        unchanged = 0 if above or resized else _count_common(old, new)
        out = [_BEGIN, "\r", _move_up(_count_rows(old[unchanged:], columns) - 1)]
        if above or resized:
            out.append(_CLEAR_BELOW)
        out += [f"{line}\r\n" for line in above]
        out.append("\r\n".join(f"{line.text}{_CLEAR_LINE}" for line in new[unchanged:]))
        out += [_CLEAR_BELOW, _END]
        self._stream.write("".join(out))
        self._stream.flush()
        self._lines, self._drawn_columns = new, columns

    def wipe(self) -> None:
        """Empty the screen; lines that have scrolled away stay."""
        self._stream.write("\x1b[H\x1b[2J")
        self.reset()

    def reset(self) -> None:
        """Overwrite nothing in the next update: the cursor is at the start of another line."""
        self._lines = []


def _count_rows(lines: Sequence[ScreenLine], columns: int) -> int:
    """Rows on the screen: a terminal that became narrower has wrapped the lines."""
    return sum(max(1, -(-line.width // max(columns, 1))) for line in lines)


def _count_common(old: Sequence[ScreenLine], new: Sequence[ScreenLine]) -> int:
    """Lines at the top that are equal. The last line of either is always redrawn: the cursor ends there."""
    limit = min(len(old), len(new)) - 1
    return next((index for index in range(limit) if old[index] != new[index]), max(limit, 0))


def _move_up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""
