"""Requests to one server and its answers as they stream; and which ports of this machine are open.

Bodies are read with `read1`, which returns what has arrived, however the server frames its answer. The API key is
sent to no other host: a redirect is followed only within the same scheme, host and port.
"""

from __future__ import annotations

import logging
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import Event
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlsplit

import urllib3
from urllib3 import exceptions as urllib3_errors
from urllib3.util.request import ACCEPT_ENCODING

from ..errors import Cancelled, ClientError, StreamCut
from ..types.effects import ReplyHead
from .deadlines import CANCELLED, CURRENT, Deadline, Timeouts
from .errors import is_stale_connection
from .pool import MAX_KEPT_CONNECTIONS, SharedPool
from .server_access import (
    DRAIN_TIMEOUT_S,
    MAX_BODY_BYTES,
    MAX_REDIRECTS,
    READ_BYTES,
    ServerAccess,
    find_redirect,
    parse_retry_after,
)

LOOPBACK = "127.0.0.1"
log = logging.getLogger(__name__.rpartition(".")[0])


class HttpReply(NamedTuple):
    """What a server answers: its body as it comes."""

    head: ReplyHead
    chunks: Iterator[bytes]

    def read(self) -> bytes:
        """The whole body, up to MAX_BODY_BYTES bytes."""
        return _read_all(self.chunks)


