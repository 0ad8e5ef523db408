"""Completing the address of a server: `gpu`, `gpu:8000`, a URL without a path, or one that was pasted with too much.

What is missing is found by asking: a list of models, or a refusal of the request without a key, tells where the API
is. No key and none of the user's headers are sent for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from msgspec.structs import replace

from ..config import Settings
from ..config.settings import BASE_URLS
from ..errors import BotError, HostUnknown, NeverReached, NoTls, ServerError, TlsFailed
from .candidates import ENDPOINTS, WITH_V1, list_candidates

PROBE_TIMEOUT_S = 3.0
_NEEDS_KEY = (401, 403)
_UNAVAILABLE = 503  # while it loads its model


def is_complete(address: str) -> bool:
    """Whether it has a scheme and a path, and names no endpoint of the API."""
    path = urlsplit(address).path.rstrip("/")
    return "://" in address and bool(path) and not path.endswith(ENDPOINTS)


def complete_address(settings: Settings) -> tuple[Settings, str]:
    """The settings with the whole address, and a sentence about it; "" if it was whole already.

    Raises NeverReached if nothing answers at an address without a scheme.
    """
    address = settings.vllm.base_url
    if is_complete(address) or address in BASE_URLS.values():
        return settings, ""
    candidates = list_candidates(address, has_v1=settings.vllm.provider in WITH_V1)
    from concurrent.futures import ThreadPoolExecutor  # loads logging

    with ThreadPoolExecutor(len(candidates)) as pool:
        errors = list(pool.map(lambda url: _probe(settings, url), candidates))
    if None not in errors:
        _raise_what_helps(address, candidates, errors)
        return settings, ""  # the question fails as it would without this, and says why
    url = candidates[errors.index(None)]
    if url == address:
        return settings, ""
    return replace(settings, vllm=replace(settings.vllm, base_url=url)), f"The server is at {url} (given: {address})."


def _raise_what_helps(address: str, candidates: list[str], errors: Sequence[BotError | None]) -> None:
    """Raise what tells more than the question will: where no candidate of an address without a scheme answers."""
    for error in errors:
        if isinstance(error, TlsFailed) and not isinstance(error, NoTls):
            raise error  # there is a server, but its certificate is not trusted
    if "://" in address:
        return
    if errors[0] and all(isinstance(each, HostUnknown) for each in errors):
        raise errors[0]
    hosts = dict.fromkeys(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in candidates)
    raise NeverReached(f"No server answers at {address}. Tried {', '.join(hosts)}.", "Is it running?")


def _probe(settings: Settings, url: str) -> BotError | None:
    from .connect import Connections  # loads urllib3

    vllm = replace(settings.vllm, base_url=url, api_key="", headers={})
    try:
        with Connections(replace(settings, vllm=vllm)).open_server(PROBE_TIMEOUT_S) as server:
            server.ask(lambda it: it.list_models())
    except ServerError as error:
        if error.status not in (*_NEEDS_KEY, _UNAVAILABLE):
            return error
    except BotError as error:
        return error
    return None
