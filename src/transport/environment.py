"""How a server is reached, as the environment says: through which proxy, and by which certificates it is trusted.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY name proxies, as the standard library reads them; NO_PROXY may also
hold networks (10.0.0.0/8). REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and SSL_CERT_FILE name certificates; without them
certifi's count. What the settings say about certificates comes before the environment.
"""

from __future__ import annotations

import os
import ssl
from contextlib import suppress
from ipaddress import ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct
from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from ..errors import ConfigError
from ..types.hosts import leads_here
from .errors import PROXY_HINT

_CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_PROXY_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


class Route(Struct, frozen=True):
    """`proxy`: its address, or "". `verify`: the path of certificates, True for certifi's, or False: no check.

    `cert`: the client's own certificate, as the path of it, or the paths of it and of its key; empty: none.
    """

    proxy: str
    verify: bool | str
    cert: tuple[str, ...] = ()


def find_route(base_url: str, ssl_verify: bool | str, cert: tuple[str, ...] = ()) -> Route:
    """`ssl_verify`: of the settings. Raises ConfigError if what names the proxy is no address of one."""
    verify = ssl_verify
    if verify is True:
        named = next(filter(None, map(os.environ.get, _CA_VARIABLES)), None)
        paths = ssl.get_default_verify_paths()
        if not named and paths.cafile != paths.openssl_cafile:  # SSL_CERT_FILE names one
            named = paths.cafile
        verify = named or True
    return Route(_find_proxy(base_url), verify, cert)


def make_tls_context(route: Route) -> ssl.SSLContext:
    """Raises ssl.SSLError or OSError if the certificates cannot be read."""
    context = _make_context(route.verify)
    if route.cert:
        context.load_cert_chain(*route.cert)
    return context


def _make_context(verify: bool | str) -> ssl.SSLContext:
    if not verify:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context
    if verify is True:
        from certifi import where  # not before it is needed

        verify = where()
    if not Path(verify).exists():
        raise ssl.SSLError(f"there is no file {verify}")
    if Path(verify).is_dir():
        return ssl.create_default_context(capath=verify)
    return ssl.create_default_context(cafile=verify)


def _find_proxy(base_url: str) -> str:
    parts = urlsplit(base_url)
    host = parts.hostname or ""
    if leads_here(host):  # a proxy would get the key
        return ""
    from urllib.request import getproxies, proxy_bypass  # what a server on this machine does not need

    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all", "")
    if not proxy or proxy_bypass(parts.netloc) or _is_in_network(host, proxies.get("no", "")):
        return ""
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    with suppress(LocationParseError):
        address = parse_url(proxy)
        if address.scheme in _PROXY_SCHEMES and address.host:
            return proxy
    raise ConfigError(f"The proxy for {base_url} is not an address such as http://proxy.test:3128.", PROXY_HINT)


def _is_in_network(host: str, excluded: str) -> bool:
    """Whether the host is an address in one of the networks of NO_PROXY."""
    with suppress(ValueError):
        address = ip_address(host)
        for each in excluded.split(","):
            with suppress(ValueError):
                if address in ip_network(each.strip(), strict=False):
                    return True
    return False
