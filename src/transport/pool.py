"""Connections to a server, which all clients with the same address, key and route share, in any thread.

A pool of urllib3 keeps them. What urllib3's PoolManager and requests do for each request, such as to look for a pool
and for proxies, is done once here: it costs as much as the request itself.
"""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit
from weakref import WeakSet, WeakValueDictionary

import urllib3
from urllib3.connection import HTTPConnection
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

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
        self._prefix = ""  # of a request's path
        self._connections: urllib3.HTTPConnectionPool | None = None

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
        answer = self._connect().urlopen(
            method,
            self._prefix + _clean_path(url),
            body,
            headers,
            retries=False,
            redirect=False,
            assert_same_host=False,  # for a proxy, the whole address is sent
            timeout=timeout,
            preload_content=False,
        )
        self.may_have_kept = self.may_have_kept or answer.headers.get("Connection", "").lower() != "close"
        for cookie in answer.headers.getlist("Set-Cookie"):
            name, _, value = cookie.partition(";")[0].partition("=")
            self._cookies[name.strip()] = value.strip()
        return answer

    def _connect(self) -> urllib3.HTTPConnectionPool:
        with _LOCK:
            if self._connections is None:
                address = urlsplit(self._base_url)
                if address.scheme == "http" and self._route.proxy.startswith("http"):
                    self._prefix = _make_origin(address)  # the proxy sends the request on
                self._connections = _make_pool(address, self._route)
            return self._connections


_POOLS: WeakValueDictionary[tuple[object, ...], SharedPool] = WeakValueDictionary()
_LOCK = Lock()


def _make_pool(address: SplitResult, route: Route) -> urllib3.HTTPConnectionPool:
    options: dict[str, Any] = {"maxsize": MAX_KEPT_CONNECTIONS}
    if address.scheme == "https":
        options["ssl_context"] = make_tls_context(route)
    manager = _make_proxy_manager(route.proxy, options) if route.proxy else urllib3.PoolManager(**options)
    pool = manager.connection_from_host(_encode_host(address), address.port, address.scheme)
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


def _make_origin(address: SplitResult) -> str:
    host = _encode_host(address)
    port = f":{address.port}" if address.port else ""
    return f"{address.scheme}://{f'[{host}]' if ':' in host else host}{port}"


def _encode_host(address: SplitResult) -> str:
    """Raises LocationParseError."""
    try:
        return (address.hostname or "").encode("idna").decode()
    except UnicodeError as error:
        raise LocationParseError(address.netloc) from error


@cache
def _watch(kind: type[HTTPConnection]) -> type[HTTPConnection]:
    """A connection of this kind that reads within deadlines."""
    return type(kind.__name__, (DeadlineConnection, kind), {})
