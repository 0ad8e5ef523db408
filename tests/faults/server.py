"""A server that does what servers should not: raw bytes on a socket, one script a request.

A script is a list of steps: bytes are sent, the other steps are below. After its last step the
connection is closed, unless it ends with KEEP. The last script serves every further request.
"""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple, Union

KEEP, STALL, RESET = "keep", "stall", "reset"  # wait for the next request, say nothing more, end with a TCP reset


# What the scripts are not for.
ASIDE = (
    "/v1/models",
    "/v1/v1/models",
    "/version",
    "/health",
    "/tokenize",
    "/apply-template",
    "/detokenize",
    "/v1/completions",
    "/models",
    "/v1/chat/completions/render",
)
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class Trickle(NamedTuple):
    """Bytes one by one, with a pause before each; without end where `for_ever`."""

    data: bytes
    pause: float
    for_ever: bool = False


class Again(NamedTuple):
    """The same bytes so many times, more than is worth keeping for one test."""

    data: bytes
    times: int


Step = Union[bytes, str, Trickle, Again]
Script = list[Step]


class Request(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes


class FaultServer:
    """Serves until its block is left. `tls`: certificate and key, in one file.

    `aside`: by path, the scripts of what is asked beside the chat; it is not there where it has none.
    """

    def __init__(self, *scripts: Script, tls: str = "", aside: Mapping[str, tuple[Script, ...]] | None = None) -> None:
        self.scripts = scripts
        self._aside = aside or {}
        self._asked: Counter[str] = Counter()
        self._tls = tls
        self._over = threading.Event()
        self._connections: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.requests: list[Request] = []

    def __enter__(self) -> FaultServer:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()

    @property
    def accepted(self) -> int:
        """Connections."""
        return len(self._connections)

    def _start(self, run, *arguments) -> None:
        self._threads.append(threading.Thread(target=run, args=arguments, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._connections.append(connection)
                self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            if self._tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(self._tls)
                connection = context.wrap_socket(connection, server_side=True)
            with connection, connection.makefile("rb") as incoming:
                while (request := _read(incoming)) and self._answer(connection, request):
                    pass
                if request is None:  # as servers answer what is no HTTP
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def _answer(self, connection: socket.socket, request: Request) -> bool:
        """Whether the connection goes on."""
        path = request.line.split()[1]
        scripts = self._aside.get(path, ())
        if path in ASIDE and not scripts:
            connection.sendall(NOT_FOUND)
            return False
        if not scripts:
            self.requests.append(request)
        self._asked[path] += 1
        scripts, asked = (scripts, self._asked[path]) if scripts else (self.scripts, len(self.requests))
        script = scripts[min(asked, len(scripts)) - 1]
        return all([self._step(connection, step) for step in script][-1:])

    def _step(self, connection: socket.socket, step: Step) -> bool:
        if isinstance(step, bytes):
            connection.sendall(step)
        elif isinstance(step, Trickle):
            self._trickle(connection, step)
        elif isinstance(step, Again):
            for _ in range(step.times):
                connection.sendall(step.data)
        elif step == STALL:
            self._over.wait()
        elif step == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
        return step == KEEP

    def _trickle(self, connection: socket.socket, trickle: Trickle) -> None:
        while True:
            for byte in trickle.data:
                if self._over.wait(trickle.pause):
                    return
                connection.sendall(bytes([byte]))
            if not trickle.for_ever:
                return


def _read(incoming: Iterable[bytes]) -> Request | None:
    """The next request; None where the connection ends, or what comes is none."""
    line = incoming.readline().decode("latin-1").rstrip()
    if " HTTP/1." not in line:
        return None
    headers = {}
    while field := incoming.readline().decode("latin-1").strip():
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    return Request(line, headers, incoming.read(int(headers.get("content-length", 0))))