class Client(ServerAccess):
    """One server, one request at a time. Clients with the same address and key share their connections.

    The arguments are those of ServerAccess. Raises ConfigError if a header cannot hold the key.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        clocks: Timeouts = Timeouts(),  # noqa: B008 - a NamedTuple
        *,
        key_header: str = "Authorization",
        key_prefix: str = "Bearer ",
        headers: Mapping[str, str] | None = None,
        ssl_verify: bool | str = True,
        cert: tuple[str, ...] = (),
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(base_url, api_key, clocks, key_header, key_prefix, headers, ssl_verify, cert)
        self.sleep = sleep
        self._deadline = Deadline(clocks, now)
        self._headers.setdefault("Accept-Encoding", ACCEPT_ENCODING)
        self._pool = SharedPool.join(self, self.base_url, api_key, self._route)
        if not ssl_verify:
            urllib3.disable_warnings(urllib3_errors.InsecureRequestWarning)  # the user is told once

    def bind_cancellation(self, cancelled: Event) -> None:
        """Once it is set, by any thread, what waits for the server raises Cancelled in its own thread."""

        def sleep(seconds: float) -> None:
            if cancelled.wait(seconds):
                raise Cancelled(CANCELLED)

        self.sleep, self._deadline.is_cancelled = sleep, cancelled.is_set

    def bind_silence(self, on_silence: Callable[[], object]) -> None:
        """See Deadline."""
        self._deadline.on_silence = on_silence

    def is_cancelled(self) -> bool:
        return self._deadline.is_cancelled()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._pool.leave(self)

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None = None, *, within: float | None = None
    ) -> Iterator[HttpReply]:
        """Send a request; the answer streams until the block is left.

        `path` is relative to base_url, or with a leading slash to the server's root, above /v1.
        `within`: a tighter limit on the total time, in seconds.
        Raises ConnectFailed, TlsFailed, NotHttp, StreamCut, Timeout; `chunks` raises StreamCut and Timeout.
        """
        url = self.build_url(path)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s %s", method, url, (body or b"").decode(errors="replace"))
        self._deadline.start()
        if within is not None:
            self._deadline.cap(within)
        answer = self._follow(method, url, body)
        try:
            chunks = self._stream(answer)
            headers = answer.headers
            head = ReplyHead(
                answer.status,
                headers.get("Content-Type", ""),
                headers.get("Location", ""),
                parse_retry_after(headers.get("Retry-After", "")),
                had_key=self.has_key,
            )
            yield HttpReply(head, self._redact(chunks) if head.is_error else chunks)
            self._deadline.cap(DRAIN_TIMEOUT_S)
            with suppress(ClientError):
                deque(chunks, maxlen=0)  # read to its end, the connection serves the next request too
        finally:
            answer.close()  # with its connection, if that has more of it
            answer.release_conn()

    def _follow(self, method: str, url: str, body: bytes | None) -> urllib3.BaseHTTPResponse:
        """The answer, following redirects within this server."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._send(method, url, body)
            target = find_redirect(url, answer.status, answer.headers.get("Location", ""))
            if target is None:
                return answer
            answer.close()
            answer.release_conn()
            url = target
        raise self.build_loop_error(url)

    def _send(self, method: str, url: str, body: bytes | None) -> urllib3.BaseHTTPResponse:
        try:
            answer = self._request(method, url, body)
        except urllib3_errors.ReadTimeoutError as error:
            raise self._deadline.timeout_error(self.base_url) from error
        except (urllib3_errors.HTTPError, OSError) as error:
            raise self.translate(error) from error
        self.has_answered = True
        return answer

    def _request(self, method: str, url: str, body: bytes | None) -> urllib3.BaseHTTPResponse:
        """A kept connection that the server has closed meanwhile is replaced."""
        limits = self._deadline.limits
        timeout = urllib3.Timeout(connect=limits.connect, read=limits.first_token)
        left = MAX_KEPT_CONNECTIONS
        while True:
            CURRENT.deadline, CURRENT.has_connected = self._deadline, False
            try:
                return self._pool.request(method, url, body, self._headers, timeout)
            except urllib3_errors.ProtocolError as error:
                is_kept = self._pool.may_have_kept and not CURRENT.has_connected
                if not (left and is_kept and is_stale_connection(error)):
                    raise
                left -= 1
                log.debug("the kept connection was closed meanwhile; asking again on another one")

    def _stream(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        tracing = log.isEnabledFor(logging.DEBUG)
        received, read1 = self._deadline.note_progress, answer.read1
        try:
            while chunk := read1(READ_BYTES, decode_content=True):
                if tracing:
                    log.debug("received %s", chunk.decode(errors="replace").rstrip())
                yield chunk
                received(chunk)  # after the reader has it, so that it is shown at once
        except urllib3_errors.ReadTimeoutError as error:
            raise self._deadline.timeout_error(self.base_url) from error
        except urllib3_errors.DecodeError as error:
            self.ask_uncompressed()
            raise StreamCut(f"The answer of {self.base_url} could not be decompressed.", max_retries=1) from error
        except (urllib3_errors.HTTPError, OSError) as error:
            raise StreamCut(f"The connection to {self.base_url} broke in the middle of the answer.") from error

    def _redact(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        yield self.redact_key(_read_all(chunks))


def _read_all(chunks: Iterator[bytes]) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= MAX_BODY_BYTES:
            break
    return bytes(body)


def find_free_port(host: str = LOOPBACK, port: int = 0) -> int:
    """The port, or for 0 one that nothing listens on now. Raises OSError if this process cannot listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port or _keep_free_port(host, family)), family=family) as probe:
        return int(probe.getsockname()[1])


def _keep_free_port(host: str, family: socket.AddressFamily) -> int:
    """A port that Linux gives to no other program, unless it asks for that one, until this program ends; elsewhere 0.

    It is bound, and nobody listens there. That servers may share, since both allow it.
    """
    if sys.platform != "linux":
        return 0
    with socket.socket(family) as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind((host, 0))
        port = int(keeper.getsockname()[1])
        keeper.detach()
    return port


def find_open_ports(ports: Sequence[int], within: float = 0.3) -> list[int]:
    """The ports on loopback that accept a connection, in the order given; `within`: seconds for all of them."""
    end = time.monotonic() + within
    open_ports = []
    for port in ports:
        with socket.socket() as attempt:
            attempt.settimeout(max(end - time.monotonic(), 0.01))
            if attempt.connect_ex((LOOPBACK, port)) == 0:
                open_ports.append(port)
    return open_ports


def try_connecting(root: str, within: float) -> None:
    """Open a connection to the server at this address, and close it. Raises OSError."""
    parts = urlsplit(root)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((parts.hostname or "", port), within).close()
