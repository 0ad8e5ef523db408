"""The gateway's routes, on aiohttp: what is guarded, what is relayed byte for byte, and who may ask."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Set
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

import aiohttp
from aiohttp import HttpVersion11, web
from msgspec.structs import replace
from yarl import URL

from ..app.endpoint import random_id
from ..app.keys import KeyRing
from ..errors import BotError
from ..providers.wire_json import as_dict, count_items, load_json
from .admission import (
    LIVE_PATH,
    OWN_PATHS,
    READY_PATH,
    AccessRules,
    Asked,
    Refused,
    check_access,
    drop_key,
    find_cors_headers,
)
from .apis.dialects import COUNT_PATH, DIALECTS, Dialect, encode_path_error
from .beside import run_beside
from .chat_request import ChatBody
from .conversation import Conversation
from .exchange import RELAYED, GuardedExchange, NotGuarded, log
from .http_common import (
    KEY_HEADERS,
    NO_SERVER,
    NOT_RELAYED,
    OFF_HEADER,
    is_plain,
    read_key,
    refuse,
    select_headers,
    send_error,
)
from .keep_alive import LiveStream, read_interval
from .memory import Memory
from .pages.metrics import Metrics
from .pages.page import Pages
from .record.recorder import Recorder
from .record.recording import Recording
from .relayed_stream import HistoryRefused, RelayedStream, check_refusal, relay_answer
from .report import RELAYED_PATH
from .request_log import CLIENT_GONE, RequestLog, RequestRecord, read_id
from .restore import HistoryMemo
from .turn_options import TurnOptions
from .upstreams import Replica, Upstreams

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_HEADER_BYTES = 16 * 1024  # of the request line, of each header, and of all headers
BODY_TIMEOUT_S = 120.0
HAS_ASKED = web.AppKey("has_asked", set[object])  # connections of which a request has come
CONNECT_TIMEOUT_S = 5.0
MAX_CONTAINERS = 300_000  # of JSON: lists and objects, of which a million take a second to read
MAX_VALUES = 1_000_000  # of JSON, counted by commas, those inside strings included
MAX_TOOLS = 1024  # of a request; each takes some 0.1 ms to look at
MAX_NAME_CHARS = 256  # of a tool or a parameter: patterns are made of them, which take 150 times their size
MAX_NAMES_CHARS = 200_000  # of all of them
OPEN_PATHS = frozenset(("/health", LIVE_PATH, READY_PATH))  # without a key

_OURS = NOT_RELAYED | {"content-type", "accept", "accept-encoding"} | KEY_HEADERS  # what the gateway says itself
BROKEN_OFF = 502  # for the log: the client has got another status
GUARDED = "serve.guards: %s changed an answer of %s, for the first time; vllm_bot_guards_total counts on."
REPEATED = (
    "A model repeats itself: an answer of %s ends as at its limit of tokens, for the first time; "
    "vllm_bot_repetitions_total counts on."
)
Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Gateway:
    """In front of `upstreams`. `keys`: those of clients; None lets anyone in that the rules let in. `keep_alive`:
    seconds of silence before a sign of life, 0 for none. `memory`: of answers, of which what clients drop is put back;
    None: nothing is kept. `recorder`: of the calls of the APIs.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        metrics: Metrics,
        keys: KeyRing | None = None,
        options: TurnOptions = TurnOptions(),  # noqa: B008 - it cannot be changed
        rules: AccessRules = AccessRules(),  # noqa: B008 - it cannot be changed
        keep_alive: float = 0.0,
        memory: Memory | None = None,
        request_log: RequestLog | None = None,
        recorder: Recorder | None = None,
        histories: HistoryMemo | None = None,
    ) -> None:
        self._recorder = recorder
        self._request_log = request_log
        # Of requests at work, by their ids: a request is no key. None of the gateway's own pages, nor of a client that
        # asks whether to send its body.
        self._records: dict[int, RequestRecord] = {}
        self._told: set[tuple[str, ...]] = set()  # of the log's lines, with models and guards
        self._memory = memory
        self._histories = histories or HistoryMemo()
        self._upstreams = upstreams
        self._metrics = metrics
        self.keys = keys  # others may take their place
        self._rules = replace(rules, has_keys=keys is not None)
        self._options = options
        self._keep_alive = keep_alive
        self._session: aiohttp.ClientSession | None = None

    def make_app(self) -> web.Application:
        app = web.Application(
            client_max_size=MAX_BODY_BYTES,
            middlewares=[self._record_request, self._check_request],
            # a relayed body stays as it is, and a small one never takes much memory
            handler_args={"auto_decompress": False},
        )
        app.on_response_prepare.append(self._add_headers)
        app.cleanup_ctx.append(self._open)
        app[HAS_ASKED] = set[object]()
        for path in DIALECTS:
            app.router.add_post(path, self.answer, expect_handler=self._invite_body)
        app.router.add_get(LIVE_PATH, self.tell_alive)
        app.router.add_get(READY_PATH, self.tell_ready)
        Pages(self._metrics, self._upstreams).add_to(app)
        app.router.add_route("*", "/{path:.*}", self.relay, expect_handler=self._invite_body)
        return app

    async def _open(self, _: web.Application) -> AsyncGenerator[None, None]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S)
        connector = aiohttp.TCPConnector(limit=0)
        watch = asyncio.create_task(self._upstreams.watch_health())
        self._session = aiohttp.ClientSession(
            timeout=timeout,
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # the cookies of one client's answer are not another one's
            auto_decompress=False,
        )
        async with self._session:
            yield
        watch.cancel()
        await self._upstreams.close()
        if self._memory is not None:
            self._memory.close()
        if self._recorder is not None:
            await asyncio.to_thread(self._recorder.close)
        self._metrics.history.close()

    @web.middleware
    async def _record_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Note what became of a request, but for those of the gateway's own pages."""
        if request.path in OWN_PATHS:
            return await handler(request)
        record = RequestRecord(read_id(request.headers), request.path.removeprefix("/v1/"))
        self._records[id(request)] = record
        try:
            response = await handler(request)
            record.status = response.status
            if not response.prepared:
                record.note_head(response.headers)
            return response
        except asyncio.CancelledError:
            record.status = record.status or CLIENT_GONE
            raise
        finally:
            del self._records[id(request)]
            entry = record.to_entry()
            self._metrics.count_request(entry, has_keys=self.keys is not None)
            if self._request_log is not None:
                self._request_log.write(entry)

    @web.middleware
    async def _check_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer at once what need not be asked of the server, and turn what aiohttp refuses into JSON."""
        if (answer := self._answer_at_once(request)) is not None:
            return answer
        request.app[HAS_ASKED].add(request.protocol)
        if sum(len(name) + len(value) for name, value in request.raw_headers) > MAX_HEADER_BYTES:
            return _refuse(request, 431, f"The headers are longer than {MAX_HEADER_BYTES:,} bytes.")
        try:
            await _read_body(request)
            return await handler(request)
        except (TimeoutError, asyncio.TimeoutError):
            return _refuse(request, 408, f"The body did not come within {BODY_TIMEOUT_S:g} seconds.")
        except web.HTTPException as refusal:
            return _refuse(request, refusal.status, refusal.reason)
        except ConnectionResetError as error:  # the client has gone; aiohttp takes this for what it is
            raise asyncio.CancelledError from error
        except aiohttp.ClientError as error:  # the server broke off an answer that has begun: so does this one
            self._break_off(request, error)
            raise asyncio.CancelledError from error

    def _break_off(self, request: web.Request, error: aiohttp.ClientError) -> None:
        log.warning("A server broke off an answer that was relayed: %s.", type(error).__name__)
        if record := self._records.get(id(request)):
            record.status, record.error = BROKEN_OFF, type(error).__name__
        if request.transport:
            request.transport.abort()

    def _answer_at_once(self, request: web.Request) -> web.Response | None:
        """Before the body is read: to what the rules do not allow, a browser's first question, and who has no key."""
        asked = _describe(request)
        try:
            check_access(asked, self._rules)
        except Refused as refusal:
            return _refuse(request, refusal.status, str(refusal))
        if asked.is_preflight:  # a browser asks without a key
            return web.Response(status=204)
        if not self._has_key(request):
            return _refuse(request, 401, "The key is missing or unknown.")
        return None

    async def _invite_body(self, request: web.Request) -> web.StreamResponse | None:
        """With `Expect: 100-continue` a client sends its body once it is asked to."""
        answer = self._answer_at_once(request)
        if answer is None and request.version == HttpVersion11:
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0  # nothing of the answer has left
        return answer

    def _has_key(self, request: web.Request) -> bool:
        if self.keys is None:
            return True
        if request.path in OPEN_PATHS and request.method in ("GET", "HEAD") and not request.body_exists:
            return True
        name = self.keys.find(self._read_key(request))
        if name is not None and (record := self._records.get(id(request))):
            record.key = name
        return name is not None

    def _read_key(self, request: web.Request) -> str:
        """The client's key. A browser that opens the page sends no headers of ours: its key is in the query."""
        if self.keys is None:
            return read_key(request.headers)
        return read_key(request.headers) or request.query.get("key", "")

    async def _add_headers(self, request: web.Request, response: web.StreamResponse) -> None:
        response.headers.update(find_cors_headers(_describe(request), self._rules))
        if record := self._records.get(id(request)):
            record.note_head(response.headers)

    async def tell_alive(self, _: web.Request) -> web.Response:
        """This worker answers, whatever the servers do."""
        return web.json_response({"status": "ok"})

    async def tell_ready(self, _: web.Request) -> web.Response:
        """A server answers."""
        if await self._upstreams.check_ready():
            return web.json_response({"status": "ok"})
        return web.json_response({"status": "no server answers"}, status=503)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Answer a request that may bring calls; any other is relayed."""
        if request.headers.get(OFF_HEADER):
            return await self.relay(request)
        body = await _read_api_body(request)
        recording = None
        if self._recorder is not None and request.path != COUNT_PATH:
            record = self._records[id(request)]
            recording = self._recorder.begin(record.api, record.key, len(body))
        try:
            return await self._answer_body(request, body, recording)
        finally:
            if self._recorder is not None and recording is not None and recording.exchanges:
                self._recorder.put(recording)

    async def _answer_body(self, request: web.Request, body: bytes, recording: Recording | None) -> web.StreamResponse:
        """See `answer`. `recording`: where the call is recorded, if it is."""
        value = await run_beside(request, _parse_object, body)
        record = self._records[id(request)]
        record.model, record.is_stream = str(value.get("model", "")), value.get("stream") is True
        try:
            interval = read_interval(request.headers, self._keep_alive)
            splits_form = "form" in self._options.guards
            dialect, chat = await run_beside(request, _read_request, request.path, value, splits_form)
        except ValueError as error:
            return _refuse(request, 400, str(error))
        except web.HTTPException:
            raise
        except Exception:  # noqa: BLE001 - a mistake of ours costs no request
            log.exception(RELAYED)
            return await self.relay(request)
        if not record.is_stream:
            interval = 0.0  # a whole answer stays silent: its status cannot be taken back
        if recording is not None:
            recording.chat = chat or ChatBody(value)
        if chat is None or not (chat.is_guarded or request.path == COUNT_PATH):
            try:
                return await self._relay_alive(request, dialect, interval, chat, recording)
            except HistoryRefused as refusal:
                chat = refusal.chat
        return await self._guard(request, dialect, chat, interval, recording)

    async def _guard(
        self,
        request: web.Request,
        dialect: Dialect,
        chat: ChatBody,
        interval: float,
        recording: Recording | None,
    ) -> web.StreamResponse:
        """`recording`: see _answer_body."""
        live = LiveStream(request, dialect.encode_keep_alive, interval)
        headers = self._forward_headers(request, _OURS)
        if self.keys is None and (key := read_key(request.headers)):
            headers["Authorization"] = f"Bearer {key}"  # vLLM looks for a key in one place only
        session = "" if recording is None else random_id()
        conversation = await run_beside(request, self._find_conversation, request, chat, session)
        exchange = GuardedExchange(request, dialect, chat, headers, self._options, live, conversation, recording)
        record = self._records[id(request)]
        record.exchange = exchange
        try:
            with self._metrics.track(exchange, request.path.removeprefix("/v1/")):
                answer = await exchange.answer(self._upstreams)
            for guard in exchange.report.guards:
                self._tell_first(GUARDED, guard, chat.model)
            if exchange.report.repeated:
                self._tell_first(REPEATED, chat.model)
            return answer
        except NotGuarded:
            record.exchange = None
            return await self.relay(request, recording=recording)
        finally:
            if recording is not None:
                recording.status = recording.status or exchange.status

    def _tell_first(self, message: str, *values: str) -> None:
        """/metrics counts what follows."""
        if (message, *values) not in self._told:
            self._told.add((message, *values))
            log.warning(message, *values)

    def _find_conversation(self, request: web.Request, chat: ChatBody, session: str) -> Conversation | None:
        if self._memory is None:
            return None
        key, notes_loops = self._read_key(request), "loops" in self._options.guards
        return Conversation(self._memory, self._histories, key, chat, notes_loops=notes_loops, new_session=session)

    async def relay(
        self, request: web.Request, chat: ChatBody | None = None, recording: Recording | None = None
    ) -> web.StreamResponse:
        """Pass a request and its answer on, byte for byte. Raises HistoryRefused, of `chat`."""
        left_out = NOT_RELAYED
        if recording is not None:
            recording.begin(RELAYED_PATH)
            left_out = NOT_RELAYED | {"accept-encoding"}  # what is recorded can be read
        try:
            async with self._open_answer(request, left_out) as answer:
                await check_refusal(answer, chat)
                return await relay_answer(request, answer, recording)
        except _Unreachable:
            return _refuse(request, 502, NO_SERVER)

    async def _relay_alive(
        self,
        request: web.Request,
        dialect: Dialect,
        interval: float,
        chat: ChatBody | None,
        recording: Recording | None,
    ) -> web.StreamResponse:
        """As `relay`; between the events of a stream there may be signs of life."""
        if not interval:
            return await self.relay(request, chat, recording)
        if recording is not None:
            recording.begin(RELAYED_PATH)
        with LiveStream(request, lambda: dialect.relayed_sign, interval) as live:
            try:
                async with self._open_answer(request, NOT_RELAYED | {"accept-encoding"}) as answer:
                    return await RelayedStream(request, live, dialect, chat, recording).send(answer)
            except _Unreachable:
                return await send_error(live, dialect, 502, NO_SERVER)

    @asynccontextmanager
    async def _open_answer(
        self, request: web.Request, left_out: Set[str]
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The answer of the first server that gives one. Raises _Unreachable. `left_out`: headers of the request."""
        body = await request.read() if request.body_exists else None
        chat: Mapping[str, Any] = {}
        if body and len(self._upstreams.replicas) > 1:  # else a large body need not be read
            with suppress(web.HTTPException):  # a replica is chosen without a conversation, too
                chat = await run_beside(request, _parse_object, body)
        for replica in self._upstreams.rank(chat):
            if record := self._records.get(id(request)):
                record.server = replica.root
            with replica.count_running():
                try:
                    answer = await self._send(request, replica, body, left_out)
                except (aiohttp.ClientError, OSError) as error:
                    reason = str(error)
                    if isinstance(error, OSError) and error.errno:
                        reason = os.strerror(error.errno)
                    replica.mark_failed(f"{replica.root} cannot be reached: {reason}.")
                    continue
                replica.mark_answered(answer.status)
                self._metrics.count_relay(answer.status)
                async with answer:
                    yield answer
                return
        raise _Unreachable

    async def _send(
        self, request: web.Request, replica: Replica, body: bytes | None, left_out: Set[str]
    ) -> aiohttp.ClientResponse:
        assert self._session is not None  # noqa: S101 - opened with the application
        key = replica.client.key_headers
        if key:
            left_out = left_out | KEY_HEADERS
        headers = self._forward_headers(request, left_out) | key
        if "accept-encoding" in left_out:
            headers["Accept-Encoding"] = "identity"  # aiohttp would send one of its own
        target = str(request.rel_url)  # as it came
        target = target if self.keys is None else drop_key(target)
        url = URL(f"{replica.root}{target}", encoded=True)
        return await self._session.request(request.method, url, data=body, headers=headers, allow_redirects=False)

    def _forward_headers(self, request: web.Request, left_out: Set[str]) -> dict[str, str]:
        """Of a client's request. A key of the gateway goes no further."""
        if self.keys is not None:
            left_out = left_out | KEY_HEADERS
        return select_headers(request.headers, left_out)


