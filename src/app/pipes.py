"""Two descriptors as streams of asyncio, for protocols on standard input and output."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import ConfigError

MAX_BUFFER_BYTES = 64_000_000  # of input that waits; images come as text
NO_PIPE = "This protocol needs a pipe, and standard output is a file."


class LineTooLong(Exception):
    """A line was longer than a reader holds, and was skipped."""


async def read_line(reader: asyncio.StreamReader) -> bytes:
    """The next line, with its newline; b"" at the end. Raises LineTooLong."""
    is_skipped = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            is_skipped = True
            await reader.readexactly(error.consumed)
            continue
        if is_skipped:
            raise LineTooLong
        return line


@asynccontextmanager
async def open_pipes(
    incoming: int, outgoing: int, received: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """`received` was read already. Raises ConfigError where `outgoing` is a file.

    No thread waits in a read, so that a signal ends the program at once.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_BUFFER_BYTES)
    reader.feed_data(received)
    file = os.fdopen(incoming, "rb", 0)
    reading: asyncio.BaseTransport | None = None
    mode = os.fstat(incoming).st_mode
    if (
        stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or os.isatty(incoming)
    ):  # else a file or /dev/null: nothing to wait for
        reading, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), file)
    else:
        reader.feed_data(file.read())
        reader.feed_eof()
    try:
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(outgoing, "wb", 0)
        )
    except ValueError as error:
        raise ConfigError(NO_PIPE, "The program that speaks it starts this one.") from error
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        if reading:
            reading.close()
        transport.close()
