"""A small HTTP server on a loopback port: a function answers each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain

from msgspec import Struct

JSON, STREAM = "application/json", "text/event-stream"
MAX_BODY_BYTES = 64 * 1024 * 1024


class LoopbackRequest(Struct, frozen=True):
    method: str
    path: str
    body: bytes


class LoopbackReply(Struct, frozen=True):
    """A list of `chunks` is sent with its length; any other iterable is sent chunk by chunk."""

    status: int
    content_type: str
    chunks: Iterable[bytes]


Responder = Callable[[LoopbackRequest], LoopbackReply]


@contextmanager
def serve(respond: Responder) -> Iterator[str]:
    """Serve on a free port until the end of the block. Yields the address, without /v1."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _make_handler(respond))
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _make_handler(respond: Responder) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # else the body waits 40 ms for the client to acknowledge the headers

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client is gone, in or behind an answer
                super().handle()

        def do_GET(self) -> None:
            self._respond(b"")

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            size = int(length) if length.isdecimal() else 0
            self._respond(self.rfile.read(min(size, MAX_BODY_BYTES)))

        do_DELETE = do_OPTIONS = do_PATCH = do_PUT = do_POST  # noqa: N815 - the names that http.server looks for

        def _respond(self, body: bytes) -> None:
            reply = respond(LoopbackRequest(self.command, self.path, body))
            self.send_response(reply.status)
            self.send_header("Content-Type", reply.content_type)
            pieces: Iterable[bytes] = reply.chunks
            if isinstance(reply.chunks, (list, tuple)):
                self.send_header("Content-Length", str(sum(map(len, reply.chunks))))
            else:
                self.send_header("Transfer-Encoding", "chunked")
                pieces = (b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chain(reply.chunks, [b""]))
            self.end_headers()
            for piece in pieces:
                self.wfile.write(piece)

        def log_message(self, *_: object) -> None:
            """Log nothing: the terminal belongs to the chat."""

    return Handler
