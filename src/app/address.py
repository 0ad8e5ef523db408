"""Completing the address of a server: `gpu`, `gpu:8000`, a URL without a path, or one that was pasted with too much.

What is missing is found by asking: a list of models, or a refusal of the request without a key, tells where the API
is. No key and none of the user's headers are sent for that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from ..config import Settings
from ..config.settings import BASE_URLS
from ..errors import BotError, HostUnknown, NeverReached, ServerError, TlsFailed

USUAL_PORTS: Mapping[int, str] = {  # of servers, according to their documentation
    8000: "vLLM",
    8001: "vLLM",
    30000: "SGLang",
    11434: "Ollama",
    8080: "llama.cpp",
    1234: "LM Studio",
    23333: "LMDeploy",
    5000: "text-generation-webui",
    1337: "Jan",
    4000: "LiteLLM",
}
ENDPOINTS = ("/chat/completions", "/completions", "/messages", "/models", "/responses")  # pasted with the address
NO_TLS = "does not speak TLS"
PROBE_TIMEOUT_S = 3.0
_WITH_V1 = ("vllm", "openai", "ollama", "anthropic", "copilot")  # providers whose API is usually below /v1
_NEEDS_KEY = (401, 403)
_UNAVAILABLE = 503  # while it loads its model


def is_complete(address: str) -> bool:
    """Whether it has a scheme and a path, and names no endpoint of the API."""
    return "://" in address and bool(urlsplit(address).path.strip("/")) and not address.endswith(ENDPOINTS)


def complete_address(settings: Settings) -> tuple[Settings, str]:
    """The settings with the whole address, and a sentence about it; "" if it was whole already.

    Raises NeverReached if nothing answers at an address without a scheme.
    """
    given = settings.vllm.base_url
    if is_complete(given) or given in BASE_URLS.values():
        return settings, ""
    candidates = list_candidates(given, has_v1=settings.vllm.provider in _WITH_V1)
    answers = _probe_all(settings, candidates)
    found = next((url for url in candidates if answers[url] is None), "")
    if not found:
        for error in answers.values():
            if isinstance(error, TlsFailed) and NO_TLS not in error.message:
                raise error  # there is a server, but its certificate is not trusted
        if "://" not in given:
            if all(isinstance(each, HostUnknown) for each in answers.values()):
                raise next(filter(None, answers.values()))
            hosts = dict.fromkeys(f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for url in candidates)
            raise NeverReached(f"No server answers at {given}. Tried {', '.join(hosts)}.", "Is it running?")
        return settings, ""  # the question fails as it would without this, and says why
    if found == given:
        return settings, ""
    return replace(settings, vllm=replace(settings.vllm, base_url=found)), f"The server of {given} is at {found}."


def list_candidates(given: str, *, has_v1: bool = True) -> list[str]:
    """Where the API may be, the likeliest first."""
    end = next((each for each in ENDPOINTS if given.endswith(each)), "")
    given = given.removesuffix(end)
    scheme, colon, rest = given.rpartition("://")
    host, slash, path = rest.partition("/")
    if colon:
        bases = [f"{scheme}://{host}"]
    elif urlsplit(f"//{host}").port:
        schemes = ("https", "http") if host.endswith("443") else ("http", "https")
        bases = [f"{each}://{host}" for each in schemes]
    else:
        first, *others = (f"http://{host}:{port}" for port in USUAL_PORTS)
        bases = [first, f"https://{host}", f"http://{host}", *others]
    if slash and path:
        return [f"{base}/{path}" for base in bases]
    return [url for base in bases for url in ((f"{base}/v1", base) if has_v1 else (base,))]


def _probe_all(settings: Settings, urls: list[str]) -> dict[str, BotError | None]:
    """For each address None if the API is there, else the error."""
    from concurrent.futures import ThreadPoolExecutor  # loads logging

    with ThreadPoolExecutor(len(urls)) as pool:
        return dict(zip(urls, pool.map(lambda url: _probe(settings, url), urls), strict=True))


def _probe(settings: Settings, url: str) -> BotError | None:
    from .connect import Connections  # loads urllib3

    vllm = replace(settings.vllm, base_url=url, api_key="", headers={})
    try:
        with Connections(replace(settings, vllm=vllm)).open_server(PROBE_TIMEOUT_S) as server:
            server.ask(lambda it: it.list_models())
    except ServerError as error:
        return None if error.status in (*_NEEDS_KEY, _UNAVAILABLE) else error
    except BotError as error:
        return error
    return None
