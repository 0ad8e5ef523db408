"""Headers and errors that relayed and guarded requests share."""

from __future__ import annotations

from collections.abc import Mapping, Set

from aiohttp import web

from .admission import CORS_HEADERS
from .apis.dialects import Dialect
from .keep_alive import KEEP_ALIVE_HEADER, LiveStream

OFF_HEADER = "x-vllm-bot-off"
HOP_BY_HOP = frozenset((
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade",
))  # fmt: skip
NOT_RELAYED = HOP_BY_HOP | {"host", "content-length", "expect", "referer", OFF_HEADER, KEEP_ALIVE_HEADER}
NO_SERVER = "No server behind the gateway can be reached. The log of the gateway says why."
OF_THE_BODY = frozenset(("content-length", "content-encoding", "content-type"))
KEY_HEADERS = frozenset(("authorization", "x-api-key"))


def select_headers(headers: Mapping[str, str], left_out: Set[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in left_out}


def is_relayed(name: str) -> bool:
    """Whether a header of the server's answer goes on to the client."""
    return name.lower() not in HOP_BY_HOP and not name.lower().startswith(CORS_HEADERS)


def is_plain(headers: Mapping[str, str]) -> bool:
    """Whether the body with these headers is not compressed."""
    return headers.get("Content-Encoding", "identity") == "identity"


def read_key(headers: Mapping[str, str]) -> str:
    """Anthropic's clients send the key in a header of its own."""
    return headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")


def refuse(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


async def send_error(live: LiveStream, dialect: Dialect, status: int, message: str) -> web.StreamResponse:
    """An error as the answer, or as the end of a stream of which only signs of life were sent."""
    if live.is_open:
        return await live.end(dialect.encode_break(status, message))
    return refuse(status, dialect.encode_error(status, message))
