"""How servers answer, well and badly, as bytes."""

from __future__ import annotations

import gzip
import json

from .server import KEEP, STALL, Script

STREAM, JSON, HTML = "text/event-stream; charset=utf-8", "application/json", "text/html; charset=utf-8"


def head(kind: str = STREAM, *fields: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", *([f"Content-Type: {kind}"] if kind else []), *fields]
    return "\r\n".join([*lines, "", ""]).encode()


def framed(data: bytes) -> bytes:
    """One chunk of a chunked body; b"" is its end."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def chunked(*parts: bytes, kind: str = STREAM) -> bytes:
    """The head and these chunks, without the end."""
    return head(kind, "Transfer-Encoding: chunked") + b"".join(map(framed, parts))


def stream(*parts: bytes, kind: str = STREAM) -> Script:
    """A chunked body, as vLLM sends one, to its end."""
    return [chunked(*parts, b"", kind=kind), KEEP]


def body(data: bytes | str, kind: str = JSON, *fields: str, status: str = "200 OK") -> Script:
    """A body with its length."""
    data = data if isinstance(data, bytes) else data.encode()
    return [head(kind, f"Content-Length: {len(data)}", *fields, status=status) + data, KEEP]


def closing(data: bytes, kind: str = STREAM, *fields: str) -> Script:
    """A body that ends with the connection."""
    return [head(kind, "Connection: close", *fields) + data]


def refused(status: str, message: str = "", *fields: str) -> Script:
    """In vLLM's shape."""
    return body(json.dumps({"error": {"message": message, "code": int(status[:3])}}), JSON, *fields, status=status)


def data(value: object) -> bytes:
    return f"data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def delta(fields: object, finish: str | None = None) -> bytes:
    return data({"model": "tiny", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def text(said: str, finish: str | None = None) -> bytes:
    return delta({"content": said}, finish)


def calls(*pieces: object, finish: str = "tool_calls") -> Script:
    """A streamed turn whose deltas hold these entries of `tool_calls`, one each."""
    return stream(*(delta({"tool_calls": [piece]}) for piece in pieces), delta({}, finish), DONE)


def zipped(*parts: bytes) -> bytes:
    return gzip.compress(b"".join(parts))


DONE = b"data: [DONE]\n\n"
USAGE = data({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}})
HELLO_PARTS = (delta({"role": "assistant", "content": ""}), text("Hel"), text("lo"), delta({}, "stop"), USAGE, DONE)
HELLO = stream(*HELLO_PARTS)
HALF_PARTS = (delta({"role": "assistant", "content": ""}), text("Half an"), text(" answer"))
HALF = chunked(*HALF_PARTS)
WHOLE = json.dumps(
    {"model": "tiny", "choices": [{"message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}]}
)
PAGE = "<!DOCTYPE html>\n<html><head><title>{}</title></head><body>...</body></html>"
SILENCE: Script = [STALL]
