"""Text files of the workspace as they are: their encoding, their bytes before a change, their replacement.

Reading streams, also when it looks for the encoding, so that its memory depends on what is shown and not on
the file. A change keeps what it does not touch byte for byte: encoding, byte order mark, line ends, final
newline, permissions. Where a file may be and how it is replaced is in paths.py.
"""

from __future__ import annotations

import codecs
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from ...errors import ToolError
from ..sdk.context import ToolContext
from . import paths

CHUNK = 1 << 16  # bytes looked at together for the encoding


class Encoding(NamedTuple):
    """How bytes are text: `codec` after the byte order mark `bom`, which may be empty."""

    bom: bytes
    codec: str
    not_text: re.Pattern[str]  # what a text of this encoding does not hold


NUL = re.compile("\0")
CONTROL = re.compile("[\0-\x07\x0e-\x1a\x1c-\x1f]")
UTF_8 = Encoding(b"", "utf-8", NUL)
ENCODINGS = (  # the first that fits; any bytes are Latin-1, so that one is held to a stricter look
    Encoding(codecs.BOM_UTF8, "utf-8", NUL),
    Encoding(codecs.BOM_UTF16_LE, "utf-16-le", NUL),
    Encoding(codecs.BOM_UTF16_BE, "utf-16-be", NUL),
    UTF_8,
    Encoding(b"", "latin-1", CONTROL),
)


class Content(NamedTuple):
    """A file before it is changed: its bytes, its state when they were read, and what they are text in."""

    data: bytes
    seen: os.stat_result

    def encoding(self, path: str) -> Encoding:
        """Raises ToolError where they are no text."""
        return encoding_of(path, io.BytesIO(self.data), len(self.data) + 1)

    def text(self, encoding: Encoding) -> str:
        return self.data[len(encoding.bom) :].decode(encoding.codec)


@contextmanager
def map_os_errors(path: str) -> Iterator[None]:
    """What the system says, as a sentence about the path the model gave."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"{path} does not exist") from error
    except OSError as error:
        raise ToolError(f"{path}: {error.strerror or error}") from error


@contextmanager
def opened(path: str, ctx: ToolContext) -> Iterator[BinaryIO]:
    """A regular file of the workspace, to read. Raises ToolError for anything else."""
    with map_os_errors(path), os.fdopen(paths.open_to_read(paths.resolve(path, ctx.workspace)), "rb") as file:
        yield file


def read_before_change(path: str, ctx: ToolContext) -> Content | None:
    """What a file that is to be changed holds; None where there is none. It is kept for whoever takes it back."""
    target = paths.resolve(path, ctx.workspace)
    with map_os_errors(path):
        paths.refuse_protected(target, ctx.protected)
        try:
            file = os.fdopen(paths.open_to_read(target), "rb")
        except FileNotFoundError:
            return None
        with file:
            seen, data = os.fstat(file.fileno()), file.read(ctx.max_file_bytes + 1)
    if len(data) > ctx.max_file_bytes:
        raise ToolError(f"{path} is too large to be changed: more than {ctx.max_file_bytes:,} bytes")
    return Content(data, seen)


def encode(path: str, text: str, encoding: Encoding, ctx: ToolContext) -> bytes:
    """Raises ToolError for characters that the encoding lacks, and for what is too large."""
    try:
        data = encoding.bom + text.encode(encoding.codec)
    except UnicodeEncodeError as error:
        wrong = text[error.start : error.end][:20]
        raise ToolError(f"{path} is {encoding.codec} text, which cannot hold {wrong!a}") from error
    if len(data) > ctx.max_file_bytes:
        raise ToolError(f"{path} would be too large: {len(data):,} bytes, and {ctx.max_file_bytes:,} are allowed")
    return data


def replace_file(path: str, data: bytes, ctx: ToolContext, old: Content | None) -> None:
    """Put the bytes in the place of what was there; whoever keeps that, to take the change back, is told first."""
    target = paths.resolve(path, ctx.workspace)
    with map_os_errors(path):
        ctx.before_write("/".join(target.parts), old.data if old else None)
        paths.replace(target, data, ctx.protected, old.seen if old else None)


def encoding_of(path: str, file: BinaryIO, most: int) -> Encoding:
    """The first encoding that the first `most` bytes of a file are text in. Raises ToolError where there is none."""
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
