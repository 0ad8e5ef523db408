"""The only socket. It moves bytes to and from one server and does not know what they mean.

Foreign errors (requests', urllib3's) are translated here and nowhere else. Bodies are read with
`raw.read1`: the one call that is prompt under chunked and under close-delimited framing alike
(`iter_lines` waits for 512 bytes or for the end, and is quadratic in a long line).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import NamedTuple
from urllib.parse import urlsplit

import requests
from urllib3 import exceptions as urllib3_errors

from .errors import BotError, ClientError, ConnectFailed, StreamCut, Timeout

CONNECT_TIMEOUT = 5.0  # seconds
READ_SIZE = 65536
MAX_WHOLE_BODY = 16 * 1024 * 1024
HEADERS = {"Content-Type": "application/json", "Accept": "text/event-stream, application/json"}

log = logging.getLogger(__name__)


class HttpReply(NamedTuple):
    status: int
    content_type: str
    location: str
    chunks: Iterator[bytes]

    def read(self) -> bytes:
        """The whole body, up to MAX_WHOLE_BODY bytes."""
        body = bytearray()
        for chunk in self.chunks:
            body += chunk
            if len(body) >= MAX_WHOLE_BODY:
                break
        return bytes(body)


class Client:
    """One server, one connection pool. `timeout`: seconds without a byte before an answer is given up.

    The key is sent under `key_header`, after `key_prefix`; `headers` go with every request.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str = "",
        timeout: float = 600.0,
        *,
        key_header: str = "Authorization",
        key_prefix: str = "Bearer ",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.base_url = base_url
        self._api_key = api_key
        self._key = key_header, key_prefix
        self._headers = {**HEADERS, **(headers or {})}
        self._timeouts = (CONNECT_TIMEOUT, timeout)
        self._session = requests.Session()
        # An auth of our own also keeps requests from sending what .netrc holds.
        self._session.auth = self._authorize

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._session.close()

    @contextmanager
    def open(self, method: str, path: str, body: bytes | None = None) -> Iterator[HttpReply]:
        """Send a request and hand out the answer as it streams; leaving the block closes the connection.

        `path` is under base_url; one that begins with a slash is under the server's root, above /v1.
        Raises ConnectFailed, Timeout; `chunks` raises StreamCut, Timeout.
        """
        log.debug("%s %s %s", method, self._url(path), (body or b"").decode(errors="replace"))
        try:
            answer = self._session.request(
                method,
                self._url(path),
                data=body,
                headers=self._headers,
                timeout=self._timeouts,
                stream=True,
                allow_redirects=False,
            )
        except requests.RequestException as error:
            raise self._translate(error) from error
        with answer:
            yield HttpReply(
                answer.status_code,
                answer.headers.get("Content-Type", ""),
                answer.headers.get("Location", ""),
                self._chunks(answer),
            )

    def _url(self, path: str) -> str:
        return f"{self.base_url.removesuffix('/v1')}{path}" if path.startswith("/") else f"{self.base_url}/{path}"

    def _chunks(self, answer: requests.Response) -> Iterator[bytes]:
        tracing = log.isEnabledFor(logging.DEBUG)
        try:
            while chunk := answer.raw.read1(READ_SIZE, decode_content=True):
                if tracing:
                    log.debug("received %s", chunk.decode(errors="replace").rstrip())
                yield chunk
        except urllib3_errors.ReadTimeoutError as error:
            raise self._silence() from error
        except (urllib3_errors.HTTPError, OSError) as error:
            raise StreamCut(f"The connection to {self.base_url} broke in the middle of the answer.") from error

    def _authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._api_key:
            header, prefix = self._key
            request.headers[header] = f"{prefix}{self._api_key}"
        return request

    def _silence(self) -> Timeout:
        return Timeout(
            f"{self.base_url} sent nothing for {self._timeouts[1]:g} seconds.",
            "A long prompt on a slow server needs more: set vllm.timeout in config.json.",
        )

    def _translate(self, error: requests.RequestException) -> BotError:
        if isinstance(error, requests.ConnectTimeout):
            return self._no_server(f"no connection within {CONNECT_TIMEOUT:g} seconds")
        if isinstance(error, requests.exceptions.SSLError):
            return ClientError(f"TLS with {self.base_url} failed: {_root(error)}")
        if isinstance(error, requests.exceptions.ProxyError):
            hint = "It is set by HTTP_PROXY or HTTPS_PROXY; NO_PROXY names the hosts that need none."
            return ClientError(f"The proxy for {self.base_url} cannot be reached.", hint)
        if isinstance(error, requests.ConnectionError):
            return self._no_server(_root(error))
        if isinstance(error, requests.Timeout):
            return self._silence()
        return ClientError(f"The request to {self.base_url} failed: {_root(error)}")

    def _no_server(self, reason: str) -> ConnectFailed:
        host = urlsplit(self.base_url).netloc
        return ConnectFailed(
            f"No server at {self.base_url} ({host}: {reason}).",
            "Start one with: vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER",
        )


def _root(error: BaseException) -> str:
    """The innermost reason, without the object addresses that urllib3 puts before it."""
    while error.args and isinstance(error.args[0], BaseException):
        error = error.args[0]
    reason = getattr(error, "reason", None)
    if isinstance(reason, BaseException):
        return _root(reason)
    text = getattr(error, "strerror", None) or str(error).rsplit(": ", 1)[-1]
    return re.sub(r"^\[Errno -?\d+\] ", "", text) or type(error).__name__
