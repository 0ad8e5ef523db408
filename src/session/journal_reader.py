"""The lines of a journal that still count. Of most nothing is read but how they begin.

Pieces of answers that came whole later are most of a journal. They are stepped over, many at a time and uncopied, so
that a journal is read about as fast as the disk gives it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

HEAD = re.compile(rb'\{"type":"([a-z_]+)","n":(\d{1,15})[,}]')
PIECE, RESPONSE, RESUMED, TORN = b'{"type":"delta",', b'{"type":"response",', b'{"type":"resumed",', b'"torn":true'
BEHIND = re.compile(rb'\n(?!\{"type":"delta",)')  # of a line, where the next is no piece
SHOWN_PROBLEMS = 20
DECODE = json.JSONDecoder().raw_decode


class Line(NamedTuple):
    kind: str
    number: int
    data: bytes


class Lines:
    """`kept`: what counts of the file's `data`; with `until` as it stood before the record of that number."""

    def __init__(self, data: bytes, until: int | None = None) -> None:
        last = data[data.rfind(b"\n") + 1 :]
        self.kept: list[Line] = []
        self.problems: list[str] = []
        self.next = 0  # the number of the record to come
        self.unended = last != b""  # the last line has no line end
        self.torn = self.unended and not _is_whole(last)  # and is not whole without it
        self._data = data
        self._end = len(data) - (len(last) if self.torn else 0)
        self._until = until
        self._read()
        self._data = b""  # what counts has been copied

    def _read(self) -> None:
        data, end = self._data, self._end
        starts = [0, *(found.end() for found in BEHIND.finditer(data, 0, end))]
        torn = {data.rfind(b"\n", 0, start - 1) + 1 for start in starts if self._tells_of_torn(start)}
        behind = 0  # the lines looked at
        for start in [*(start for start in starts if start < end and start not in torn), end]:
            if behind < start and not data.startswith(RESPONSE, start, end):
                for piece in self._starts(behind, start):
                    if piece not in torn:
                        self._keep(piece)
            behind = self._keep(start) if start < end else start

    def _tells_of_torn(self, start: int) -> bool:
        """Whether the session was resumed here, and the line before was torn then."""
        return self._data.startswith(RESUMED, start, self._end) and TORN in self._data[start : self._end_of(start)]

    def _starts(self, start: int, end: int) -> Iterator[int]:
        """Of the lines between."""
        while start < end:
            yield start
            start = self._end_of(start) + 1

    def _end_of(self, start: int) -> int:
        end = self._data.find(b"\n", start, self._end)
        return end if end >= 0 else self._end

    def _keep(self, start: int) -> int:
        """Where the next line begins."""
        end = self._end_of(start)
        head = HEAD.match(self._data, start, end)
        if head is None and start < end and len(self.problems) < SHOWN_PROBLEMS:  # to count takes time
            place = self._data.count(b"\n", 0, start) + 1
            problem(self.problems, f"line {place} could not be read and was skipped")
        elif head and (self._until is None or int(head[2]) < self._until):
            self._take(Line(head[1].decode(), int(head[2]), self._data[start:end]))
        return end + 1

    def _take(self, line: Line) -> None:
        kept = self.kept
        self.next = max(self.next, line.number + 1)
        if line.kind == "undo":
            self._take_back(line)
        elif line.kind != "resumed":
            while line.kind == "response" and kept and kept[-1].kind == "delta":
                kept.pop()  # from a session resumed before the answer was complete
            kept.append(line)

    def _take_back(self, line: Line) -> None:
        to = parsed(line, self.problems).get("to")
        if isinstance(to, int) and to > 0:
            names: list[Line] = []  # the last name stays
            while self.kept and self.kept[-1].number >= to:
                gone = self.kept.pop()
                names = names or ([gone] if gone.kind == "rename" else [])
            self.kept += names


def parsed(line: Line, problems: list[str]) -> dict[str, Any]:
    """What it holds; nothing where it cannot be read."""
    try:
        text = line.data.decode()
        value, end = DECODE(text)
        if end != len(text):
            value = json.loads(text)  # with blanks behind it, or none at all
    except (ValueError, RecursionError) as error:
        problem(problems, f"record {line.number} could not be read and was skipped: {error}")
        return {}
    return value if isinstance(value, dict) else {}


def problem(problems: list[str], text: str) -> None:
    if len(problems) < SHOWN_PROBLEMS:
        problems.append(text)


def _is_whole(data: bytes) -> bool:
    """Whether the line is complete except for its line end."""
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False
