"""What a request to one server has, and what its answer means, for http.py and async_http.py. No I/O."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from urllib.parse import unquote, urljoin, urlsplit

from ..errors import CHECK_ADDRESS, Advice, ClientError, ConfigError
from .deadlines import Timeouts
from .environment import find_route
from .errors import translate

MAX_BODY_BYTES = 16 * 1024 * 1024
MIN_KEY_CHARS = 8  # of an API key that is a secret
MAX_REDIRECTS = 3
SAME_METHOD = (307, 308)  # redirects that keep method and body
MAX_RETRY_AFTER_S = 24 * 3600.0  # a longer wait that a server asks for counts as this one
DRAIN_TIMEOUT_S = 0.1  # for the rest of a body that is not used, so that the connection can be reused
READ_BYTES = 65536

HEADERS = {
    "User-Agent": "vllm-bot",
    "Accept": "text/event-stream, application/json",
    "Content-Type": "application/json",
}


class ServerAccess:
    """The address of a server, the headers of a request to it, and the errors that name it.

    The key is sent under `key_header`, after `key_prefix`; `headers` go with every request. `ssl_verify`: True, False,
    or the path of a CA file. `cert`: see Route. A login that stands in the address is sent as a header: `base_url` is
    shown, logged and recorded, and has none. Raises ConfigError if a header cannot hold the key.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        limits: Timeouts,
        key_header: str,
        key_prefix: str,
        headers: Mapping[str, str] | None,
        ssl_verify: bool | str,
        cert: tuple[str, ...],
    ) -> None:
        if not (api_key.isascii() and api_key.isprintable()):
            hint = Advice("Check VLLM_API_KEY and vllm.api_key.", "Check `api_key`.")
            raise ConfigError("The API key contains a character that is not allowed in an HTTP header.", hint)
        self.base_url = base_url
        self.limits = limits
        self.has_answered = False  # whether the server has ever answered
        self._api_key = api_key
        self.has_key = bool(api_key)
        self._headers = {**HEADERS, **(headers or {})}
        if api_key:
            self._headers[key_header] = f"{key_prefix}{api_key}"
        self._login = ""
        parts = urlsplit(base_url)
        if parts.username is not None:  # for this address, where the key may be that of all
            login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
            self._headers["Authorization"] = self._login = f"Basic {b64encode(login.encode()).decode()}"
            self.base_url = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        self._route = find_route(self.base_url, ssl_verify, cert)

    def build_url(self, path: str) -> str:
        """`path` is relative to base_url, or with a leading slash to the server's root, above /v1."""
        if path.startswith("/"):
            return f"{self.base_url.removesuffix('/v1')}{path}"
        return f"{self.base_url}/{path}"

    def ask_uncompressed(self) -> None:
        """From now on: this server or its proxy cannot compress."""
        self._headers["Accept-Encoding"] = "identity"

    def redact_key(self, body: bytes) -> bytes:
        """The body without the key, which a refusal may quote.

        A short one is a placeholder such as `token`, which may be part of other words.
        """
        if len(self._api_key) < MIN_KEY_CHARS:
            return body
        return body.replace(self._api_key.encode(), b"[API key]")

    def translate(self, error: Exception) -> ClientError:
        """See errors.translate."""
        return translate(error, self.base_url, self.limits.connect, has_answered=self.has_answered)

    def build_loop_error(self, last: str) -> ClientError:
        return ClientError(f"{self.base_url} redirects in a loop, last to {last}.", CHECK_ADDRESS)


def find_redirect(url: str, status: int, location: str) -> str | None:
    """The address to follow; None if there is none within the same server."""
    if status in SAME_METHOD:
        with suppress(ValueError):  # of an address such as http://[
            target = urljoin(url, location)
            if _get_origin(target) == _get_origin(url):
                return target
    return None


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
