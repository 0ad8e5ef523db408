"""As http.py, on asyncio with aiohttp: the same limits, errors, redirects and care for the API key.

One client serves any number of requests at once. It belongs to the event loop in which it sends its first request,
until that has ended. A watch of one timer a request ends a read whose deadline has passed; a chunk costs no timer.
"""

from __future__ import annotations

import asyncio
import errno
import http.client
import os
import re
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from copy import copy
from types import SimpleNamespace
from typing import Any

import aiohttp
from urllib3 import exceptions as urllib3_errors

from ..errors import BotError, ClientError, StreamCut
from ..types.effects import ReplyHead
from .deadlines import POLL_INTERVAL_S, Deadline, Timeouts
from .environment import make_tls_context
from .errors import PROXY_HINT
from .pool import MAX_KEPT_CONNECTIONS
from .server_access import (
    DRAIN_TIMEOUT_S,
    MAX_BODY_BYTES,
    MAX_REDIRECTS,
    READ_BYTES,
    ServerAccess,
    find_redirect,
    parse_retry_after,
)

MAX_HEADER_BYTES = 65536  # of one header, as in http.client; aiohttp's own limit is 8,190
_UNDECODABLE = re.compile("content-encoding|error in on_body")  # in messages of aiohttp, whose parser decompresses
_CLOSED = (errno.ECONNRESET, errno.EPIPE)


class AsyncReply:
    """An answer that streams."""

    def __init__(self, client: AsyncClient, response: aiohttp.ClientResponse, deadline: Deadline) -> None:
        self._client = client
        self._response = response
        self._deadline = deadline
        headers = response.headers
        self.head = ReplyHead(
            response.status,
            headers.get("Content-Type", ""),
            headers.get("Location", ""),
            parse_retry_after(headers.get("Retry-After", "")),
            tuple(headers.items()),
            client.has_key,
        )
        self._loop = asyncio.get_running_loop()
        self._watch = self._loop.call_later(0, self._look)

    def _look(self) -> None:
        """End the wait for bytes at the deadline, or where aiohttp gave up the connection."""
        connection = self._response.connection
        protocol = connection and connection.protocol
        if protocol is not None and (malformed := protocol.exception()):
            # Of a malformed chunk, aiohttp 3.14 does not tell who waits for bytes.
            self._response.content.set_exception(aiohttp.ClientPayloadError(str(malformed)))
            return
        try:
            wait = min(self._deadline.remaining(), POLL_INTERVAL_S)
            self._watch = self._loop.call_later(wait, self._look)
        except TimeoutError as error:
            self._response.content.set_exception(error)

    async def read_all(self) -> bytes:
        """The body, up to MAX_BODY_BYTES bytes; without the API key, which a refusal may quote."""
        body = bytearray()
        while len(body) < MAX_BODY_BYTES and (chunk := await self.read()):
            body += chunk
        return self._client.redact_key(bytes(body)) if self.head.is_error else bytes(body)

    async def read(self) -> bytes | None:
        """The next bytes of the body; None at its end. Raises StreamCut and Timeout."""
        content = self._response.content
        try:
            # An error is raised before what came ahead of it is given; there is no public way around that.
            chunk = content._read_nowait(-1) if content.exception() else b""
            chunk = chunk or await content.readany()
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise self._deadline.timeout_error(self._client.base_url) from error
        except (aiohttp.ClientError, OSError) as error:
            base_url = self._client.base_url
            if _UNDECODABLE.search(str(error)):
                self._client.ask_uncompressed()
                raise StreamCut(f"The answer of {base_url} could not be decompressed.", max_retries=1) from error
            raise StreamCut(f"The connection to {base_url} broke in the middle of the answer.") from error
        self._deadline.note_progress(chunk)
        return chunk or None

    async def release(self) -> None:
        """Read on for a moment, so that the connection serves the next request too."""
        content = self._response.content
        if not content.at_eof():
            self._deadline.cap(DRAIN_TIMEOUT_S)
            self._watch.cancel()
            self._look()
            with suppress(ClientError):
                while await self.read():
                    pass
        self.close()

    def close(self) -> None:
        """End the answer. Its connection is kept only if all of it was read."""
        self._watch.cancel()
        self._response.close()


