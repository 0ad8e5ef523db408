"""Exceptions of urllib3, http.client, ssl and the system, translated to our errors.

They wrap each other several times; the first row of a table that matches one of the causes decides. TLS failures name
the reason and the setting; no check is ever turned off.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Iterator
from urllib.parse import urlsplit

from msgspec import Struct
from urllib3 import exceptions as urllib3_errors

from ..errors import (
    CHECK_ADDRESS,
    Advice,
    ClientError,
    ConnectFailed,
    HostUnknown,
    NeverReached,
    NotHttp,
    NoTls,
    StreamCut,
    TlsFailed,
)

START_HINT = "Start one with: vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER"
PROXY_HINT = "It is set by HTTP_PROXY or HTTPS_PROXY; list hosts that need no proxy in NO_PROXY."
_CLOSED_HINT = Advice(
    "If the server speaks TLS, vllm.base_url must begin with https://. Otherwise its log may say more.",
    "If the server speaks TLS, `base_url` must begin with https://. Otherwise its log may say more.",
)
_PORT_HINT = Advice(
    "Another program may be listening on that port: check vllm.base_url.",
    "Another program may be listening on that port: check `base_url`.",
)
_CA_HINT = Advice(
    "If you trust it, set vllm.ssl_verify to a file with its certificate, or its authority's.",
    "If you trust it, pass as `verify` the path of a file with its certificate, or its authority's.",
)
_UNCHECKED_HINT = Advice(
    "Until it is renewed, vllm.ssl_verify: false connects without checking it.",
    "Until it is renewed, verify=False connects without checking it.",
)
_NAME_HINT = Advice(
    "Use the name in the certificate as vllm.base_url, or give the server a certificate for this name.",
    "Use the name in the certificate as `base_url`, or give the server a certificate for this name.",
)
_PLAIN_HINT = Advice(
    "If it is plain HTTP, vllm.base_url must begin with http://.",
    "If it is plain HTTP, `base_url` must begin with http://.",
)
_TLS_HINT = Advice("vllm.base_url must begin with https://.", "`base_url` must begin with https://.")
_TLS_SETTINGS_HINT = Advice("See vllm.base_url and vllm.ssl_verify.", "See `base_url` and `verify`.")

_CONNECTION_ERRORS = (urllib3_errors.NewConnectionError, urllib3_errors.ProtocolError)
_CLOSED = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)


class _Translation(Struct, frozen=True):
    """For a cause of this type whose words match `pattern`; `message` may hold {url}, {host}, {cause} and {flaw}."""

    cause: type[BaseException] | tuple[type[BaseException], ...]
    pattern: str
    error: type[ClientError]
    message: str
    hint: str


_TRANSLATIONS = (  # the first row that matches counts: special ones before general ones
    _Translation(urllib3_errors.ProxyError, "", ClientError, "The proxy for {url} cannot be reached.", PROXY_HINT),
    _Translation(socket.gaierror, "", HostUnknown, "There is no host named {host}.", CHECK_ADDRESS),
    _Translation(ssl.SSLCertVerificationError, "", TlsFailed, "{url} cannot be trusted: {flaw}.", ""),
    _Translation(
        ssl.SSLError,
        "WRONG_VERSION_NUMBER|HTTP_REQUEST|RECORD_LAYER_FAILURE",
        NoTls,
        "{url} does not speak TLS.",
        _PLAIN_HINT,
    ),
    _Translation(ssl.SSLError, "", TlsFailed, "TLS with {url} failed: {cause}.", _TLS_SETTINGS_HINT),
    _Translation(_CLOSED, "", StreamCut, "{url} closed the connection without an answer.", _CLOSED_HINT),
    _Translation(
        http.client.HTTPException,
        r"[\x15\x16]\x03[\x00-\x04]",  # how a TLS alert or handshake begins
        TlsFailed,
        "{url} speaks TLS, not plain HTTP.",
        _TLS_HINT,
    ),
    _Translation(http.client.HTTPException, "", NotHttp, "{url} is not an HTTP server.", _PORT_HINT),
    _Translation(urllib3_errors.SSLError, "", TlsFailed, "TLS with {url} failed: {cause}.", _TLS_SETTINGS_HINT),
)

_CERTIFICATE_FLAWS = {  # OpenSSL's verification codes, X509_V_ERR_*
    9: ("its certificate is not valid yet (or a clock is wrong)", _UNCHECKED_HINT),
    10: ("its certificate has expired", _UNCHECKED_HINT),
    18: ("its certificate is self-signed", _CA_HINT),
    19: ("its certificate was signed by an authority that is not trusted here", _CA_HINT),
    20: ("its certificate was signed by an authority that is not known here", _CA_HINT),
    21: ("its certificate was signed by an authority that is not known here", _CA_HINT),
    62: ("its certificate is for another host", _NAME_HINT),
    64: ("its certificate is for another host", _NAME_HINT),
}


def is_stale_connection(error: Exception) -> bool:
    """Whether the server may have closed a kept connection in the meantime."""
    return any(isinstance(cause, _CLOSED) for cause in _list_causes(error))


def translate(error: Exception, base_url: str, connect_timeout: float, *, has_answered: bool = False) -> ClientError:
    """The error for a request without an answer, but for read timeouts, which Deadline explains.

    `connect_timeout`: in seconds; `has_answered`: whether the server has answered before.
    """
    causes = list(_list_causes(error))
    if type(error) is urllib3_errors.ConnectTimeoutError:  # others derive from it
        return _build_connect_error(base_url, f"no connection within {connect_timeout:g} seconds", has_answered)
    for row in _TRANSLATIONS:
        for cause in causes:
            if isinstance(cause, row.cause) and re.search(row.pattern, str(cause)):
                unknown = f"its certificate is not valid: {getattr(cause, 'verify_message', '') or _describe(cause)}"
                flaw, hint = _CERTIFICATE_FLAWS.get(getattr(cause, "verify_code", 0), (unknown, _CA_HINT))
                words = {"url": base_url, "host": urlsplit(base_url).hostname, "cause": _describe(cause), "flaw": flaw}
                return row.error(row.message.format(**words), row.hint or hint)
    if isinstance(error, _CONNECTION_ERRORS):
        return _build_connect_error(base_url, _describe(causes[-1]), has_answered)
    return ClientError(f"The request to {base_url} failed: {_describe(causes[-1])}")


def _list_causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, outermost first."""
    yield error
    inner = [each for each in (*error.args, getattr(error, "reason", None)) if isinstance(each, BaseException)]
    for each in inner or filter(None, [error.__cause__]):
        yield from _list_causes(each)


def _build_connect_error(base_url: str, reason: str, has_answered: bool) -> ConnectFailed:
    error = ConnectFailed if has_answered else NeverReached
    return error(f"No server at {base_url} ({urlsplit(base_url).netloc}: {reason}).", START_HINT)


def _describe(error: BaseException) -> str:
    """The message of a cause, without the object addresses that urllib3 adds."""
    text = getattr(error, "strerror", None) or str(error).rsplit(": ", 1)[-1]
    return re.sub(r"^\[[^]]*\] | \(_ssl\.c:\d+\)", "", text).rstrip(".") or type(error).__name__