def _read_request(path: str, value: dict[str, Any], splits_form: bool) -> tuple[Dialect, ChatBody | None]:
    """Raises ValueError, and HTTPException for names that are too long."""
    dialect = DIALECTS[path](value, random_id)
    if dialect.chat is None:
        return dialect, None
    chat = ChatBody(dialect.chat)
    if splits_form:
        chat = chat.split_form()
    if chat.is_guarded:
        _check_names(chat)
    return dialect, chat


async def _read_body(request: web.Request) -> None:
    """Raises TimeoutError, and HTTPException where it is too long. From now on `request.read` gives it at once."""
    too_long = _TooMany(f"The body is longer than {MAX_BODY_BYTES:,} bytes.")
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_long
    try:
        await asyncio.wait_for(request.read(), BODY_TIMEOUT_S)
    except web.HTTPRequestEntityTooLarge:
        raise too_long from None


async def _read_api_body(request: web.Request) -> bytes:
    """Raises HTTPException where it cannot be JSON."""
    kind = request.content_type
    if not is_plain(request.headers):
        raise web.HTTPUnsupportedMediaType(reason="The body must not be compressed.")
    if not kind.endswith(("json", "octet-stream")):  # the second: none is given
        raise web.HTTPUnsupportedMediaType(reason=f"The content type must be application/json, not {kind[:100]}.")
    return await request.read()


