"""Connections to a server, which all clients with the same address, key and route share, in any thread.

Requests go through an adapter of requests over one pool of urllib3. What a Session does for each request, such as to
look for a pool, proxies and cookies, is done once here: it costs more than the request itself.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, cast
from urllib.parse import unquote, urlsplit
from weakref import WeakSet, WeakValueDictionary

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, MaxRetryError
from urllib3.util import Url, parse_url

from ..errors import ClientError
from .deadlines import DeadlineConnection
from .environment import Route, make_tls_context

MAX_KEPT_CONNECTIONS = 64  # to one server
_SOCKS_HINT = "Install it with: pip install PySocks. The proxy is set by HTTP_PROXY, HTTPS_PROXY or ALL_PROXY."


class SharedPool:
    """`join` gives the one of an address, a key and a route; its last user closes it."""

    def __init__(self, base_url: str, route: Route) -> None:
        self.users: WeakSet[object] = WeakSet()
        self.may_have_kept = False  # a connection, for the next request
        self._cookies: dict[str, str] = {}  # a load balancer's, which lead to the replica that has the prompt cached
        self._base_url = base_url
        self._route = route
        self._connections: _PoolAdapter | None = None

    @classmethod
    def join(cls, user: object, base_url: str, api_key: str, route: Route) -> SharedPool:
        key = base_url, api_key, route
        with _LOCK:
            pool = _POOLS.get(key) or cls(base_url, route)
            _POOLS[key] = pool
            pool.users.add(user)
            return pool

    def leave(self, user: object) -> None:
        with _LOCK:
            self.users.discard(user)
            if not self.users and self._connections is not None:
                self._connections.close()
                self._connections = None

    def request(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str], timeout: urllib3.Timeout
    ) -> urllib3.BaseHTTPResponse:
        """The answer, its body unread. `url` is of this server. Raises ClientError, and urllib3's."""
        if self._cookies:
            headers = {**headers, "Cookie": "; ".join(f"{name}={value}" for name, value in self._cookies.items())}
        prepared = requests.PreparedRequest()
        prepared.method, prepared.url, prepared.body = method, url, body
        prepared.headers = requests.structures.CaseInsensitiveDict(headers)
        prepared.headers["Content-Length"] = str(len(body or b""))
        try:
            response = self._connect().send(
                prepared, stream=True, timeout=cast(Any, timeout)
            )  # the stubs lack urllib3's
        except requests.RequestException as error:
            cause = next(iter(error.args), None)  # urllib3's error
            if isinstance(cause, MaxRetryError):
                cause = cause.reason or cause
            if isinstance(cause, (HTTPError, OSError)):
                raise cause from None
            raise
        answer: urllib3.BaseHTTPResponse = response.raw
        self.may_have_kept = self.may_have_kept or answer.headers.get("Connection", "").lower() != "close"
        for cookie in answer.headers.getlist("Set-Cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name.strip()] = value.strip()
        return answer

    def _connect(self) -> _PoolAdapter:
        with _LOCK:
            if self._connections is None:
                address = parse_url(self._base_url)
                prefix = ""
                if address.scheme == "http" and self._route.proxy.startswith("http"):  # it sends the request on
                    prefix = f"{address.scheme}://{address.netloc}"
                self._connections = _PoolAdapter(_make_pool(address, self._route), prefix)
            return self._connections


class _PoolAdapter(HTTPAdapter):
    """Sends every request on one pool. `prefix`: of a request's path."""

    def __init__(self, pool: urllib3.HTTPConnectionPool, prefix: str) -> None:
        super().__init__()
        self.max_retries = urllib3.Retry(False)  # errors come as they are
        self._pool = pool
        self._prefix = prefix

    def get_connection_with_tls_context(self, *_: object, **__: object) -> urllib3.HTTPConnectionPool:
        return self._pool

    def cert_verify(self, *_: object) -> None:
        """The pool's TLS context has the certificates."""

    def request_url(self, request: requests.PreparedRequest, _: object) -> str:
        return self._prefix + _clean_path(request.url or "")

    def close(self) -> None:
        self._pool.close()
        super().close()


_POOLS: WeakValueDictionary[tuple[object, ...], SharedPool] = WeakValueDictionary()
_LOCK = Lock()


def _make_pool(address: Url, route: Route) -> urllib3.HTTPConnectionPool:
    options: dict[str, Any] = {"maxsize": MAX_KEPT_CONNECTIONS}
    if address.scheme == "https":
        options["ssl_context"] = make_tls_context(route)
    manager = _make_proxy_manager(route.proxy, options) if route.proxy else urllib3.PoolManager(**options)
    pool = manager.connection_from_host(address.host, address.port, address.scheme)
    pool.ConnectionCls = _watch(pool.ConnectionCls)
    return pool


def _make_proxy_manager(proxy: str, options: dict[str, Any]) -> urllib3.PoolManager:
    """Raises ClientError for a SOCKS proxy where the package for it is not installed."""
    if proxy.startswith("socks"):
        if find_spec("socks") is None:
            raise ClientError("The package for SOCKS proxies is not installed.", _SOCKS_HINT)
        from urllib3.contrib.socks import SOCKSProxyManager

        return SOCKSProxyManager(proxy, **options)
    parts = urlsplit(proxy)
    key = f"{unquote(parts.username)}:{unquote(parts.password or '')}" if parts.username else None
    return urllib3.ProxyManager(proxy, proxy_headers=urllib3.make_headers(proxy_basic_auth=key), **options)


@lru_cache(maxsize=64)
def _clean_path(url: str) -> str:
    """The path and the query as they are sent: encoded, and without `..`."""
    return parse_url(f"/{''.join(url.split('/', 3)[3:])}").request_uri


@cache
def _watch(kind: type[HTTPConnection]) -> type[HTTPConnection]:
    """A connection of this kind that reads within deadlines."""
    return type(kind.__name__, (DeadlineConnection, kind), {})
