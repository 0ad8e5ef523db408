"""Signs of life in the streams of clients, in front of a fake server that is silent until it is released."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from src.app.state_files import ServerMemory
from src.serve.apis.dialects import DIALECTS, KEEP_ALIVE
from src.serve.gateway import Gateway
from src.serve.keep_alive import KEEP_ALIVE_HEADER, LiveStream, read_interval
from src.serve.pages.metrics import Metrics
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from tests.each import check_rows
from tests.waiting import PATIENCE_S

from .test_gateway import BODY, STREAMED, stream

INTERVAL_S = 0.02
PING = b'event: ping\ndata: {"type":"ping"}\n\n'
RELAYED_SIGNS = {"/v1/chat/completions": KEEP_ALIVE, "/v1/messages": PING, "/v1/responses": KEEP_ALIVE}
SIGNS = {**RELAYED_SIGNS, "/v1/responses": b"event: response.in_progress\n"}  # of the last one, the beginning
PATHS = [(path, {**body, "stream": True}) for path, body in STREAMED]
REFUSAL = {"error": {"message": "The prompt is odd.", "type": "BadRequestError", "code": 400}}


class SilentServer:
    """Says `first` at once, if it is something, and nothing more before it is released."""

    def __init__(self, first: bytes = b"", status: int = 200) -> None:
        self.released = asyncio.Event()
        self.encodings: list[str | None] = []
        self._first = first
        self._status = status

    def make_app(self) -> web.Application:
        app = web.Application()
        for path in SIGNS:
            app.router.add_post(path, self.answer)
        app.router.add_get("/version", self.tell_version)
        return app

    async def tell_version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.encodings.append(request.headers.get("Accept-Encoding"))
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        if self._first:
            await response.prepare(request)
            await response.write(self._first)
        await self.released.wait()
        if self._status != 200:
            return web.json_response(REFUSAL, status=self._status)
        await response.prepare(request)
        for event in stream("It is done."):
            await response.write(event)
        return response


def drive(
    folder: Path,
    use: Callable[[TestClient[Any, Any], SilentServer], Awaitable[None]],
    *,
    interval: float = INTERVAL_S,
    first: bytes = b"",
    status: int = 200,
    dead: int = 0,
) -> None:
    """Run `use` with a client of the gateway in front of a SilentServer."""

    async def run() -> None:
        silent = SilentServer(first, status)
        async with TestServer(silent.make_app()) as server:
            addresses = [f"http://127.0.0.1:{9 + number}/v1" for number in range(dead)]
            addresses.append(str(server.make_url("/v1")))
            replicas = [Replica(AsyncClient(each), ServerMemory(folder)) for each in addresses]
            own = Gateway(Upstreams(replicas), Metrics(folder), keep_alive=interval)
            async with TestClient(TestServer(own.make_app())) as client:
                await use(client, silent)

    asyncio.run(run())


def read_types(stream: bytes) -> list[str]:
    """The types of the events of a response, whose numbers count up from zero."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith(b"data: {")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    return [event["type"] for event in events]


async def read_signs(reply: Any, sign: bytes, count: int) -> bytes:
    """The first bytes of the stream, once there are so many signs of life."""
    read = b""
    while read.count(sign) < count:
        chunk = await reply.content.readany()
        assert chunk, read
        read += chunk
    return read


@pytest.mark.parametrize("has_tools", [True, False])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_silent_server_s_client_gets_signs_of_life_and_then_the_answer(tmp_path, path, body, has_tools):
    body = body if has_tools else {**body, "tools": []}
    sign = SIGNS[path] if has_tools else RELAYED_SIGNS[path]

    async def use(client, silent):
        async with client.post(path, json=body) as reply:
            assert (reply.status, reply.content_type) == (200, "text/event-stream")
            first = await read_signs(reply, sign, 3)
            assert first.replace(sign, b"") == b"" or (has_tools and path == "/v1/responses")
            silent.released.set()
            rest = await reply.content.read()
        assert b'"."' in rest  # the answer's last character
        assert b'"error":{' not in rest

    drive(tmp_path, use)


def test_signs_of_life_of_responses_are_events_that_begin_it_once(tmp_path):
    path, body = PATHS[-1]

    async def use(client, silent):
        async with client.post(path, json=body) as reply:
            read = await read_signs(reply, SIGNS[path], 3)
            silent.released.set()
            read += await reply.content.read()
        begin, *signs, _ = types = read_types(read)
        assert begin == "response.created"
        assert set(signs[:3]) == {"response.in_progress"}
        assert types.count("response.created") == types.count("response.completed") == 1

    drive(tmp_path, use)


def test_a_held_call_of_responses_leaves_events(tmp_path):
    path, body = PATHS[-1]
    held = b"".join(stream("Well. <tool_call>\n<function=read>\n<parameter=path>\na")[:-2])

    async def use(client, silent):
        async with client.post(path, json=body) as reply:
            read = await read_signs(reply, SIGNS[path], 4)  # the first of them begins the response
            silent.released.set()
            read += await reply.content.read()
        types = read_types(read)
        assert types.count("response.in_progress") >= 4
        assert types.index("response.output_text.delta") < len(types) - types[::-1].index("response.in_progress")

    drive(tmp_path, use, first=held)


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_held_call_leaves_signs_of_life(tmp_path, path, body):
    held = b"".join(stream("<tool_call>\n<function=read>\n<parameter=path>\na")[:-2])

    async def use(client, silent):
        async with client.post(path, json=body) as reply:
            await read_signs(reply, SIGNS[path], 2)
            silent.released.set()
            assert b"error" not in await reply.content.read()

    drive(tmp_path, use, first=held)


@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_comment_of_the_server_is_passed_on(tmp_path, path, body):
    comment = b": processing\n\n"

    async def use(client, silent):
        async with client.post(path, json=body) as reply:
            expected = comment if path == "/v1/chat/completions" else SIGNS[path]
            await read_signs(reply, expected, 1)
            silent.released.set()
            await reply.content.read()

    drive(tmp_path, use, first=comment, interval=0)


@pytest.mark.parametrize("has_tools", [True, False])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_refusal_before_the_first_sign_of_life_has_its_status(tmp_path, path, body, has_tools):
    body = body if has_tools else {**body, "tools": []}

    async def use(client, silent):
        silent.released.set()
        async with client.post(path, json=body) as reply:
            refusal = await reply.json()
        assert reply.status == 400
        assert reply.content_type == "application/json"
        assert refusal["error"]["message"] == "The prompt is odd."
        if path == "/v1/messages":
            assert refusal["type"] == "error"
        else:
            assert refusal == REFUSAL

    drive(tmp_path, use, interval=60, status=400)


@pytest.mark.parametrize("status", [400, 503])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_an_error_as_the_first_event_has_a_status_too(tmp_path, path, body, status):
    error = {"error": {"message": "The prompt is odd.", "type": "BadRequestError", "code": status}}

    async def use(client, silent):
        silent.released.set()
        async with client.post(path, json=body) as reply:
            assert "The prompt is odd." in await reply.text()
        assert reply.status == (400 if status == 400 else 502)

    drive(tmp_path, use, interval=60, first=b"data: " + json.dumps(error).encode() + b"\n\n")


@pytest.mark.parametrize("has_tools", [True, False])
@pytest.mark.parametrize(("path", "body"), PATHS)
def test_a_refusal_after_a_sign_of_life_is_an_event_of_the_api(tmp_path, path, body, has_tools):
    body = body if has_tools else {**body, "tools": []}

    async def use(client, silent):
        async with client.post(path, json=body) as reply:
            await read_signs(reply, SIGNS[path] if has_tools else RELAYED_SIGNS[path], 1)
            silent.released.set()
            rest = (await reply.content.read()).decode()
        events = [json.loads(line[6:]) for line in rest.splitlines() if line.startswith("data: ")]
        told = events[-1].get("response", events[-1])["error"]
        assert "The prompt is odd." in told["message"]

    drive(tmp_path, use, status=400)


def test_no_server_after_a_sign_of_life_is_an_event_and_another_server_answers(tmp_path):
    async def use(client, silent):
        silent.released.set()
        for number in range(4):  # some of them ask the dead server first
            body = {**BODY, "stream": True, "messages": [{"role": "user", "content": f"{number}"}]}
            async with client.post("/v1/chat/completions", json=body) as reply:
                assert b"[DONE]" in await reply.content.read()

    drive(tmp_path, use, dead=1)


@pytest.mark.parametrize("asked", ["0", "0.0"])
def test_a_client_turns_signs_of_life_off(tmp_path, asked):
    async def use(client, silent):
        asyncio.get_running_loop().call_later(5 * INTERVAL_S, silent.released.set)
        headers = {KEEP_ALIVE_HEADER: asked}
        async with client.post("/v1/chat/completions", json={**BODY, "stream": True}, headers=headers) as reply:
            assert KEEP_ALIVE not in await reply.content.read()

    drive(tmp_path, use)


def test_a_whole_answer_stays_silent_and_keeps_its_status(tmp_path):
    async def use(client, silent):
        asyncio.get_running_loop().call_later(5 * INTERVAL_S, silent.released.set)
        async with client.post("/v1/chat/completions", json=BODY) as reply:
            assert (reply.status, await reply.json()) == (400, REFUSAL)

    drive(tmp_path, use, status=400)


def test_a_header_that_is_no_number_is_refused(tmp_path):
    async def use(client, _):
        async with client.post("/v1/chat/completions", json=BODY, headers={KEEP_ALIVE_HEADER: "often"}) as reply:
            assert reply.status == 400
            assert "expected seconds" in (await reply.json())["error"]["message"]

    drive(tmp_path, use)


@check_rows("asked", ["nan", "inf", "-1", "", "1e-400", "0.5s"])
def test_seconds_that_are_none_are_refused(asked):
    with pytest.raises(ValueError, match="expected seconds"):
        read_interval({KEEP_ALIVE_HEADER: asked}, 10.0)


def test_a_client_may_not_ask_for_a_flood():
    assert read_interval({KEEP_ALIVE_HEADER: "0.000001"}, 10.0) == 0.1
    assert read_interval({}, 10.0) == 10.0


def test_a_relayed_stream_is_asked_for_uncompressed(tmp_path):
    async def use(client, silent):
        silent.released.set()
        body = {**BODY, "tools": [], "stream": True}
        async with client.post("/v1/chat/completions", json=body, headers={"Accept-Encoding": "gzip"}) as reply:
            assert (await reply.content.read()).endswith(b"[DONE]\n\n")
        assert silent.encodings == ["identity"]

    drive(tmp_path, use, interval=60)


def test_no_sign_of_life_stands_inside_an_event(tmp_path):
    async def use(client, silent):
        asyncio.get_running_loop().call_later(5 * INTERVAL_S, silent.released.set)
        async with client.post("/v1/chat/completions", json={**BODY, "tools": [], "stream": True}) as reply:
            read = await reply.content.read()
        assert b'data: {"half": data: {' in read  # a sign may have come before it

    drive(tmp_path, use, first=b'data: {"half": ')


def stream_live(
    steps: Callable[[LiveStream], Awaitable[None]], make_sign: Callable[[], bytes] = lambda: KEEP_ALIVE
) -> tuple[int, bytes]:
    """The status and the body of a stream, of which `steps` are all but the end."""

    async def answer(request: web.Request) -> web.StreamResponse:
        with LiveStream(request, make_sign, INTERVAL_S) as live:
            await steps(live)
            return await live.end()

    async def run() -> tuple[int, bytes]:
        app = web.Application()
        app.router.add_get("/", answer)
        async with TestClient(TestServer(app)) as client, client.get("/") as reply:
            return reply.status, await reply.content.read()

    return asyncio.run(run())


@check_rows(
    "pieces",
    [
        [b"data: 1\n\n"],
        [b"data: 1\n", b"\n"],
        [b"data: 1\n\n", b""],
        [b"data: 1\r\n\r", b"\n"],
        [b"data: 1\r\n", b"\r", b"\n"],
        [b"data: 1\n\r\n"],
        [b"data: 1\r\r"],
        [b"data: 1\r\r\n"],
    ],
)
def test_there_is_life_behind_an_event_however_its_bytes_come(pieces):
    def make_sign() -> bytes:
        signed.set()
        return KEEP_ALIVE

    async def write(live):
        await live.open({})
        for piece in pieces:
            await live.write(piece)
        signed.clear()  # one may have come between two pieces
        await asyncio.wait_for(signed.wait(), PATIENCE_S)

    signed = asyncio.Event()
    status, body = stream_live(write, make_sign)
    assert (status, body.replace(KEEP_ALIVE, b"")) == (200, b"".join(pieces))
    assert body.endswith(KEEP_ALIVE)


def test_a_stream_that_ends_before_anything_was_sent_has_a_head():
    async def do_nothing(_):
        pass

    assert stream_live(do_nothing) == (200, b"")


def test_each_api_says_how_it_shows_life():
    for path, sign in SIGNS.items():
        dialect = DIALECTS[path]({"messages": [], "input": "x"}, lambda: "1")
        assert sign in dialect.encode_keep_alive()
        assert dialect.relayed_sign == RELAYED_SIGNS[path]
