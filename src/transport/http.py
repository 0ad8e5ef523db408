"""Requests to one server and its answers as they stream; and which ports of this machine are open.

Bodies are read with `read1`, which returns what has arrived, however the server frames its answer. The API key is
sent to no other host: a redirect is followed only within the same scheme, host and port.
"""

from __future__ import annotations

import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from threading import Event
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

import urllib3
from urllib3 import exceptions as urllib3_errors
from urllib3.util.request import ACCEPT_ENCODING

from ..errors import Cancelled, ClientError, ConfigError, StreamCut
from .deadlines import CANCELLED, CURRENT, Deadline, Timeouts
from .environment import find_route
from .errors import is_stale_connection, translate
from .pool import MAX_KEPT_CONNECTIONS, SharedPool

READ_BYTES = 65536
MAX_BODY_BYTES = 16 * 1024 * 1024
MIN_KEY_CHARS = 8  # of an API key that is a secret
MAX_REDIRECTS = 3
SAME_METHOD = (307, 308)  # redirects that keep method and body
LOOPBACK = "127.0.0.1"
MAX_RETRY_AFTER_S = 24 * 3600.0  # a longer wait that a server asks for counts as this one
DRAIN_TIMEOUT_S = 0.1  # for the rest of a body that is not used, so that the connection can be reused

HEADERS = {
    "User-Agent": "vllm-bot",
    "Accept": "text/event-stream, application/json",
    "Content-Type": "application/json",
}

log = logging.getLogger(__name__.rpartition(".")[0])


class HttpReply(NamedTuple):
    """`retry_after`: seconds that the server asks to wait."""

    status: int
    content_type: str
    location: str
    chunks: Iterator[bytes]
    retry_after: float | None = None

    def read(self) -> bytes:
        """The whole body, up to MAX_BODY_BYTES bytes."""
        return _read_all(self.chunks)


class Client:
    """One server, one request at a time. Clients with the same address and key share their connections.

    The key is sent under `key_header`, after `key_prefix`; `headers` go with every request.
    `ssl_verify`: True, False, or the path of a CA file. `cert`: see Route. Raises ConfigError if a header cannot hold
    the key.
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
        check_key(api_key)
        self.base_url = base_url
        self.sleep = sleep
        self._api_key = api_key
        self._deadline = Deadline(clocks, now)
        self._has_answered = False  # whether the server has ever answered
        self._headers = {**HEADERS, "Accept-Encoding": ACCEPT_ENCODING, **(headers or {})}
        if api_key:
            self._headers[key_header] = f"{key_prefix}{api_key}"
        self._pool = SharedPool.join(self, base_url, api_key, find_route(base_url, ssl_verify, cert))
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
        url = build_url(self.base_url, path)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("%s %s %s", method, url, (body or b"").decode(errors="replace"))
        self._deadline.start()
        if within is not None:
            self._deadline.cap(within)
        answer = self._follow(method, url, body)
        try:
            chunks = self._stream(answer)
            headers = answer.headers
            yield HttpReply(
                answer.status,
                headers.get("Content-Type", ""),
                headers.get("Location", ""),
                chunks if answer.status < 400 else self._redact_key(chunks),
                parse_retry_after(headers.get("Retry-After", "")),
            )
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
        raise build_loop_error(self.base_url, url)

    def _send(self, method: str, url: str, body: bytes | None) -> urllib3.BaseHTTPResponse:
        try:
            answer = self._request(method, url, body)
        except urllib3_errors.ReadTimeoutError as error:
            raise self._deadline.timeout_error(self.base_url) from error
        except (urllib3_errors.HTTPError, OSError) as error:
            limit = self._deadline.limits.connect
            raise translate(error, self.base_url, limit, has_answered=self._has_answered) from error
        self._has_answered = True
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
            self._headers["Accept-Encoding"] = "identity"  # from now on: this server or its proxy cannot compress
            raise StreamCut(f"The answer of {self.base_url} could not be decompressed.", max_retries=1) from error
        except (urllib3_errors.HTTPError, OSError) as error:
            raise StreamCut(f"The connection to {self.base_url} broke in the middle of the answer.") from error

    def _redact_key(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """The body without the API key, which a refusal may quote."""
        yield hide_key(_read_all(chunks), self._api_key)


def _read_all(chunks: Iterator[bytes]) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= MAX_BODY_BYTES:
            break
    return bytes(body)


def hide_key(body: bytes, api_key: str) -> bytes:
    """The body without the key. A shorter one is a placeholder such as `token`, which may be part of other words."""
    return body.replace(api_key.encode(), b"[API key]") if len(api_key) >= MIN_KEY_CHARS else body


def check_key(api_key: str) -> None:
    """Raises ConfigError if a header cannot hold it."""
    if not (api_key.isascii() and api_key.isprintable()):
        hint = "Check VLLM_API_KEY and vllm.api_key."
        raise ConfigError("The API key contains a character that is not allowed in an HTTP header.", hint)


def build_url(base_url: str, path: str) -> str:
    return f"{base_url.removesuffix('/v1')}{path}" if path.startswith("/") else f"{base_url}/{path}"


def find_redirect(url: str, status: int, location: str) -> str | None:
    """The address to follow; None if there is none within the same server."""
    if status in SAME_METHOD:
        with suppress(ValueError):  # of an address such as http://[
            target = urljoin(url, location)
            return target if _get_origin(target) == _get_origin(url) else None
    return None


def build_loop_error(base_url: str, last: str) -> ClientError:
    return ClientError(f"{base_url} redirects in a loop, last to {last}.", "Check vllm.base_url.")


def _get_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def parse_retry_after(retry_after: str) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date: from 0, which asks for no wait."""
    with suppress(ValueError):
        return _clamp(float(retry_after))
    with suppress(ValueError, TypeError, OverflowError):
        return _clamp(parsedate_to_datetime(retry_after).timestamp() - time.time())
    return None


def _clamp(seconds: float) -> float:
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)  # in this order, NaN becomes 0


def find_free_port(host: str = LOOPBACK, port: int = 0) -> int:
    """The port, or for 0 one that nothing listens on now. Raises OSError if this process cannot listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, port), family=family) as probe:
        return int(probe.getsockname()[1])


def find_open_ports(ports: Sequence[int], within: float = 0.3) -> list[int]:
    """The ports on loopback that accept a connection, in the order given; `within`: seconds for all of them."""
    end = time.monotonic() + within
    found = []
    for port in ports:
        with socket.socket() as attempt:
            attempt.settimeout(max(end - time.monotonic(), 0.01))
            if attempt.connect_ex((LOOPBACK, port)) == 0:
                found.append(port)
    return found


def try_connecting(root: str, within: float) -> None:
    """Open a connection to the server at this address, and close it. Raises OSError."""
    parts = urlsplit(root)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((parts.hostname or "", port), within).close()
