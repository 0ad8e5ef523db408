"""Exceptions of requests, urllib3, http.client, ssl and the system, translated to our errors.

They wrap each other several times; the first row of a table that matches one of the causes says what happened. TLS
failures name the reason and the setting; no check is ever turned off.
"""

from __future__ import annotations

import http.client
import re
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import requests

from ..errors import ClientError, ConnectFailed, HostUnknown, NeverReached, NotHttp, StreamCut, TlsFailed

START_HINT = "Start one with: vllm serve MODEL --enable-auto-tool-choice --tool-call-parser PARSER"
PROXY_HINT = "It is set by HTTP_PROXY or HTTPS_PROXY; list hosts that need no proxy in NO_PROXY."
_TLS_RECORD = re.compile(r"[\x15\x16]\x03[\x00-\x04]")  # how an alert or a handshake begins

_CA_HINT = "If you trust it, set vllm.ssl_verify to a file with its certificate, or its authority's."
_UNCHECKED_HINT = "Until it is renewed, vllm.ssl_verify: false connects without checking it."
_NAME_HINT = "Use the name in the certificate as vllm.base_url, or give the server a certificate for this name."


class _Flaw(NamedTuple):
    said: str
    hint: str


_FLAWS = {  # OpenSSL's verification codes, X509_V_ERR_*
    9: _Flaw("its certificate is not valid yet (or a clock is wrong)", _UNCHECKED_HINT),
    10: _Flaw("its certificate has expired", _UNCHECKED_HINT),
    18: _Flaw("its certificate is self-signed", _CA_HINT),
    19: _Flaw("its certificate was signed by an authority that is not trusted here", _CA_HINT),
    20: _Flaw("its certificate was signed by an authority that is not known here", _CA_HINT),
    21: _Flaw("its certificate was signed by an authority that is not known here", _CA_HINT),
    62: _Flaw("its certificate is for another host", _NAME_HINT),
    64: _Flaw("its certificate is for another host", _NAME_HINT),
}


def is_stale_connection(error: requests.RequestException) -> bool:
    """Whether the server may have closed a kept connection in the meantime."""
    gone = (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError)
    return any(isinstance(cause, gone) for cause in _causes(error))


def translate(error: OSError, base_url: str, connect_timeout: float, *, was_there: bool = False) -> ClientError:
    """The error for a request without an answer; read timeouts are explained by the stopwatch.

    `was_there`: the server has answered before.
    """
    if isinstance(error, requests.ConnectTimeout):
        return _no_server(base_url, f"no connection within {connect_timeout:g} seconds", was_there)
    causes = list(_causes(error))
    for kind, explain in _EXPLANATIONS:
        if cause := next((each for each in causes if isinstance(each, kind)), None):
            return explain(cause, base_url)
    if isinstance(error, requests.ConnectionError):
        return _no_server(base_url, _said(causes[-1]), was_there)
    return ClientError(f"The request to {base_url} failed: {_said(causes[-1])}")


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, outermost first."""
    yield error
    inner = [each for each in (*error.args, getattr(error, "reason", None)) if isinstance(each, BaseException)]
    for each in inner or filter(None, [error.__cause__]):
        yield from _causes(each)


def _no_server(base_url: str, reason: str, was_there: bool) -> ConnectFailed:
    kind = ConnectFailed if was_there else NeverReached
    return kind(f"No server at {base_url} ({urlsplit(base_url).netloc}: {reason}).", START_HINT)


def _proxy(_: BaseException, base_url: str) -> ClientError:
    return ClientError(f"The proxy for {base_url} cannot be reached.", PROXY_HINT)


def _unknown_host(_: BaseException, base_url: str) -> ClientError:
    return HostUnknown(f"There is no host named {urlsplit(base_url).hostname}.", "Check vllm.base_url.")


def _untrusted(cause: BaseException, base_url: str) -> ClientError:
    said = getattr(cause, "verify_message", "") or _said(cause)
    flaw = _FLAWS.get(getattr(cause, "verify_code", 0), _Flaw(f"its certificate is not valid: {said}", _CA_HINT))
    return TlsFailed(f"{base_url} cannot be trusted: {flaw.said}.", flaw.hint)


def _no_tls(cause: BaseException, base_url: str) -> ClientError:
    if getattr(cause, "reason", "") in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        return TlsFailed(
            f"{base_url} does not speak TLS.", "If it is plain HTTP, vllm.base_url must begin with http://."
        )
    return TlsFailed(f"TLS with {base_url} failed: {_said(cause)}.", "See vllm.base_url and vllm.ssl_verify.")


def _closed(_: BaseException, base_url: str) -> ClientError:
    hint = "If the server speaks TLS, vllm.base_url must begin with https://. Otherwise its log may say more."
    return StreamCut(f"{base_url} closed the connection without an answer.", hint)


def _not_http(cause: BaseException, base_url: str) -> ClientError:
    if _TLS_RECORD.search(str(cause)):
        return TlsFailed(f"{base_url} speaks TLS, not plain HTTP.", "vllm.base_url must begin with https://.")
    return NotHttp(
        f"{base_url} is not an HTTP server.", "Another program may be listening on that port: check vllm.base_url."
    )


# The first row that matches a cause counts: special ones before general ones.
_EXPLANATIONS: tuple[tuple[type[BaseException], Callable[[BaseException, str], ClientError]], ...] = (
    (requests.exceptions.ProxyError, _proxy),
    (socket.gaierror, _unknown_host),
    (ssl.SSLCertVerificationError, _untrusted),
    (ssl.SSLError, _no_tls),
    (http.client.RemoteDisconnected, _closed),
    (ConnectionResetError, _closed),
    (BrokenPipeError, _closed),
    (http.client.HTTPException, _not_http),
    (requests.exceptions.SSLError, _no_tls),
)


def _said(error: BaseException) -> str:
    """The message of a cause, without the object addresses that urllib3 adds."""
    text = getattr(error, "strerror", None) or str(error).rsplit(": ", 1)[-1]
    return re.sub(r"^\[[^]]*\] | \(_ssl\.c:\d+\)", "", text).rstrip(".") or type(error).__name__
