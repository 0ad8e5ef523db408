"""A window of a text of any size: some of its lines, numbered, cut to what a model can take.

It streams. To get to the first line, newlines are counted in the bytes, which takes half a second a
gigabyte; UTF-16, whose newline is no single byte, is decoded on the way there, ten times slower.
"""

from __future__ import annotations

import io
from functools import partial
from typing import BinaryIO, NamedTuple

from ...errors import ToolError

MOST = 50_000  # bytes (UTF-8) shown at once, less than what a result is cut to
WIDTH = 2_000  # characters shown of a line
CHUNK = 1 << 20  # bytes


class Window(NamedTuple):
    """`text` ends with a newline where it is not empty; `next` is the first line not shown, None at the end."""

    text: str
    next: int | None
    final_newline: bool = True  # of the last line shown


def window(name: str, file: BinaryIO, codec: str, first: int, limit: int | None) -> Window:
    """Lines from `first` on (counted from 1), as many as `limit`, MOST and the text let through.

    `file` stands at the text's begin and is closed in the end. Raises ToolError where there is no such line.
    """
    if first < 1 or (limit is not None and limit < 1):
        raise ToolError("offset and limit count from 1")
    decoded_way = codec.startswith("utf-16")
    last = None if decoded_way else _pass_bytes(file, first - 1)
    with io.TextIOWrapper(file, codec, errors="replace", newline="\n") as text:
        if decoded_way:
            last = _pass_lines(text, first - 1)
        seen = _shown(text, first, limit) if last is None else Window("", None)
    if not seen.text and first > 1:
        raise ToolError(f"{name} has no line {first}: its last is {first - 1 if last is None else last}")
    return seen


def _shown(text: io.TextIOWrapper, first: int, limit: int | None) -> Window:
    shown: list[str] = []
    room, ended, more = MOST, True, ""
    while limit is None or len(shown) < limit:
        more, whole = _line(text, first + len(shown))
        room -= len(more.encode("utf-8", "replace"))
        if not more or room < 0:
            break
        shown.append(more)
        ended = whole
    else:
        more = text.read(1)
    return Window("".join(shown), first + len(shown) if more else None, ended)


def _line(text: io.TextIOWrapper, number: int) -> tuple[str, bool]:
    """The next line as it is shown, "" at the end; and whether a newline ended it."""
    line = text.readline(WIDTH + 1)
    if not line:
        return "", False
    ended, cut = line.endswith("\n"), ""
    if not ended and len(line) > WIDTH:
        rest, ended = _rest(text)
        line, cut = line[:WIDTH], f" [... {rest + 1:,} more characters]"
    plain = line.removesuffix("\n").removesuffix("\r").replace("\0", "\ufffd")
    return f"{number}\t{plain}{cut}\n", ended


def _rest(text: io.TextIOWrapper) -> tuple[int, bool]:
    """Pass over the rest of a line: its length in characters, and whether a newline ended it."""
    length = 0
    for piece in iter(partial(text.readline, CHUNK), ""):
        length += len(piece)
        if piece.endswith("\n"):
            return length - 1, True
    return length, False


def _pass_lines(text: io.TextIOWrapper, lines: int) -> int | None:
    """Pass over so many lines; where there are fewer, the number of the last."""
    for passed in range(lines):
        length, ended = _rest(text)
        if not ended:
            return passed + bool(length)
    return None


def _pass_bytes(file: BinaryIO, lines: int) -> int | None:
    """The same, by the bytes alone."""
    passed, end = 0, b"\n"
    while passed < lines:
        start = file.tell()
        data = file.read(CHUNK)
        if not data:
            return passed + (end != b"\n")
        count = data.count(b"\n")
        if passed + count >= lines:
            at = -1
            for _ in range(lines - passed):
                at = data.find(b"\n", at + 1)
            file.seek(start + at + 1)
        passed, end = passed + count, data[-1:]
    return None
