"""Read and replace text files of the workspace in their own encoding.

Reading streams, also to find the encoding, so that memory does not grow with the file. A change keeps everything else
byte for byte: encoding, byte order mark, line ends, final newline, permissions. paths.py says where a file may be and
replaces it.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from msgspec import Struct

from ...errors import ToolError
from ...types.file_names import escape_name
from ...types.lazy_pattern import LazyPattern
from ..sdk.context import ToolContext
from . import paths
from .text_files import DISK, OldFile

READ_BYTES = 1 << 16


class Encoding(Struct, frozen=True):
    """A codec, and the byte order mark before the text, which may be empty."""

    bom: bytes
    codec: str
    not_text: LazyPattern  # matches characters that no text has


NUL = LazyPattern("\0")
CONTROL = LazyPattern("[\0-\x07\x0e-\x1a\x1c-\x1f]")
UTF_8 = Encoding(b"", "utf-8", NUL)
ENCODINGS = (  # the first that fits; Latin-1 decodes any bytes, so that it excludes control characters
    Encoding(codecs.BOM_UTF8, "utf-8", NUL),
    Encoding(codecs.BOM_UTF16_LE, "utf-16-le", NUL),
    Encoding(codecs.BOM_UTF16_BE, "utf-16-be", NUL),
    UTF_8,
    Encoding(b"", "latin-1", CONTROL),
)


@contextmanager
def map_os_errors(path: str) -> Iterator[None]:
    """Raise an OSError as a ToolError about the path that the model gave."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolError(f"{escape_name(path)} does not exist") from error
    except OSError as error:
        raise ToolError(f"{escape_name(path)}: {error.strerror or error}") from error


@contextmanager
def open_file(path: str, ctx: ToolContext) -> Iterator[BinaryIO]:
    """Open a regular file of the workspace for reading, on the disk. Raises ToolError for anything else."""
    with map_os_errors(path), DISK.open(_find_target(path, ctx))[0] as file:
        yield file


@contextmanager
def open_text(path: str, ctx: ToolContext) -> Iterator[BinaryIO]:
    """As `open_file`, with what an editor holds of a text file where it holds something else."""
    with map_os_errors(path), ctx.wiring.files.open(_find_target(path, ctx))[0] as file:
        yield file


def read_before_change(path: str, ctx: ToolContext) -> OldFile | None:
    """Read a file that is to be changed; None if there is none. Raises ToolError if it may not be changed."""
    target = _find_target(path, ctx)
    with map_os_errors(path):
        paths.refuse_protected(target, ctx.wiring.protected)
        try:
            file, status = ctx.wiring.files.open(target)
        except FileNotFoundError:
            if path.endswith("/"):
                raise ToolError(f"{escape_name(path)} names a folder", "Missing folders are created.") from None
            return None
        with file:
            limit = ctx.wiring.max_file_bytes
            data = file.read(limit + 1)
    if len(data) > limit:
        raise ToolError(f"{escape_name(path)} is too large to be changed: more than {limit:,} bytes")
    return OldFile(data, status)


def encode(path: str, text: str, encoding: Encoding, ctx: ToolContext) -> bytes:
    """Encode a file's new text.

    Raises ToolError for too large a file, and for a text that would not be read from the file again.
    """
    if wrong := encoding.not_text.search(text):
        raise ToolError(f"{escape_name(path)} would be no text file any more, with the character {wrong[0]!a}")
    try:
        data = encoding.bom + text.encode(encoding.codec)
    except UnicodeEncodeError as error:
        lacking = text[error.start : error.end][:20]
        raise ToolError(f"{escape_name(path)} is {encoding.codec} text, which cannot hold {lacking!a}") from error
    limit = ctx.wiring.max_file_bytes
    if len(data) > limit:
        raise ToolError(f"{escape_name(path)} would be too large: {len(data):,} bytes, and {limit:,} are allowed")
    # Bytes of Latin-1 may be those of another text in UTF-8. A text may begin with its byte order mark.
    if decode(path, data)[0] not in (text, text.removeprefix("\ufeff")):
        raise ToolError(f"{escape_name(path)} is {encoding.codec} text, and would be read as another text than this")
    return data


def replace_file(path: str, data: bytes, ctx: ToolContext, old: OldFile | None) -> None:
    """Write the file, after `ctx.wiring.before_write` has got the old content, for an undo."""
    target = _find_target(path, ctx)
    with map_os_errors(path):
        place = paths.get_place(target, ctx.wiring.added_folders)
        ctx.wiring.before_write(place, old and old.data)
        ctx.wiring.files.replace(target, data, ctx.wiring.protected, old)


def decode(path: str, data: bytes) -> tuple[str, Encoding]:
    """The text of a whole file. Raises ToolError for one that is not text."""
    encoding = find_encoding(path, io.BytesIO(data), len(data) + 1)
    return data[len(encoding.bom) :].decode(encoding.codec), encoding


def _find_target(path: str, ctx: ToolContext) -> paths.Target:
    return paths.find_target(path, ctx.workspace, ctx.call, ctx.wiring.added_folders)


def find_encoding(path: str, file: BinaryIO, max_bytes: int) -> Encoding:
    """The first of ENCODINGS that decodes the first `max_bytes` of a file. Raises ToolError if there is none."""
    for encoding in ENCODINGS:
        file.seek(0)
        if file.read(len(encoding.bom)) == encoding.bom and _is_text(file, encoding, max_bytes - len(encoding.bom)):
            return encoding
    raise ToolError(f"{escape_name(path)} is a binary file, and only text can be read")


def _is_text(file: BinaryIO, encoding: Encoding, max_bytes: int) -> bool:
    decoder = codecs.getincrementaldecoder(encoding.codec)()
    try:
        while max_bytes > 0:
            data = file.read(min(READ_BYTES, max_bytes))
            if encoding.not_text.search(decoder.decode(data, final=not data)):
                return False
            if not data:
                break
            max_bytes -= len(data)
    except UnicodeDecodeError:
        return False
    return True
