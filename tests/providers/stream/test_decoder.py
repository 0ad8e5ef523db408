import json

import pytest

from src.errors import StreamCut, WireError
from src.providers.server_errors import read_error_message
from src.providers.stream.decoder import BodySniffer
from tests.each import check_rows


class Recorder:
    """A decoder that keeps what it is fed, or given whole."""

    def __init__(self):
        self.fed = b""
        self.given = None

    def feed(self, chunk):
        self.fed += chunk
        return []

    def read_whole(self, answer):
        self.given = answer
        return []

    def close(self):
        return [("whole", self.given) if self.given is not None else ("stream", self.fed)]


STREAM = b"data: {}\n\n"
ANSWERS = [
    ("text/event-stream; charset=utf-8", STREAM, "stream"),
    ("", STREAM, "stream"),
    ("application/json", STREAM, "stream"),
    ("text/plain", b": keep-alive\n\n" + STREAM, "stream"),
    ("text/plain", b"\xef\xbb\xbfevent: x\n" + STREAM, "stream"),
    ("text/event-stream", b"strange: field\n" + STREAM, "stream"),
    ("application/json", b'{"choices": []}', "whole"),
    ("text/event-stream", b'\r\n {"choices": []}', "whole"),
    ("text/plain", b"[1]", "whole"),
]


@check_rows("kind, body, decoder", ANSWERS)
@check_rows("size", [1, 3, 1000])
def test_an_answer_is_told_by_its_first_bytes_whatever_the_chunking(kind, body, decoder, size):
    answer = BodySniffer(kind, Recorder())
    for start in range(0, len(body), size):
        answer.feed(body[start : start + size])
    bare = body.lstrip(b"\xef\xbb\xbf\r\n ")
    assert answer.close() == [(decoder, json.loads(bare) if decoder == "whole" else bare)]


def test_a_whole_answer_has_a_largest_size():
    answer = BodySniffer("application/json", Recorder())
    answer.feed(b'{"x": "')
    with pytest.raises(WireError, match="more than"):
        for _ in range(65):
            answer.feed(b"x" * 2**20)


@check_rows("body", [b"", b" \r\n", b"\xef\xbb\xbf\n"])
@check_rows("kind", ["text/event-stream", "application/json", "text/html", ""])
def test_nothing_is_an_empty_answer(kind, body):
    answer = BodySniffer(kind, Recorder())
    answer.feed(body)
    with pytest.raises(StreamCut, match="empty"):
        answer.close()


@check_rows(
    "kind, body, said",
    [
        ("text/html", b"<!DOCTYPE html><html><title> Sign\n in </title>", "text/html (Sign in)"),
        ("text/event-stream", b"<html><title>Sign in</title>", "text/event-stream (Sign in)"),
        ("text/plain", b"upstream is sleeping", "text/plain (upstream is sleeping)"),
        ("text/plain", b"OK", "text/plain (OK)"),
        ("application/octet-stream", b"note: a\xff" + b"x" * 1000, "application/octet-stream (note: a\ufffdxxx"),
    ],
)
@check_rows("size", [1, 1000])
def test_a_page_is_named_and_refused(kind, body, said, size):
    answer = BodySniffer(kind, Recorder())
    for start in range(0, len(body), size):
        answer.feed(body[start : start + size])
    with pytest.raises(WireError) as raised:
        answer.close()
    assert said in raised.value.message
    assert len(raised.value.message) < 500


@check_rows(
    "body, reason",
    [
        (b'{"error": {"message": "vLLM since 0.10"}}', "vLLM since 0.10"),
        (b'{"object": "error", "message": "vLLM before"}', "vLLM before"),
        (b'{"error": "Ollama"}', "Ollama"),
        (b'{"detail": "FastAPI"}', "FastAPI"),
        (
            b'{"detail": [{"loc": ["body", "messages", 0], "msg": "Field required"}, {"loc": ["body"], "msg": "no"}]}',
            "body.messages.0: Field required; body: no",
        ),
        (b'{"detail": ["plain"]}', "plain"),
        (b'"a string"', "a string"),
        (b"null", ""),
        (b"", ""),
        (b"<html><TITLE lang=en>502\n Bad Gateway</TITLE>", "502 Bad Gateway"),
        (b"just text", "just text"),
        (b"[" * 100_000, "[" * 300),
    ],
)
def test_the_reason_is_found_where_servers_put_it(body, reason):
    assert read_error_message(body) == reason
