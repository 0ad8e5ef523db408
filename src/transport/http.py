"""Requests to one server and its answers as they stream; and which ports of this machine are open.

Bodies are read with `raw.read1`, the only call that is prompt for both chunked and close-delimited answers
(`iter_lines` waits for 512 bytes or the end, and is quadratic in a long line). The API key is sent to no other host:
a redirect is followed only within the same scheme, host and port.
"""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from threading import Event, Lock
from types import TracebackType
from typing import Any, NamedTuple
from urllib.parse import urljoin, urlsplit
from weakref import WeakSet, WeakValueDictionary

import requests
from urllib3 import disable_warnings
from urllib3 import exceptions as urllib3_errors

from ..errors import Cancelled, ClientError, ConfigError, StreamCut
from .deadlines import CANCELLED, CURRENT, Deadline, DeadlineAdapter, Timeouts
from .errors import is_stale_connection, translate

READ_BYTES = 65536
MAX_BODY_BYTES = 16 * 1024 * 1024
MAX_REDIRECTS = 3
SAME_METHOD = (307, 308)  # redirects that keep method and body
MAX_KEPT_CONNECTIONS = 64  # to one server
LOOPBACK = "127.0.0.1"
MAX_RETRY_AFTER_S = 24 * 3600.0  # a longer wait that a server asks for counts as this one
DRAIN_TIMEOUT_S = 0.1  # for the rest of a body that is not used, so that the connection can be reused

HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}

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


class _Pool:
    """Connections to one server with one key, shared by the clients of this program, in any thread."""

    def __init__(self) -> None:
        self.users: WeakSet[Client] = WeakSet()
        self.may_have_kept = False  # a connection, for the next request
        self.session = requests.Session()
        for scheme in ("http://", "https://"):
            self.session.mount(scheme, DeadlineAdapter(pool_maxsize=MAX_KEPT_CONNECTIONS))
        self.session.trust_env = False  # each client has read the environment once

    @classmethod
    def join(cls, user: Client, key: Hashable) -> _Pool:
        with _POOLS_LOCK:
            pool = _POOLS.get(key) or cls()
            _POOLS[key] = pool
            pool.users.add(user)
            return pool

    def leave(self, user: Client) -> None:
        """The last user closes the connections."""
        with _POOLS_LOCK:
            self.users.discard(user)
            if not self.users:
                self.session.close()


_POOLS: WeakValueDictionary[Hashable, _Pool] = WeakValueDictionary()
_POOLS_LOCK = Lock()


