"""A small HTTP server on a loopback port: a function answers each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

JSON, STREAM = "application/json", "text/event-stream"
LARGEST_BODY = 64 * 1024 * 1024  # bytes


class Received(NamedTuple):
    method: str
    path: str
    body: bytes


class Reply(NamedTuple):
    """`chunks` go out as they come; a single one goes out with its length."""

    status: int
    content_type: str
    chunks: Iterable[bytes]


Answer = Callable[[Received], Reply]


@contextmanager
def serving(answer: Answer) -> Iterator[str]:
    """The server's address, without /v1; it is gone when the block is left."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(answer))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(answer: Answer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else 0
            self._answer(self.rfile.read(min(size, LARGEST_BODY)))

        def _answer(self, body: bytes) -> None:
            reply = answer(Received(self.command, self.path, body))
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            whole = list(reply.chunks) if isinstance(reply.chunks, (list, tuple)) else None
            if whole is not None:
                self.send_header("Content-Length", str(sum(map(len, whole))))
            else:
                self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                for chunk in reply.chunks:
                    self.wfile.write(chunk if whole is not None else b"%x\r\n%s\r\n" % (len(chunk), chunk))
                if whole is None:
                    self.wfile.write(b"0\r\n\r\n")
            except (BrokenPipeError, ConnectionResetError):  # whoever asked has stopped listening
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            """Quiet: the terminal belongs to the chat."""

    return Handler
