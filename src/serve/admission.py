"""Which requests the gateway answers: who asks, under which name of this machine, and for what. Pure.

A gateway on a loopback address is not the web's: a page in a browser reaches it, too, and would use the user's server
and key. A browser says who asks (Origin, Sec-Fetch-Site; Node.js sends other Sec-Fetch headers, and is no browser). A
page whose own name leads to this machine (DNS rebinding) gives itself away by Host. Sources: Fetch standard (CORS
protocol, Origin), Fetch Metadata (W3C), RFC 9110 7.2 (Host); for the paths vLLM 0.32 (entrypoints/serve), SGLang
(http_server.py), llama.cpp (tools/server/server.cpp), Ollama (docs/api.md) and LM Studio (REST API v0 and v1).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from posixpath import normpath
from urllib.parse import unquote_plus, urlsplit

from msgspec import Struct

from ..types.hosts import is_loopback, read_host
from .apis.dialects import DIALECTS

CONTAINERS_HOST = "host.docker.internal"  # as a container calls the machine it is on
DESKTOP_SCHEMES = ("app", "tauri", "vscode-webview")  # of clients that show pages of their own
LIVE_PATH, READY_PATH = "/livez", "/readyz"
OWN_PATHS = frozenset(("/", "/health", "/metrics", "/vllm-bot/events", LIVE_PATH, READY_PATH))
BROWSER_PATHS = OWN_PATHS | DIALECTS.keys() | {"/v1/models"}
READING = frozenset(("GET", "HEAD", "OPTIONS"))
# What clients ask model servers, by the first name of a path behind the prefixes of an API and its version. Any other
# path may change a server, or run code in it, also by GET: it is not relayed unless the settings name it.
_NAME = re.compile(r"(?:/(?:api|cohere|inference))?(?:/v[0-9]+)?/([^/]+)")
ASKING = frozenset((
    "apply-template", "audio", "batches", "chat", "classify", "close_session", "completion", "completions",
    "conversations", "detokenize", "embed", "embedding", "embeddings", "encode", "files", "generate",
    "generate_from_file", "generative_scoring", "health", "images", "infill", "invocations",
    "is_scaling_elastic_ep", "messages", "moderations", "open_session", "parse_function_call", "ping", "pooling",
    "realtime", "rerank", "reranking", "responses", "score", "separate_reasoning", "show", "stream", "systemone",
    "tokenize", "vertex_generate", "videos",
))  # fmt: skip
TELLING = frozenset((  # where other methods than those of READING change what they tell
    "docs", "get_load", "get_model_info", "get_server_info", "get_weight_version", "get_weights_by_name",
    "get_world_size", "health_generate", "is_paused", "is_sleeping", "load", "loads", "lora-adapters", "model_info",
    "models", "openapi.json", "props", "ps", "redoc", "server_info", "slots", "status", "streams", "tags",
    "tokenizer_info", "v1", "version", "weight_info",
))  # fmt: skip
CORS_HEADERS = "access-control-"
MAX_SHOWN_CHARS = 100  # of a request, in a refusal
PREFLIGHT_S = 600  # for which a browser need not ask again


class AccessRules(Struct, frozen=True):
    """`hosts`, `origins` and `relay`: what the settings of these names add, as their check has left them.

    A path of `relay` stands for those below it, too. `has_keys`: clients have keys.
    """

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    relay: Collection[str] = ()
    has_keys: bool = False


class Asked(Struct, frozen=True):
    """A request. `path` is decoded; the values of `headers` are all that came under a name in lower case."""

    method: str
    path: str
    headers: Mapping[str, Sequence[str]]
    content_type: str = ""

    @property
    def origins(self) -> Sequence[str]:
        return self.headers.get("origin", ())

    @property
    def is_from_browser(self) -> bool:
        return bool(self.origins or self.headers.get("sec-fetch-site"))

    @property
    def is_preflight(self) -> bool:
        return self.method == "OPTIONS" and bool(self.origins) and "access-control-request-method" in self.headers


class Refused(Exception):
    """Why a request is not answered, and its HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def check_access(asked: Asked, rules: AccessRules) -> None:
    """Raises Refused."""
    if not rules.has_keys:
        _check_host(asked.headers.get("host", ()), rules.hosts)
    path = normpath("/" + asked.path.lstrip("/"))  # as a server or a proxy before it may read it
    if not _is_relayed(asked.method, path, rules.relay):
        what = f"{asked.method} {path[:MAX_SHOWN_CHARS]}"
        raise Refused(403, f"{what} is no known request of a client. To let it through, add its path to serve.relay.")
    if path == "/" and asked.method in ("GET", "HEAD"):
        return  # the page holds nothing of anybody's, and other sites may link to it
    if asked.is_from_browser:
        _check_browser(asked, path, rules.origins)