class Client:
    """One server, one request at a time. Clients with the same address and key share their connections.

    The key is sent under `key_header`, after `key_prefix`; `headers` go with every request.
    `ssl_verify`: True, False, or the path of a CA file. Raises ConfigError if a header cannot hold the key.
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
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        check_key(api_key)
        self.base_url = base_url
        self.sleep = sleep
        self._api_key = api_key
        self._deadline = Deadline(clocks, now)
        self._has_answered = False  # whether the server has ever answered
        self._key = key_header, key_prefix
        self._headers = {**HEADERS, **(headers or {})}
        # Proxies and CA bundles of the environment, read once; requests would read them for each request.
        self._settings = read_environment(base_url, ssl_verify)
        proxies = tuple(sorted(self._settings["proxies"].items()))
        self._pool = _Pool.join(self, (base_url, api_key, str(self._settings["verify"]), proxies))
        if not ssl_verify:
            disable_warnings(urllib3_errors.InsecureRequestWarning)  # the user is told once

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
        log.debug("%s %s %s", method, url, (body or b"").decode(errors="replace"))
        self._deadline.start()
        if within is not None:
            self._deadline.cap(within)
        with self._follow(method, url, body) as answer:
            chunks = self._stream(answer)
            headers = answer.headers
            yield HttpReply(
                answer.status_code,
                headers.get("Content-Type", ""),
                headers.get("Location", ""),
                chunks if answer.status_code < 400 else self._redact_key(chunks),
                parse_retry_after(headers.get("Retry-After", "")),
            )
            self._deadline.cap(DRAIN_TIMEOUT_S)
            with suppress(ClientError):
                deque(chunks, maxlen=0)  # read to its end, the connection serves the next request too

    def _follow(self, method: str, url: str, body: bytes | None) -> requests.Response:
        """The answer, following redirects within this server."""
        for _ in range(MAX_REDIRECTS + 1):
            answer = self._send(method, url, body)
            target = find_redirect(url, answer.status_code, answer.headers.get("Location", ""))
            if target is None:
                return answer
            answer.close()
            url = target
        raise build_loop_error(self.base_url, url)

    def _send(self, method: str, url: str, body: bytes | None) -> requests.Response:
        try:
            answer = self._request(method, url, body)
        except requests.ReadTimeout as error:
            raise self._deadline.timeout_error(self.base_url) from error
        except OSError as error:  # RequestException is an OSError; so is a missing CA file
            limit = self._deadline.limits.connect
            raise translate(error, self.base_url, limit, has_answered=self._has_answered) from error
        self._has_answered = True
        self._pool.may_have_kept = self._pool.may_have_kept or answer.headers.get("Connection", "").lower() != "close"
        return answer

    def _request(self, method: str, url: str, body: bytes | None) -> requests.Response:
        """As requests does it; a kept connection that the server has closed meanwhile is replaced."""
        limits = self._deadline.limits
        left = MAX_KEPT_CONNECTIONS
        while True:
            CURRENT.deadline, CURRENT.has_connected = self._deadline, False
            try:
                return self._pool.session.request(
                    method,
                    url,
                    data=body,
                    headers=self._headers,
                    auth=self._authorize,  # also keeps requests from using .netrc
                    timeout=(limits.connect, limits.first_token),
                    allow_redirects=False,
                    **self._settings,
                )
            except requests.ConnectionError as error:
                is_kept = self._pool.may_have_kept and not CURRENT.has_connected
                if not (left and is_kept and is_stale_connection(error)):
                    raise
                left -= 1
                log.debug("the kept connection was closed meanwhile; asking again on another one")

    def _stream(self, answer: requests.Response) -> Iterator[bytes]:
        tracing = log.isEnabledFor(logging.DEBUG)
        received, read1 = self._deadline.note_progress, answer.raw.read1
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
        body = _read_all(chunks)
        yield body.replace(self._api_key.encode(), b"[API key]") if self._api_key else body

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._api_key:
            header, prefix = self._key
            request.headers[header] = f"{prefix}{self._api_key}"
        return request


def _read_all(chunks: Iterator[bytes]) -> bytes:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) >= MAX_BODY_BYTES:
            break
    return bytes(body)


def check_key(api_key: str) -> None:
    """Raises ConfigError if a header cannot hold it."""
    if not (api_key.isascii() and api_key.isprintable()):
        hint = "Check VLLM_API_KEY and vllm.api_key."
        raise ConfigError("The API key contains a character that is not allowed in an HTTP header.", hint)


def read_environment(base_url: str, ssl_verify: bool | str) -> dict[str, Any]:
    """The arguments of a request that the environment determines: `proxies` and `verify`, a CA bundle, among them."""
    settings = dict(requests.Session().merge_environment_settings(base_url, {}, True, ssl_verify, None))
    if is_loopback(urlsplit(base_url).hostname or ""):
        settings["proxies"] = {}  # requests asks only NO_PROXY, and a proxy would get the key
    if settings["verify"] is True:
        settings["verify"] = _find_ca_file() or True
    return settings


def build_url(base_url: str, path: str) -> str:
    return f"{base_url.removesuffix('/v1')}{path}" if path.startswith("/") else f"{base_url}/{path}"


def find_redirect(url: str, status: int, location: str) -> str | None:
    """The address to follow; None if there is none within the same server."""
    target = urljoin(url, location)
    return target if status in SAME_METHOD and _get_origin(target) == _get_origin(url) else None


def build_loop_error(base_url: str, last: str) -> ClientError:
    return ClientError(f"{base_url} redirects in a loop, last to {last}.", "Check vllm.base_url.")


def _get_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def parse_retry_after(retry_after: str) -> float | None:
    """Seconds from a Retry-After header, which holds seconds or a date: from 0, which asks for no wait."""
    with suppress(ValueError):
        return _clamp(float(retry_after))
    with suppress(ValueError, TypeError):
        return _clamp(parsedate_to_datetime(retry_after).timestamp() - time.time())
    return None


def _clamp(seconds: float) -> float:
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)  # in this order, NaN becomes 0


def is_loopback(host: str) -> bool:
    """Whether it is this machine itself: localhost, 127.0.0.0/8 or ::1."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _find_ca_file() -> str | None:
    """The file that SSL_CERT_FILE names; requests looks only at REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE."""
    paths = ssl.get_default_verify_paths()
    return paths.cafile if paths.cafile != paths.openssl_cafile else None


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
