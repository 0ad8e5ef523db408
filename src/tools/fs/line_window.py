"""Read some lines of a text of any size, numbered, and at most as many as a model can take.

It streams. To find the first line, it counts newlines in the bytes, which takes half a second per gigabyte; UTF-16,
whose newline is not a single byte, is decoded for that, ten times slower. The last lines are read from the end of the
file, without their numbers, and the rest of a very long line is not counted.
"""

from __future__ import annotations

import io
import os
import sys
from functools import partial
from typing import BinaryIO, NamedTuple

from ...errors import ToolError
from ...types.file_names import escape_name

MAX_WINDOW_BYTES = 50_000  # of UTF-8; less than a result is cut to
MAX_LINE_CHARS = 2_000  # shown
READ_BYTES = 1 << 20
MAX_COUNTED_CHARS = 50_000_000  # of the rest of a line


class Window(NamedTuple):
    """`text` ends with a newline unless it is empty; `next` is the number of the first line not shown, if any."""

    text: str
    next: int | None
    final_newline: bool = True  # of the last line shown


def read_window(name: str, file: BinaryIO, codec: str, first: int, limit: int | None) -> Window:
    """Lines from `first` on (counted from 1), at most `limit` of them and MAX_WINDOW_BYTES.

    `file` is at the start of the text; it is closed. Raises ToolError if there is no line `first`.
    """
    _refuse_zero(first, limit)
    is_utf16 = codec.startswith("utf-16")
    last, window = None, Window("", None)
    if not is_utf16:
        last = _skip_lines_of_bytes(file, first - 1)
    with io.TextIOWrapper(file, codec, errors="replace", newline="\n") as text:
        if is_utf16:
            last = _skip_lines(text, first - 1)
        if last is None:
            window = (not is_utf16 and _read_short(file, codec, first, limit)) or _read_lines(text, first, limit)
    if not window.text and first > 1:
        raise ToolError(f"{escape_name(name)} has no line {first}: its last is {first - 1 if last is None else last}")
    return window


def read_part(name: str, file: BinaryIO, number: int, first: int, limit: int) -> tuple[str, bool]:
    """Characters of line `number` from `first` on (both counted from 1), at most `limit`, and whether more follow.

    `file` is at the start of a text in UTF-8; it is closed. Raises ToolError if there is no such line.
    """
    with io.TextIOWrapper(file, "utf-8", errors="replace", newline="\n") as text:
        _refuse_zero(min(number, first), limit)
        last = _skip_lines_of_bytes(file, number - 1)
        line = "" if last is not None else text.readline(first - 1 + limit + 1)
        if not line:
            raise ToolError(
                f"{escape_name(name)} has no line {number}: its last is {number - 1 if last is None else last}"
            )
    line = line.removesuffix("\n")
    return line[first - 1 : first - 1 + limit], len(line) > first - 1 + limit


def read_tail(file: BinaryIO, codec: str, lines: int, limit: int | None) -> str:
    """The last lines of a long text, without their numbers: at most so many, in the last MAX_WINDOW_BYTES.

    Of them, the first `limit`. `file` is longer than READ_BYTES. The text ends with a newline unless it is empty.
    """
    _refuse_zero(lines, limit)
    file.seek(-READ_BYTES, os.SEEK_END)  # an even number, so that no UTF-16 code unit is cut
    cut, *tail = file.read().decode(codec, "replace").removesuffix("\n").split("\n")
    if not tail:
        return f"[... the end of a very long line:] {_show_line(cut[-MAX_LINE_CHARS:], 0)}"
    shown: list[str] = []
    room = MAX_WINDOW_BYTES
    for line in reversed(tail[-lines:]):
        plain = _show_line(line[:MAX_LINE_CHARS], len(line) - MAX_LINE_CHARS)
        room -= len(plain.encode("utf-8", "replace"))
        if room < 0:
            break
        shown.append(plain)
    return "".join(shown[::-1][:limit])


