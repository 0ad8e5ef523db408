"""The address at which a server of ours listens."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..errors import ConfigError
from ..transport.http import find_free_port


class ListenAddress(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def parse_listen(text: str, place: str) -> ListenAddress:
    """`HOST:PORT`, `[::1]:PORT` or `:PORT`. `place` is where it was set. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not int(port) < 65536:
        raise ConfigError(f"{place}: expected HOST:PORT, got {text!r}.")
    return ListenAddress(host.strip("[]") or "127.0.0.1", int(port))


def find_free(what: str, address: ListenAddress) -> ListenAddress:
    """The address, with a free port where it names port 0. Raises ConfigError if `what` cannot listen there."""
    try:
        return address._replace(port=find_free_port(*address))
    except OSError as error:
        raise explain_listen(what, address, error) from error


def explain_listen(what: str, address: ListenAddress, error: OSError) -> ConfigError:
    """`what`: that which was to listen."""
    reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error.strerror)
    reason = reason.partition(" (while")[0]
    return ConfigError(f"{what} cannot listen on {address}: {reason}.", "Choose another --listen.")
