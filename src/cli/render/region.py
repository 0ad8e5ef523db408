"""The lines at the bottom of the terminal that change: drawn in place, below what is finished. No more than the screen
holds, so that nothing that has scrolled by is ever touched; one write a change, and none where nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TextIO

# Drawn at once where the terminal knows synchronized output (DEC mode 2026), and with the cursor hidden where not.
_BEGIN, _END = "\x1b[?2026h\x1b[?25l", "\x1b[?25h\x1b[?2026l"
_CLEAR_LINE, _CLEAR_BELOW = "\x1b[K", "\x1b[J"


class Line(NamedTuple):
    """One line as it is written, colours and all, and its width in columns, which is less than the terminal's."""

    text: str
    width: int


class Region:
    """The cursor is at the end of the last line; where there is none, at the start of an empty one."""

    def __init__(self, stream: TextIO, columns: Callable[[], int]) -> None:
        self._stream = stream
        self._columns = columns
        self._drawn_for = 0
        self._lines: list[Line] = []

    def update(self, above: Sequence[str], lines: Sequence[Line]) -> None:
        """Put finished lines above the region, of any length and for good, and draw the region as these lines."""
        columns, old, new = self._columns(), self._lines, list(lines)
        resized = bool(old) and columns != self._drawn_for
        if not above and old == new and not resized:
            return
        same = 0 if above or resized else _common(old, new)
        out = [_BEGIN, "\r", _up(self._rows(old[same:], columns) - 1)]
        if above or resized:
            out.append(_CLEAR_BELOW)
        out += [f"{line}\r\n" for line in above]
        out.append("\r\n".join(f"{line.text}{_CLEAR_LINE}" for line in new[same:]))
        out += [_CLEAR_BELOW, _END]
        self._stream.write("".join(out))
        self._stream.flush()
        self._lines, self._drawn_for = new, columns

    def wipe(self) -> None:
        """Empty the screen; what has scrolled away is still there."""
        self._stream.write("\x1b[H\x1b[2J")
        self.forget()

    def forget(self) -> None:
        """The cursor is somewhere else by now, at the start of a line: nothing is drawn over."""
        self._lines = []

    def _rows(self, lines: Sequence[Line], columns: int) -> int:
        """A terminal that became narrower has wrapped what was drawn."""
        return sum(max(1, -(-line.width // max(columns, 1))) for line in lines)


def _common(old: Sequence[Line], new: Sequence[Line]) -> int:
    """How many lines at the top stay as they are; the last of either is drawn again, as the cursor goes to its end."""
    most = min(len(old), len(new)) - 1
    return next((index for index in range(most) if old[index] != new[index]), max(most, 0))


def _up(rows: int) -> str:
    return f"\x1b[{rows}A" if rows > 0 else ""
