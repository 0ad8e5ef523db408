"""Reading from a socket under a stopwatch, which limits even a trickle of bytes.

The read timeout of requests starts again with each byte, so that a slow server could hold a client forever. So the raw
stream below http.client's buffer is replaced by one that asks the stopwatch before each read.
`get_connection_with_tls_context` is where requests lets an adapter choose its connections.
"""

from __future__ import annotations

import http.client
import io
from functools import partial
from typing import Any

from requests.adapters import HTTPAdapter

from .deadlines import Stopwatch

TICK = 0.25  # seconds between looks at the stopwatch; an unchanged timeout costs no system call
BUFFER_SIZE = 65536  # so that a burst of chunks costs one system call


class WatchedAdapter(HTTPAdapter):
    def __init__(self, stopwatch: Stopwatch) -> None:
        self._stopwatch = stopwatch
        super().__init__()

    def get_connection_with_tls_context(self, *args: Any, **named: Any) -> Any:
        pool: Any = super().get_connection_with_tls_context(*args, **named)
        pool.ConnectionCls = partial(_connection, type(pool).ConnectionCls, self._stopwatch)
        return pool


def _connection(kind: Any, stopwatch: Stopwatch, *args: Any, **named: Any) -> Any:
    connection = kind(*args, **named)
    connection.response_class = partial(_WatchedResponse, stopwatch)
    return connection


class _WatchedResponse(http.client.HTTPResponse):
    def __init__(self, stopwatch: Stopwatch, sock: Any, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp = io.BufferedReader(_WatchedStream(self.fp.detach(), sock, stopwatch), BUFFER_SIZE)


class _WatchedStream(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: Any, stopwatch: Stopwatch) -> None:
        self._raw = raw
        self._sock = sock
        self._stopwatch = stopwatch
        self._wait = 0.0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises TimeoutError or KeyboardInterrupt when the stopwatch says so."""
        while True:
            wait = min(self._stopwatch.left(), TICK)
            if wait != self._wait:
                self._sock.settimeout(wait)
                self._wait = wait
            try:
                return int(self._sock.recv_into(buffer))
            except TimeoutError:  # one tick has passed; the stopwatch decides whether time is up
                continue

    def close(self) -> None:
        self._raw.close()
        super().close()
