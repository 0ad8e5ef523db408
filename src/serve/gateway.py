"""The gateway's routes, on aiohttp: what is guarded, what is relayed byte for byte, and who may ask."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Set
from contextlib import suppress
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web
from yarl import URL

from ..app.endpoint import random_id
from ..errors import BotError
from ..providers.wire_json import load_json
from .apis.dialects import COUNT_PATH, DIALECTS, encode_path_error
from .chat_request import ChatBody
from .exchange import RELAYED, GuardedExchange, NotGuarded, log
from .http_common import HOP_BY_HOP, KEY_HEADERS, NOT_RELAYED, OFF_HEADER, read_key, refuse, select_headers
from .keys import KeyRing
from .pages.metrics import Metrics
from .pages.page import Pages
from .upstreams import Replica, Upstreams

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 16 * 1024  # of the request line, of each header, and of all headers
BODY_TIMEOUT_S = 120.0
HAS_ASKED = web.AppKey("has_asked", set[object])  # connections of which a request has come
CONNECT_TIMEOUT_S = 5.0
OPEN_PATHS = frozenset(("/health",))  # without a key
_OURS = NOT_RELAYED | {"content-type", "accept", "accept-encoding"} | KEY_HEADERS  # what the gateway says itself
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gateway:
    """In front of `upstreams`. `keys`: those of clients; None lets anyone in. `repair_turns`: see ChatTurn."""

    def __init__(
        self, upstreams: Upstreams, metrics: Metrics, keys: KeyRing | None = None, repair_turns: int = 1
    ) -> None:
        self._upstreams = upstreams
        self._metrics = metrics
        self._keys = keys
        self._repair_turns = repair_turns
        self._session: aiohttp.ClientSession | None = None

    def make_app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._check_key])
        app.cleanup_ctx.append(self._open)
        app[HAS_ASKED] = set[object]()
        for path in DIALECTS:
            app.router.add_post(path, self.answer)
        Pages(self._metrics, self._upstreams).add_to(app)
        app.router.add_route("*", "/{path:.*}", self.relay)
        return app

    async def _open(self, _: web.Application) -> AsyncGenerator[None, None]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        watch = asyncio.create_task(self._upstreams.watch_health())
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, auto_decompress=False) as self._session:
            yield
        watch.cancel()
        await self._upstreams.close()

    @web.middleware
    async def _check_key(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse clients without a key, and turn what aiohttp refuses into JSON."""
        key = read_key(request.headers) or request.query.get("key", "")  # a browser sends no headers of ours
        if self._keys is not None and request.path not in OPEN_PATHS and not self._keys.has(key):
            return _refuse(request, 401, "The key is missing or unknown.")
        request.app[HAS_ASKED].add(request.protocol)
        if sum(len(name) + len(value) for name, value in request.raw_headers) > MAX_HEADER_BYTES:
            return _refuse(request, 431, f"The headers are longer than {MAX_HEADER_BYTES:,} bytes.")
        try:
            if (request.content_length or 0) > MAX_BODY_BYTES:
                raise web.HTTPRequestEntityTooLarge(MAX_BODY_BYTES, request.content_length or 0)
            await asyncio.wait_for(request.read(), BODY_TIMEOUT_S)
            return await handler(request)
        except (TimeoutError, asyncio.TimeoutError):
            return _refuse(request, 408, f"The body did not come within {BODY_TIMEOUT_S:g} seconds.")
        except web.HTTPRequestEntityTooLarge:
            return _refuse(request, 413, f"The body is longer than {MAX_BODY_BYTES:,} bytes.")
        except web.HTTPException as refusal:
            return _refuse(request, refusal.status, refusal.reason)
        except ConnectionResetError as error:  # the client has gone; aiohttp takes this for what it is
            raise asyncio.CancelledError from error

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request that may bring calls; any other is relayed."""
        if request.headers.get(OFF_HEADER):
            return await self.relay(request)
        value = await _read_object(request)
        try:
            dialect = DIALECTS[request.path](value, random_id)
            chat = None if dialect.chat is None else ChatBody(dialect.chat)
        except ValueError as error:
            return _refuse(request, 400, str(error))
        except Exception:  # noqa: BLE001 - a mistake of ours costs no request
            log.exception(RELAYED)
            return await self.relay(request)
        if chat is None or not (chat.is_guarded or request.path == COUNT_PATH):
            return await self.relay(request)
        headers = self._forward_headers(request, _OURS)
        if self._keys is None and (key := read_key(request.headers)):
            headers["Authorization"] = f"Bearer {key}"  # vLLM looks for a key in one place only
        exchange = GuardedExchange(request, dialect, chat, headers, self._repair_turns)
        try:
            with self._metrics.track(exchange, request.path.removeprefix("/v1/")):
                return await exchange.answer(self._upstreams)
        except NotGuarded:
            return await self.relay(request)

    async def relay(self, request: web.Request) -> web.StreamResponse:
        """Pass a request and its answer on, byte for byte."""
        body = await request.read() if request.body_exists else None
        failure = ""
        has_choice = len(self._upstreams.replicas) > 1  # else a large body need not be read
        for replica in self._upstreams.rank(_read_beginning(body) if has_choice else {}):
            try:
                answer = await self._send(request, replica, body)
            except (aiohttp.ClientError, OSError) as error:
                replica.mark_failed()
                reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
                failure = f"{replica.root} cannot be reached: {reason}."
                continue
            self._metrics.count_relay(answer.status)
            async with answer:
                return await _relay_answer(request, answer)
        return _refuse(request, 502, failure)

    async def _send(self, request: web.Request, replica: Replica, body: bytes | None) -> aiohttp.ClientResponse:
        assert self._session is not None  # noqa: S101 - opened with the application
        key = replica.client.key_headers
        headers = self._forward_headers(request, NOT_RELAYED | (KEY_HEADERS if key else frozenset())) | key
        url = URL(f"{replica.root}{request.rel_url}", encoded=True)  # as it came
        return await self._session.request(request.method, url, data=body, headers=headers, allow_redirects=False)

    def _forward_headers(self, request: web.Request, left_out: Set[str]) -> dict[str, str]:
        """Of a client's request. A key of the gateway goes no further."""
        return select_headers(request.headers, left_out | (KEY_HEADERS if self._keys is not None else frozenset()))


async def _read_object(request: web.Request) -> dict[str, Any]:
    """The body. Raises HTTPException where it is no JSON object."""
    kind = request.content_type
    if not kind.endswith(("json", "octet-stream")):  # the second: none is given
        raise web.HTTPUnsupportedMediaType(reason=f"The content type must be application/json, not {kind[:100]}.")
    try:
        value = load_json(await request.read())
    except BotError:
        raise web.HTTPBadRequest(reason="The body is not JSON, or it is nested too deep.") from None
    if not isinstance(value, dict):
        raise web.HTTPBadRequest(reason="The body must be a JSON object.")
    return value


def _refuse(request: web.Request, status: int, message: str) -> web.Response:
    return refuse(status, encode_path_error(request.path, status, message))


async def _relay_answer(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend((name, value) for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


def _read_beginning(body: bytes | None) -> Mapping[str, object]:
    """The conversation in a body, for the choice of a replica; empty if there is none."""
    with suppress(BotError):
        value = load_json(body) if body else None
        return value if isinstance(value, dict) else {}
    return {}