def count_lines(file: BinaryIO, codec: str) -> int:
    """The number of lines from where `file` is."""
    if not codec.startswith("utf-16"):
        return _skip_lines_of_bytes(file, sys.maxsize) or 0
    text = io.TextIOWrapper(file, codec, errors="replace", newline="\n")
    try:
        return _skip_lines(text, sys.maxsize) or 0
    finally:
        text.detach()


def _refuse_zero(first: int, limit: int | None) -> None:
    if first < 1 or (limit is not None and limit < 1):
        raise ToolError("offset and limit count from 1")


def _read_short(file: BinaryIO, codec: str, first: int, limit: int | None) -> Window | None:
    """As `_read_lines`, at once; None, and nothing is read, of a file that is long or has lines that are not plain."""
    start = file.tell()
    data = file.read(MAX_WINDOW_BYTES + 1)
    *lines, rest = data.decode(codec, "replace").split("\n")
    if rest:
        lines.append(rest)
    shown = lines[:limit]
    text = "".join([f"{number}\t{line}\n" for number, line in enumerate(shown, first)])
    is_plain = "\r" not in text and "\0" not in text and max(map(len, shown), default=0) <= MAX_LINE_CHARS
    if not shown or not is_plain or max(len(data), len(text.encode("utf-8", "replace"))) > MAX_WINDOW_BYTES:
        file.seek(start)
        return None
    has_more = len(shown) < len(lines)
    return Window(text, first + len(shown) if has_more else None, has_more or not rest)


def _read_lines(text: io.TextIOWrapper, first: int, limit: int | None) -> Window:
    shown: list[str] = []
    room, ended, more = MAX_WINDOW_BYTES, True, ""
    while limit is None or len(shown) < limit:
        more, has_end = _read_line(text, first + len(shown))
        room -= len(more.encode("utf-8", "replace"))
        if not more or room < 0:
            break
        shown.append(more)
        ended = has_end
    else:
        more = text.read(1)
    return Window("".join(shown), first + len(shown) if more else None, ended)


def _read_line(text: io.TextIOWrapper, number: int) -> tuple[str, bool]:
    """The next line as it is shown, "" at the end of the text; and whether it ended with a newline."""
    line = text.readline(MAX_LINE_CHARS + 1)
    if not line:
        return "", False
    ended, rest = line[-1] == "\n", 0
    if ended and "\r" not in line and "\0" not in line:  # most lines
        return f"{number}\t{line}", True
    if not ended and len(line) > MAX_LINE_CHARS:
        rest, ended = _skip_rest(text, MAX_COUNTED_CHARS)
        line, rest = line[:MAX_LINE_CHARS], rest + 1
    return f"{number}\t{_show_line(line, rest)}", ended


def _show_line(line: str, rest: int) -> str:
    """The line as it is shown, of which `rest` more characters are not."""
    cut = ""
    if rest > MAX_COUNTED_CHARS:
        cut = f" [... more than {MAX_COUNTED_CHARS:,} more characters]"
    elif rest > 0:
        cut = f" [... {rest:,} more characters]"
    return line.removesuffix("\n").removesuffix("\r").replace("\0", "\ufffd") + cut + "\n"


def _skip_rest(text: io.TextIOWrapper, max_chars: int = sys.maxsize) -> tuple[int, bool]:
    """Skip the rest of a line; its length in characters, and whether it ended with a newline.

    If it has more than `max_chars`, the rest of the text is skipped, and how the line ends is not known: True.
    """
    length = 0
    for piece in iter(partial(text.readline, READ_BYTES), ""):
        length += len(piece)
        if piece.endswith("\n"):
            return length - 1, True
        if length > max_chars:
            text.seek(0, os.SEEK_END)
            return length, True
    return length, False


def _skip_lines(text: io.TextIOWrapper, lines: int) -> int | None:
    """Skip lines; the number of the last line if there are fewer, else None."""
    for passed in range(lines):
        length, ended = _skip_rest(text)
        if not ended:
            return passed + bool(length)
    return None


def _skip_lines_of_bytes(file: BinaryIO, lines: int) -> int | None:
    """As `_skip_lines`, without decoding."""
    passed, end = 0, b"\n"
    while passed < lines:
        start = file.tell()
        data = file.read(READ_BYTES)
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