def _is_relayed(method: str, path: str, relay: Collection[str]) -> bool:
    """Whether it is a client's to ask, or named by the settings. The gateway's own paths count."""
    if any(path == each or path.startswith(each.rstrip("/") + "/") for each in relay):
        return True
    match = _NAME.match(path)
    if match and match[1] in ASKING:
        return True
    return method in READING and (path in OWN_PATHS or bool(match and match[1] in TELLING))


def _check_browser(asked: Asked, path: str, origins: Collection[str]) -> None:
    """Raises Refused."""
    for origin in asked.origins:
        if not is_allowed_origin(origin, origins):
            who = f"Pages of {origin[:MAX_SHOWN_CHARS]!r}"
            raise Refused(403, f"{who} may not ask here. To let them, add that to serve.origins.")
    if path not in BROWSER_PATHS and not path.startswith("/v1/models/"):
        raise Refused(403, "Browsers are answered on the paths of the three APIs, of models and of the page only.")
    if asked.method not in READING and not asked.content_type.endswith("json"):
        raise Refused(415, "The content type of a browser's request must be application/json.")


def is_allowed_origin(origin: str, more: Collection[str] = ()) -> bool:
    """Whether pages of an origin may ask: of this machine at any port, of a desktop client, or one that is named."""
    try:
        parts = urlsplit(origin)
        host = parts.hostname or ""
    except ValueError:
        return False
    if origin.rstrip("/") in {each.rstrip("/") for each in more}:
        return True
    return parts.scheme in DESKTOP_SCHEMES or (parts.scheme in ("http", "https") and is_loopback(host))


def find_cors_headers(asked: Asked, rules: AccessRules) -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer."""
    if len(asked.origins) != 1 or not is_allowed_origin(asked.origins[0], rules.origins):
        return {}
    headers = {
        "Access-Control-Allow-Origin": asked.origins[0],
        "Access-Control-Expose-Headers": "x-vllm-bot",
        "Vary": "Origin",
    }
    if asked.is_preflight:
        headers |= {
            "Access-Control-Allow-Methods": "GET, HEAD, POST",
            "Access-Control-Allow-Headers": ", ".join(asked.headers.get("access-control-request-headers", ())),
            "Access-Control-Max-Age": str(PREFLIGHT_S),
        }
        if "access-control-request-private-network" in asked.headers:
            headers["Access-Control-Allow-Private-Network"] = "true"
    return headers


def drop_key(target: str) -> str:
    """A request's path and query without the gateway's key; everything else is as it came."""
    path, mark, query = target.partition("?")
    other_parts = [part for part in query.split("&") if unquote_plus(part.partition("=")[0]) != "key"]
    return path + (mark if other_parts else "") + "&".join(other_parts)


def _check_host(hosts: Sequence[str], more: Collection[str]) -> None:
    """HTTP/1.0 has none. Raises Refused."""
    if len(hosts) > 1:
        raise Refused(400, "A request has one Host.")
    for host in hosts:
        name = read_host(host)
        if name is None or not (is_loopback(name) or name == CONTAINERS_HOST or name in more):
            what = f"This gateway is not {(name or host)[:MAX_SHOWN_CHARS]!r}."
            raise Refused(403, f"{what} To let it be called so, add that to serve.hosts, or use keys.")