class AsyncClient(ServerAccess):
    """One server. The arguments are those of ServerAccess. Use it with `async with`, or call `close`.

    `keeps_cookies`: of the server's answers, for later requests; not where these are those of several users.
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
        keeps_cookies: bool = True,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        super().__init__(base_url, api_key, clocks, key_header, key_prefix, headers, ssl_verify, cert)
        self.sleep = sleep
        self._now = now
        self._keeps_cookies = keeps_cookies
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop  # of the session
        self._is_closed = False

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections. From then on a request raises BotError."""
        self._is_closed = True
        if self._session is not None and not self._loop.is_closed():
            await self._session.close()
        self._session = None

    def _open_session(self) -> aiohttp.ClientSession:
        """The connections; new ones where those of an earlier event loop have ended with it. Raises BotError."""
        if self._is_closed:
            raise BotError(
                f"The connections to {self.base_url} are closed.",
                "Ask inside its `async with` block, or make another one.",
            )
        loop = asyncio.get_running_loop()
        if self._session is None or self._loop.is_closed():
            self._session, self._loop = self._make_session(), loop
        if self._loop is not loop:
            raise BotError(f"{self.base_url} is asked in two event loops at once.", "Make a client in each of them.")
        return self._session

    def with_headers(self, headers: Mapping[str, str]) -> AsyncClient:
        """A client that shares this one's connections and sends these headers too, where it has none of its own.

        Only this one is to be closed.
        """
        self._open_session()
        other = copy(self)
        own = {name.lower() for name in self._headers}
        other._headers = {name: value for name, value in headers.items() if name.lower() not in own} | self._headers
        return other

    @property
    def key_headers(self) -> dict[str, str]:
        """The headers with the API key or the login; none if there is neither."""
        secrets = [secret for secret in (self._api_key, self._login) if secret]
        return {name: value for name, value in self._headers.items() if any(secret in value for secret in secrets)}

    async def open(
        self, method: str, path: str, body: bytes | None = None, *, within: float | None = None
    ) -> AsyncReply:
        """Send a request; see Client.open. The reply is to be released or closed."""
        url = self.build_url(path)
        deadline = Deadline(self.limits, self._now)
        if within is not None:
            deadline.cap(within)
        for _ in range(MAX_REDIRECTS + 1):
            response = await self._send(method, url, body, deadline)
            target = find_redirect(url, response.status, response.headers.get("Location", ""))
            if target is None:
                return AsyncReply(self, response, deadline)
            response.close()
            url = target
        raise self.build_loop_error(url)

    async def _send(self, method: str, url: str, body: bytes | None, deadline: Deadline) -> aiohttp.ClientResponse:
        try:
            response = await asyncio.wait_for(self._request(method, url, body), deadline.remaining())
        except aiohttp.ConnectionTimeoutError as error:
            raise self.translate(urllib3_errors.ConnectTimeoutError()) from error
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise deadline.timeout_error(self.base_url) from error
        except (aiohttp.ClientError, OSError, UnicodeError) as error:  # of a host's name
            # aiohttp reports these two instead of the head of an answer that had begun
            if isinstance(error, aiohttp.ServerDisconnectedError) and not isinstance(error.message, str):
                raise StreamCut("The server's answer was empty.", "Its log may say why.", max_retries=1) from error
            if isinstance(error, aiohttp.ClientResponseError) and "chunk size" in error.message:
                raise StreamCut(f"The connection to {self.base_url} broke in the middle of the answer.") from error
            raise self.translate(_to_known(error)) from error
        self.has_answered = True
        return response

    async def _request(self, method: str, url: str, body: bytes | None) -> aiohttp.ClientResponse:
        """A kept connection that the server has closed meanwhile is replaced."""
        proxy = self._route.proxy or None
        if proxy and proxy.startswith("socks"):
            raise ClientError(f"The proxy for {self.base_url} is a SOCKS proxy, which asyncio cannot use.", PROXY_HINT)
        left = MAX_KEPT_CONNECTIONS
        while True:
            traced = SimpleNamespace(has_connected=False)
            try:
                return await self._open_session().request(
                    method,
                    url,
                    data=body,
                    headers=self._headers,
                    allow_redirects=False,
                    proxy=proxy,
                    trace_request_ctx=traced,
                )
            except (aiohttp.ClientError, OSError) as error:
                if traced.has_connected or not left or not _is_closed(error):
                    raise
                left -= 1

    def _make_session(self) -> aiohttp.ClientSession:
        is_secure = self.base_url.startswith("https:")
        jar: aiohttp.abc.AbstractCookieJar = aiohttp.DummyCookieJar()
        if self._keeps_cookies:
            jar = aiohttp.CookieJar(unsafe=True)  # of one server, which may be named by its IP address
        trace = aiohttp.TraceConfig()
        trace.on_connection_create_start.append(_note_connection)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=make_tls_context(self._route) if is_secure else False),
            cookie_jar=jar,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.limits.connect),
            trace_configs=[trace],
            read_bufsize=READ_BYTES,
            max_field_size=MAX_HEADER_BYTES,
        )


def bound_send_buffer(transport: asyncio.BaseTransport, size: int) -> None:
    """Of a peer that reads slowly, let the system hold about `size` bytes and no more, so that the writer waits."""
    if connection := transport.get_extra_info("socket"):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, size)


def _is_closed(error: Exception) -> bool:
    """Whether the server has closed the connection. What aiohttp finds closed before it writes has no error number."""
    is_reset = isinstance(error, (aiohttp.ServerDisconnectedError, ConnectionResetError))
    return is_reset or getattr(error, "errno", 0) in _CLOSED


async def _note_connection(_: object, traced: SimpleNamespace, __: object) -> None:
    traced.trace_request_ctx.has_connected = True


_KNOWN: tuple[tuple[type[Exception], Callable[[Any], Any]], ...] = (  # special ones before general ones
    (aiohttp.ClientProxyConnectionError, lambda error: urllib3_errors.ProxyError("", error)),
    (aiohttp.ClientConnectorDNSError, lambda error: socket.gaierror(error.os_error)),
    (aiohttp.ClientConnectorCertificateError, lambda error: error.certificate_error),
    (aiohttp.ClientConnectorSSLError, lambda error: error.os_error),
    (aiohttp.ClientConnectorError, lambda error: _shorten(error.os_error)),
    (aiohttp.ServerDisconnectedError, lambda error: http.client.RemoteDisconnected(str(error))),
    (aiohttp.ClientResponseError, lambda error: http.client.HTTPException(_unescape(error.message))),
)


def _to_known(error: Exception) -> urllib3_errors.HTTPError:
    """What urllib3 would raise in its place, for which there are messages."""
    for kind, convert in _KNOWN:
        if isinstance(error, kind):
            error = convert(error)
            break
    if isinstance(error, urllib3_errors.HTTPError):
        return error
    return urllib3_errors.ProtocolError(error)


def _shorten(error: OSError) -> OSError:
    """The system's own words; asyncio adds the address, which the message has already."""
    if not error.errno:
        return error
    return OSError(error.errno, os.strerror(error.errno))


def _unescape(message: str) -> str:
    """The bytes that a parser's message quotes as \\x15 and so on."""
    with suppress(UnicodeError):
        return message.encode("latin-1", "replace").decode("unicode_escape")
    return message
