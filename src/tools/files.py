"""read, write and edit: text files of the workspace, as they are.

`read` streams, also when it looks for the encoding, so that its memory depends on what it shows and not on
the file. `edit` refuses where somebody else changed the file since it looked, and keeps what it does
not touch byte for byte: encoding, byte order mark, line endings, final newline, permissions. Where a file
may be and how it is replaced is in paths.py.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, BinaryIO, NamedTuple

from ..errors import ToolError
from . import paths
from .edits import replace_once
from .registry import ToolContext, tool

READ_MAX = 50_000  # characters shown at once: some 12,000 tokens
CHUNK = 1 << 16  # bytes looked at together for the encoding


class Encoding(NamedTuple):
    bom: bytes
    codec: str
    not_text: re.Pattern[str]  # what a text of this encoding does not hold


NUL = re.compile("\0")
CONTROL = re.compile("[\0-\x07\x0e-\x1a\x1c-\x1f]")
ENCODINGS = (  # the first that fits; any bytes are Latin-1, so that one is held to a stricter look
    Encoding(codecs.BOM_UTF8, "utf-8", NUL),
    Encoding(codecs.BOM_UTF16_LE, "utf-16-le", NUL),
    Encoding(codecs.BOM_UTF16_BE, "utf-16-be", NUL),
    Encoding(b"", "utf-8", NUL),
    Encoding(b"", "latin-1", CONTROL),
)


@tool(risk="low")
def read(
    path: Annotated[str, "File, relative to the workspace"],
    ctx: ToolContext,
    offset: Annotated[int | None, "First line to show, counted from 1"] = None,
    limit: Annotated[int | None, "Number of lines to show"] = None,
) -> str:
    """Read a text file, whole or some of its lines."""
    first = 1 if offset is None else offset
    if first < 1 or (limit is not None and limit < 1):
        raise ToolError("offset and limit count from 1")
    with reading(path, ctx) as text:
        size = os.fstat(text.fileno()).st_size
        if size > ctx.max_file_bytes and offset is None and limit is None:
            raise ToolError(f"{path} is too large to be read whole: {size:,} bytes", "Give offset and limit.")
        return _window(path, text, first, limit)


@tool(risk="high")
def write(
    path: Annotated[str, "File, relative to the workspace"],
    content: Annotated[str, "The whole new content"],
    ctx: ToolContext,
) -> str:
    """Create a text file, or replace its whole content; missing folders are made."""
    old = _content(path, ctx)
    _store(path, content, Encoding(b"", "utf-8", NUL), ctx, old)
    return f"{'Replaced' if old else 'Created'} {path}: {len(content):,} characters"


@tool(risk="high")
def edit(
    path: Annotated[str, "File, relative to the workspace"],
    oldText: Annotated[str, "Exact text to replace; it must occur in the file exactly once"],
    newText: Annotated[str, "Text to put in its place"],
    ctx: ToolContext,
) -> str:
    """Replace a piece of text in a file."""
    if not oldText:
        raise ToolError("oldText is empty", "Use write to create a file or to replace it whole.")
    old = _content(path, ctx)
    if not old:
        raise ToolError(f"{path} does not exist")
    encoding = _encoding_of(path, io.BytesIO(old.data), ctx.max_file_bytes + 1)
    text = old.data[len(encoding.bom) :].decode(encoding.codec)
    changed, line = replace_once(text, oldText, newText)
    _store(path, changed, encoding, ctx, old)
    return f"Edited {path}: 1 replacement, at line {line}"


@contextmanager
def reading(path: str, ctx: ToolContext) -> Iterator[io.TextIOWrapper]:
    """A file of the workspace as a stream of text, its line ends untouched, for any tool that reads.

    What does not decode beyond the first `max_file_bytes`, which tell the encoding, is replaced. Raises
    ToolError for what is outside, missing, no file, or no text.
    """
    with _opened(path, ctx) as file:
        encoding = _encoding_of(path, file, ctx.max_file_bytes)
        file.seek(len(encoding.bom))
        with io.TextIOWrapper(file, encoding.codec, errors="replace", newline="\n") as text:
            yield text


@contextmanager
def _plainly(path: str) -> Iterator[None]:
    """What the system says, as a sentence about the path the model gave."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"{path} does not exist") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}") from error


