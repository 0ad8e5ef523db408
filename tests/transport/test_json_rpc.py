"""Messages of JSON-RPC as a program frames them."""

from __future__ import annotations

import io

import pytest

from src.transport.json_rpc import read_message
from tests.each import check_rows


def test_a_message_follows_its_size_whatever_other_headers_there_are() -> None:
    pipe = io.BytesIO(b'Content-Type: x\r\ncontent-length: 9\r\n\r\n{"id": 1}Content-Length: 2\r\n\r\n{}')
    assert [read_message(pipe), read_message(pipe), read_message(pipe)] == [{"id": 1}, {}, None]


@check_rows("cut", [b"", b"Content-Length: 9\r\n", b'Content-Length: 9\r\n\r\n{"id"', b"Content-Length: 2\r\n\r\n[]"])
def test_an_end_within_a_message_is_an_end(cut: bytes) -> None:
    assert read_message(io.BytesIO(cut)) is None


@check_rows(
    "wrong",
    [b"\r\n{}", b"Content-Length: x\r\n\r\n{}", b"Content-Length: -1\r\n\r\n{}", b"Content-Length: 2\r\n\r\n{{"],
)
def test_what_is_no_message_is_an_error(wrong: bytes) -> None:
    with pytest.raises(ValueError):
        read_message(io.BytesIO(wrong))