def _parse_object(body: bytes) -> dict[str, Any]:
    """Raises HTTPException where it is no JSON object, or one that holds up others."""
    if body.count(b"[") + body.count(b"{") > MAX_CONTAINERS:  # brackets inside strings count as well
        raise _TooMany(f"The body has more than {MAX_CONTAINERS:,} lists and objects.")
    if body.count(b",") > MAX_VALUES:
        raise _TooMany(f"The body has more than {MAX_VALUES:,} values.")
    if count_items(body, "tools") > MAX_TOOLS:
        raise _TooMany(f"The request has more than {MAX_TOOLS:,} tools.")
    try:
        value = load_json(body)
    except BotError:
        raise web.HTTPBadRequest(reason="The body is not JSON, or it is nested too deep.") from None
    if not isinstance(value, dict):
        raise web.HTTPBadRequest(reason="The body must be a JSON object.")
    if isinstance(model := value.get("model"), str):  # as the server gets it: no label or log holds a lone surrogate
        value["model"] = model.encode(errors="replace").decode()
    return value


class _Unreachable(Exception):
    """No server gives an answer; the log says why."""


def _check_names(chat: ChatBody) -> None:
    """Raises HTTPException."""
    lengths = [len(name) for tool in chat.tools for name in (tool.name, *as_dict(tool.parameters.get("properties")))]
    if max(lengths, default=0) > MAX_NAME_CHARS:
        raise _TooMany(f"The name of a tool or a parameter has more than {MAX_NAME_CHARS} characters.")
    if sum(lengths) > MAX_NAMES_CHARS:
        raise _TooMany(f"The names of the tools and parameters have more than {MAX_NAMES_CHARS:,} characters.")


class _TooMany(web.HTTPRequestEntityTooLarge):
    """A request that would hold up all others while it is read."""

    def __init__(self, message: str) -> None:
        super().__init__(0, 0, reason=message)


def _describe(request: web.Request) -> Asked:
    headers = {name.lower(): request.headers.getall(name) for name in request.headers}
    return Asked(request.method, request.path, headers, request.content_type)


def _refuse(request: web.Request, status: int, message: str) -> web.Response:
    return refuse(status, encode_path_error(request.path, status, message))
