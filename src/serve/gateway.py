"""The gateway's HTTP side, on aiohttp: routes, relaying, streams, errors in the client's shape.

A chat request that may bring calls runs as a ChatTurn; each other request is relayed byte for byte. Where our own code
fails before the first byte of the answer, the request is relayed as it came. While nothing of an answer was sent,
another replica may give it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Set
from contextlib import suppress
from typing import TypeAlias

import aiohttp
from aiohttp import web

from ..app.endpoint import random_id
from ..errors import BotError, ClientError, Timeout
from ..model.server import OK
from ..providers.wire_json import load_json
from ..transport.async_driver import drive_async
from .apis.dialects import DIALECTS, Dialect, encode_openai_error
from .chat_request import ChatBody
from .chat_turn import ChatTurn, Output, Payload, WholeAnswer
from .keys import KeyRing
from .upstreams import Replica, Upstreams

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 16 * 1024
CONNECT_TIMEOUT_S = 5.0
HEADER = "x-vllm-bot"
OFF_HEADER = "x-vllm-bot-off"
_HOP_BY_HOP = frozenset(("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"))
_NOT_RELAYED = _HOP_BY_HOP | {"host", "content-length", "expect", OFF_HEADER}
_OURS = _NOT_RELAYED | {"content-type", "accept", "accept-encoding", "x-api-key"}  # what the gateway says itself

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logging.getLogger(__name__.rpartition(".")[0])


class Gateway:
    """In front of `upstreams`. `keys`: those of clients; None lets anyone in. `repair_turns`: see ChatTurn."""

    def __init__(self, upstreams: Upstreams, keys: KeyRing | None = None, repair_turns: int = 1) -> None:
        self._upstreams = upstreams
        self._keys = keys
        self._repair_turns = repair_turns
        self._session: aiohttp.ClientSession | None = None

    def make_app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._check_key])
        app.cleanup_ctx.append(self._open)
        for path in DIALECTS:
            app.router.add_post(path, self.answer)
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
        if self._keys is not None and request.path != "/health" and not self._keys.has(_read_key(request.headers)):
            return _refuse(401, encode_openai_error(401, "The key is missing or unknown."))
        try:
            return await handler(request)
        except web.HTTPException as refusal:
            return _refuse(refusal.status, encode_openai_error(refusal.status, refusal.reason))

    def _forward_headers(self, request: web.Request, left_out: Set[str]) -> dict[str, str]:
        """Of a client's request. A key of the gateway goes no further."""
        kept = _select_headers(request.headers, left_out)
        if self._keys is not None:
            return _select_headers(kept, {"authorization", "x-api-key"})
        if left_out is _OURS and (key := _read_key(request.headers)):  # vLLM looks for a key in one place only
            kept = _select_headers(kept, {"authorization"}) | {"Authorization": f"Bearer {key}"}
        return kept

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """WholeAnswer a request that may bring calls; any other is relayed."""
        try:
            value = load_json(await request.read())
        except BotError:
            return _refuse(400, encode_openai_error(400, "The body is not JSON."))
        if not isinstance(value, dict) or request.headers.get(OFF_HEADER):
            return await self.relay(request)
        try:
            dialect = DIALECTS[request.path](value, random_id)
        except ValueError as error:
            return _refuse(400, encode_openai_error(400, str(error)))
        chat = None if dialect.chat is None else ChatBody(dialect.chat)
        if chat is None or not chat.is_guarded:
            return await self.relay(request)
        return await self._guard(request, dialect, chat)

    async def _guard(self, request: web.Request, dialect: Dialect, chat: ChatBody) -> web.StreamResponse:
        failure: BotError | None = None
        for replica in self._upstreams.rank(chat.body):
            replica.recall()
            turn = ChatTurn(replica.address, replica.facts, chat, random_id, self._repair_turns)
            client = replica.client.with_headers(self._forward_headers(request, _OURS))
            outputs: AsyncGenerator[Output, None] = drive_async(turn.run(), client)
            try:
                first = await anext(outputs)
            except BotError as error:
                failure = error
                if isinstance(error, ClientError) and not isinstance(error, Timeout):
                    replica.mark_failed()
                    continue
                break
            except Exception:
                log.exception("The request is relayed as it came.")
                return await self.relay(request)
            replica.save(turn.fact_key)
            headers = {HEADER: turn.report.to_header()}
            if isinstance(first, Payload):
                return await self._stream(request, dialect, headers, first, outputs)
            return _answer(dialect, headers, first)
        status = 504 if isinstance(failure, Timeout) else 502
        return _refuse(status, dialect.encode_error(status, str(failure)))

    async def _stream(
        self,
        request: web.Request,
        dialect: Dialect,
        headers: Mapping[str, str],
        first: Payload,
        rest: AsyncGenerator[Output, None],
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream; charset=utf-8"})
        await response.prepare(request)
        try:
            await response.write(dialect.encode_payload(first.events))
            async for output in rest:
                if isinstance(output, Payload) and (encoded := dialect.encode_payload(output.events)):
                    await response.write(encoded)
        except BotError as error:
            await response.write(dialect.encode_break(502, str(error)))
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception as error:
            log.exception("A guarded stream failed.")
            await response.write(dialect.encode_break(500, f"The gateway failed: {type(error).__name__}."))
        finally:
            await rest.aclose()
        await response.write_eof()
        return response

    async def relay(self, request: web.Request) -> web.StreamResponse:
        """Pass a request and its answer on, byte for byte."""
        body = await request.read() if request.body_exists else None
        failure = ""
        for replica in self._upstreams.rank(_read_beginning(body)):
            try:
                answer = await self._send(request, replica, body)
            except (aiohttp.ClientError, OSError) as error:
                replica.mark_failed()
                failure = str(error)
                continue
            async with answer:
                return await _relay_answer(request, answer)
        return _refuse(502, encode_openai_error(502, f"The server cannot be reached: {failure}"))

    async def _send(self, request: web.Request, replica: Replica, body: bytes | None) -> aiohttp.ClientResponse:
        assert self._session is not None  # noqa: S101 - opened with the application
        key = replica.client.key_headers
        left_out = _NOT_RELAYED | ({"authorization", "x-api-key"} if key else frozenset())
        headers = self._forward_headers(request, left_out) | key
        url = f"{replica.root}{request.rel_url}"
        return await self._session.request(request.method, url, data=body, headers=headers, allow_redirects=False)


async def _relay_answer(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend((name, value) for name, value in answer.headers.items() if name.lower() not in _HOP_BY_HOP)
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


def _answer(dialect: Dialect, headers: Mapping[str, str], answer: WholeAnswer) -> web.Response:
    body = dialect.encode_answer(answer.body) if answer.status == OK else dialect.encode_refusal(answer.body)
    return web.Response(status=answer.status, body=body, headers={**headers, "Content-Type": answer.content_type})


def _refuse(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")


def _read_beginning(body: bytes | None) -> Mapping[str, object]:
    """The conversation in a body, for the choice of a replica; empty if there is none."""
    with suppress(BotError):
        value = load_json(body) if body else None
        return value if isinstance(value, dict) else {}
    return {}


def _read_key(headers: Mapping[str, str]) -> str:
    """Anthropic's clients send the key in a header of its own."""
    return headers.get("x-api-key") or headers.get("Authorization", "").removeprefix("Bearer ")


def _select_headers(headers: Mapping[str, str], left_out: Set[str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in left_out}