@contextmanager
def _opened(path: str, ctx: ToolContext) -> Iterator[BinaryIO]:
    with _plainly(path), os.fdopen(paths.open_to_read(paths.resolve(path, ctx.workspace)), "rb") as file:
        yield file


class Content(NamedTuple):
    """A file before it is changed: its bytes, and its state when they were read."""

    data: bytes
    seen: os.stat_result


def _content(path: str, ctx: ToolContext) -> Content | None:
    """What a file that is to be changed holds; None where there is none. It is kept for whoever takes it back."""
    target = paths.resolve(path, ctx.workspace)
    with _plainly(path):
        paths.writable(target, ctx.protected)
        try:
            file = os.fdopen(paths.open_to_read(target), "rb")
        except FileNotFoundError:
            return None
        with file:
            seen, data = os.fstat(file.fileno()), file.read(ctx.max_file_bytes + 1)
    if len(data) > ctx.max_file_bytes:
        raise ToolError(f"{path} is too large to be changed: more than {ctx.max_file_bytes:,} bytes")
    return Content(data, seen)


def _store(path: str, text: str, encoding: Encoding, ctx: ToolContext, old: Content | None) -> None:
    """Write the text whole, over the file as it was; whoever keeps what was there before is told first."""
    try:
        data = encoding.bom + text.encode(encoding.codec)
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.end][:20]
        raise ToolError(f"{path} is {encoding.codec} text, which cannot hold {wrong!a}") from error
    if len(data) > ctx.max_file_bytes:
        raise ToolError(f"{path} would be too large: {len(data):,} bytes, and {ctx.max_file_bytes:,} are allowed")
    target = paths.resolve(path, ctx.workspace)
    with _plainly(path):
        ctx.before_write("/".join(target.parts), old.data if old else None)
        paths.replace(target, data, ctx.protected, old.seen if old else None)


def _encoding_of(path: str, file: BinaryIO, most: int) -> Encoding:
    """The first encoding that the first `most` bytes of a file are text in."""
    for encoding in ENCODINGS:
        file.seek(0)
        if file.read(len(encoding.bom)) == encoding.bom and _is_text(file, encoding, most - len(encoding.bom)):
            return encoding
    raise ToolError(f"{path} is a binary file, and only text can be read")


def _is_text(file: BinaryIO, encoding: Encoding, most: int) -> bool:
    decoder = codecs.getincrementaldecoder(encoding.codec)()
    try:
        while most > 0:
            data = file.read(min(CHUNK, most))
            if encoding.not_text.search(decoder.decode(data, final=not data)):
                return False
            if not data:
                break
            most -= len(data)
    except UnicodeDecodeError:
        return False
    return True


def _window(path: str, text: io.TextIOWrapper, first: int, limit: int | None) -> str:
    """Lines from `first` on, as many as `limit` and READ_MAX let through, and how to read on where more follow."""
    number, room, note, piece = 1, READ_MAX, "", ""
    shown: list[str] = []
    for piece in iter(partial(text.readline, READ_MAX), ""):  # a line longer than that comes in several pieces
        if number >= first:
            if len(piece) > room or (limit is not None and number >= first + limit):
                note = _read_on(number, shown)
                break
            shown.append(piece)
            room -= len(piece)
        number += piece.endswith("\n")
    if shown:
        return "".join(shown) + note
    if first > 1:
        last = number - (piece.endswith("\n") or not piece)
        raise ToolError(f"{path} has no line {first}: its last is {last}")
    return "[the file is empty]"


def _read_on(number: int, shown: list[str]) -> str:
    if shown and not shown[-1].endswith("\n"):
        return f"\n[cut: line {number} is longer than {READ_MAX:,} characters; read on with offset={number + 1}]"
    return f"[cut: more lines follow; read on with offset={number}]"
