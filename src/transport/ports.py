"""Which ports of this machine are open, all checked at once."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Sequence

HERE = "127.0.0.1"


def listening(ports: Sequence[int], within: float = 0.3) -> list[int]:
    """The ports on loopback that accept a connection within this time, in the order given."""
    end = time.monotonic() + within
    found: set[int] = set()
    with selectors.DefaultSelector() as selector:
        for port in ports:
            attempt = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            attempt.setblocking(False)
            attempt.connect_ex((HERE, port))
            selector.register(attempt, selectors.EVENT_WRITE, port)
        while selector.get_map() and (left := end - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                attempt = selector.unregister(key.fileobj).fileobj  # type: ignore[assignment]
                if attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.add(key.data)
                attempt.close()
        for key in list(selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
    return [port for port in ports if port in found]
