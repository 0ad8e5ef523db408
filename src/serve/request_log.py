"""What is known of a request at its end: a line of the request log, and what the counts by key and the page show.

Never a body. The file is opened for each line: all workers append to it, and whoever rotates it may move it away.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import time
from collections.abc import Mapping, MutableMapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from uuid import uuid4

from msgspec import Struct, field

from ..errors import ConfigError
from ..providers.wire_json import encode_json
from .exchange import GuardedExchange
from .report import RELAYED_PATH

ID_HEADER = "X-Request-Id"
STANDARD_OUTPUT = "-"
CLIENT_GONE = 499  # as nginx logs it
MAX_MODEL_CHARS = 200
MAX_API_CHARS = 100
_ID = re.compile(r"[\w.:-]{1,128}", re.ASCII)

log = logging.getLogger(__name__.rpartition(".")[0])


class RequestRecord(Struct):
    """`id`: the client's own, if it has sent a plain one. `exchange`: what was done, for a guarded request.

    `status`: of the answer; 499 if the client has gone before its end. `first_byte_at`: by the same clock as `began`.
    """

    id: str
    api: str
    key: str = ""
    model: str = ""
    is_stream: bool = False
    server: str = ""
    status: int = 0
    error: str = ""
    exchange: GuardedExchange | None = None
    began: float = field(default_factory=time.monotonic)
    first_byte_at: float | None = None

    def note_head(self, headers: MutableMapping[str, str]) -> None:
        """The answer begins, with these headers; its id is the server's, where that tells one."""
        self.id = headers.setdefault(ID_HEADER, self.id)
        self.first_byte_at = time.monotonic()

    def to_entry(self) -> dict[str, Any]:
        """The line of the log. What is empty is left out, but for the fields that each request has."""
        now = time.monotonic()
        server, error, path = self.server, self.error, "refused"
        if server:
            path = RELAYED_PATH
        first_byte = (self.first_byte_at or now) - self.began
        done: dict[str, Any] = {}
        if exchange := self.exchange:
            server = exchange.server
            error = error or exchange.error
            path = exchange.report.path
            first_byte = exchange.first_byte_at - exchange.began
            done = exchange.report.to_entry()
        entry: dict[str, Any] = {
            "time": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "id": self.id,
            "key": self.key,
            "api": self.api[:MAX_API_CHARS],
            "model": self.model[:MAX_MODEL_CHARS],
            "stream": self.is_stream,
            "server": server,
            "path": path,
            "status": self.status,
            "seconds": round(now - self.began, 4),
            "first_byte_s": round(first_byte, 4),
        }
        return entry | {name: value for name, value in {"error": error, **done}.items() if value}


def read_id(headers: Mapping[str, str]) -> str:
    """The client's id of its request, or a new one."""
    given = headers.get(ID_HEADER, "")
    return given if _ID.fullmatch(given) else uuid4().hex


class RequestLog:
    """Lines in a file; "-" is standard output. Raises ConfigError where it cannot be written at first."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._has_failed = False
        try:
            self._append(b"")
        except OSError as error:
            raise ConfigError(f"serve.request_log: {path} cannot be written: {error.strerror}.") from error

    def write(self, entry: dict[str, Any]) -> None:
        """A log that cannot be written is told once, and fails no request."""
        try:
            self._append(encode_json(entry) + b"\n")
        except OSError as error:
            if not self._has_failed:
                log.warning("The request log cannot be written: %s: %s.", self._path, error.strerror)
            self._has_failed = True
        else:
            self._has_failed = False

    def _append(self, line: bytes) -> None:
        """In one write, so that the lines of two workers do not mix."""
        if self._path == STANDARD_OUTPUT:
            os.write(sys.stdout.fileno(), line)
            return
        descriptor = os.open(Path(self._path).expanduser(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
