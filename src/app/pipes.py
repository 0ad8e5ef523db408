"""Two descriptors as streams of asyncio, for protocols on standard input and output."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..errors import ConfigError

MAX_BUFFER_BYTES = 64_000_000  # of input that waits; images come as text
NO_PIPES = "This protocol needs pipes, and standard input or output is a file."


@asynccontextmanager
async def open_pipes(
    incoming: int, outgoing: int, received: bytes = b""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """`received` was read already. Raises ConfigError for files.

    No thread waits in a read, so that a signal ends the program at once.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_BUFFER_BYTES)
    reader.feed_data(received)
    try:
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(incoming, "rb", 0)
        )
        transport, protocol = await loop.connect_write_pipe(
            lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), os.fdopen(outgoing, "wb", 0)
        )
    except ValueError as error:
        raise ConfigError(NO_PIPES, "The program that speaks it starts this one.") from error
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        reading.close()
        transport.close()
