"""Lines of a stream, of which one may be longer than its reader holds."""

from __future__ import annotations

import asyncio

from src.app.pipes import LineTooLong, read_line
from tests.each import check_rows


async def read_all(data: bytes, limit: int) -> list[bytes | None]:
    """The lines; None for one that was too long."""
    reader = asyncio.StreamReader(limit=limit)
    reader.feed_data(data)
    reader.feed_eof()
    lines: list[bytes | None] = []
    while True:
        try:
            line = await read_line(reader)
        except LineTooLong:
            lines.append(None)
            continue
        if not line:
            return lines
        lines.append(line)


@check_rows(
    "data, lines",
    [
        (b"", []),
        (b"one\ntwo\n", [b"one\n", b"two\n"]),
        (b"one\ntwo", [b"one\n", b"two"]),
        (b"\n\n", [b"\n", b"\n"]),
        (b"x" * 100 + b"\ntwo\n", [None, b"two\n"]),
        (b"one\n" + b"x" * 1000 + b"\n" + b"y" * 100 + b"\ntwo\n", [b"one\n", None, None, b"two\n"]),
    ],
)
def test_a_line_that_is_too_long_is_skipped_and_the_next_one_is_read(data, lines):
    assert asyncio.run(read_all(data, limit=20)) == lines
