"""The gateway as a client meets it, in front of a fake server in the same event loop."""

from __future__ import annotations

import asyncio
import gzip
import io
import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yarl
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from src.app.keys import KeyRing, hash_key
from src.app.state_files import ServerMemory
from src.negotiation.call_path import CallPath
from src.negotiation.formats.written_format import PROBE
from src.providers.vllm import PROBE_TEXT
from src.serve import gateway
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import StreamGuard
from src.serve.client_asker import ChatAsker
from src.serve.gateway import Gateway
from src.serve.http_common import NO_SERVER
from src.serve.memory import OwnMemory
from src.serve.pages.metrics import Metrics
from src.serve.record.recorder import Recorder
from src.serve.run import close_silent, hide_request
from src.serve.turn_options import TurnOptions
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from src.transport.deadlines import Timeouts

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {}}}}}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]}
CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'
REFUSED = {"error": {"message": "No.", "type": "BadRequestError", "param": None, "code": 400}}
PROBE_CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
NO_PARSER = {"error": {"message": '"auto" tool choice requires --enable-auto-tool-choice', "code": 400}}
MALFORMED = '<tool_call>\n{"name": "read", "arguments": {"path": \n</tool_call>'
SYSTEM_REFUSED = {"error": {"message": "System message must be at the beginning.", "code": 400}}
FUNCTION = TOOL["function"]
STREAMED = [
    ("/v1/chat/completions", BODY),
    ("/v1/messages", {**BODY, "max_tokens": 9, "tools": [{"name": "read", "input_schema": FUNCTION["parameters"]}]}),
    ("/v1/responses", {"model": "m", "input": "Read it.", "tools": [{"type": "function", **FUNCTION}]}),
]
RUNNING = 'vllm:num_requests_running{engine="0",model_name="m"}'
Answering = Callable[[dict[str, Any]], Any]


class FakeServer:
    """Answers chat completions with what `answer` makes of the body: JSON, (status, JSON), the events of a stream, or None:
    nothing comes.
    """

    def __init__(self, answer: Answering) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.relayed: list[tuple[str, str, bytes]] = []  # method, path and query, body
        self.packed: list[bytes] = []  # bodies with a Content-Encoding, as they came
        self.counted: list[dict[str, Any]] = []  # bodies whose prompts were counted
        self.rendered = 0
        self.tells_tokens = False
        self.sent_headers: dict[str, str] = {}  # with answers
        self.written = ""  # what the model wrote, if /detokenize is to tell that
        self.template_text = ""  # of a prompt, as llama.cpp's server tells it; "": it is none
        self._answer = answer

    def make_app(self) -> web.Application:
        app = web.Application(handler_args={"auto_decompress": False})
        app.router.add_post("/v1/chat/completions", self.complete)
        app.router.add_post("/tokenize", self.count)
        app.router.add_post("/detokenize", self.detokenize)
        app.router.add_post("/apply-template", self.apply_template)
        app.router.add_get("/version", self.tell_version)
        app.router.add_get("/v1/models", self.list_models)
        app.router.add_get("/metrics", self.tell_load)
        app.router.add_route("*", "/{path:.*}", self.record)
        return app

    async def record(self, request: web.Request) -> web.Response:
        self.relayed.append((request.method, request.raw_path, await request.read()))
        if request.headers.get("Content-Encoding"):
            self.packed.append(self.relayed[-1][2])
        if request.path == "/v1/files/moved":
            raise web.HTTPTemporaryRedirect("/elsewhere")
        return web.Response(
            status=418,
            body=b"\0teapot",
            headers={"Content-Type": "x/y", "X-Own": "1", "Access-Control-Allow-Origin": "*"},
        )

    async def tell_load(self, _: web.Request) -> web.Response:
        return web.Response(text=f'# HELP x\n{RUNNING} 3.0\nvllm:other_total{{engine="0"}} 1.0\n')

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.raw = await request.read()
        self.bodies.append(await request.json())
        self.headers.append(dict(request.headers))
        made = self._answer(self.bodies[-1])
        if isinstance(made, list):
            return await _send_stream(request, made, self.sent_headers)
        if made is None:
            await asyncio.Event().wait()
        status, value = made if isinstance(made, tuple) else (200, made)
        return web.json_response(value, status=status, headers=self.sent_headers)

    async def count(self, request: web.Request) -> web.Response:
        """One token a message and a tool; a second system message is refused."""
        body = await request.json()
        self.counted.append(body)
        if [each["role"] for each in body["messages"]].count("system") > 1:
            return web.json_response(SYSTEM_REFUSED, status=400)
        size = len(body["messages"]) + len(body.get("tools", ()))
        tokens = {"tokens": [7] * size, "max_model_len": 1000} if self.tells_tokens else {}
        return web.json_response({"count": size, **tokens})

    async def detokenize(self, _: web.Request) -> web.Response:
        """What the model wrote, or the prompt of a conversation with a call in it, as its template makes it."""
        self.rendered += 1
        return web.json_response({"prompt": self.written or f"{PROBE[0].text}\n{PROBE_CALL}"})

    async def apply_template(self, _: web.Request) -> web.Response:
        return web.json_response({"prompt": self.template_text}, status=200 if self.template_text else 404)

    async def tell_version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": "0.32.0"})

    async def list_models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "max_model_len": 1000}]})


def say(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }


async def _send_stream(request: web.Request, events: list[bytes], headers: dict[str, str]) -> web.StreamResponse:
    """Each event in a write of its own, after the reader had its turn."""
    response = web.StreamResponse(headers={**headers, "Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in events:
        await response.write(event)
        for _ in range(3):
            await asyncio.sleep(0)
    return response


def stream(text: str) -> list[bytes]:
    """The events of a stream, with a character in each."""
    deltas = [*({"content": character} for character in text), {}]
    choices = [{"index": 0, "delta": delta, "finish_reason": None if delta else "stop"} for delta in deltas]
    chunks = [json.dumps({"id": "1", "created": 1, "model": "m", "choices": [choice]}) for choice in choices]
    return [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]


def drive(
    folder: Path,
    answer: Answering,
    use: Callable[[TestClient[Any, Any], FakeServer], Awaitable[None]],
    keys: KeyRing | None = None,
    dead: int = 0,
    clocks: Timeouts = Timeouts(),  # noqa: B008 - a NamedTuple
    alive: int = 1,
    options: TurnOptions = TurnOptions(),  # noqa: B008 - a NamedTuple
    recorder: Recorder | None = None,
) -> None:
    """Run `use` with a client of the gateway. `dead`: servers that do not answer, tried first where need be.

    `clocks`: the limits of requests to the server.
    """

    async def run() -> None:
        fake = FakeServer(answer)
        async with TestServer(fake.make_app()) as server:
            addresses = [f"http://127.0.0.1:{port}/v1" for port in range(9, 9 + dead)] + [
                str(server.make_url("/v1"))
            ] * alive
            replicas = [
                Replica(
                    AsyncClient(each, "server-key" if keys else "", clocks, keeps_cookies=False), ServerMemory(folder)
                )
                for each in addresses
            ]
            own = Gateway(Upstreams(replicas), Metrics(folder), keys, options, memory=OwnMemory(), recorder=recorder)
            async with TestClient(TestServer(own.make_app())) as client:
                await use(client, fake)

    asyncio.run(run())


async def read_metrics(client: TestClient[Any, Any]) -> list[str]:
    async with client.get("/metrics") as reply:
        return (await reply.text()).splitlines()


async def ask(client: TestClient[Any, Any], body: object, **headers: str) -> tuple[int, Any]:
    async with client.post("/v1/chat/completions", json=body, headers=headers) as reply:
        return reply.status, await reply.json()


def test_a_call_in_the_text_reaches_the_client_as_a_call(tmp_path):
    async def use(client, _):
        _, answer = await ask(client, BODY)
        (choice,) = answer["choices"]
        (call,) = choice["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"path": "a.txt"}
        assert choice["message"]["content"] is None
        assert choice["finish_reason"] == "tool_calls"

    drive(tmp_path, lambda _: say(CALL), use)


def test_a_healthy_answer_is_the_server_s(tmp_path):
    async def use(client, _):
        assert await ask(client, BODY) == (200, say("It is done."))

    drive(tmp_path, lambda _: say("It is done."), use)


@pytest.mark.parametrize("answer", [say(CALL), stream(CALL), (400, {"error": {"message": "bad"}})])
def test_the_headers_of_the_server_reach_the_client(tmp_path, answer):
    async def use(client, fake):
        fake.sent_headers = {
            "X-Request-Id": "r1",
            "Set-Cookie": "a=b",
            "Access-Control-Allow-Origin": "*",
            "Content-Encoding": "identity",
        }
        is_stream = isinstance(answer, list)
        async with client.post("/v1/chat/completions", json={**BODY, "stream": is_stream}) as reply:
            await reply.read()
        assert reply.headers["X-Request-Id"] == "r1"
        assert not {"Set-Cookie", "Access-Control-Allow-Origin", "Content-Encoding"} & set(reply.headers)
        kind = "text/event-stream" if is_stream else "application/json"
        assert reply.headers.getall("Content-Type")[0].startswith(kind)

    drive(tmp_path, lambda _: answer, use)


def test_a_refusal_as_the_first_event_of_a_stream_is_the_client_s_error(tmp_path):
    event = {"error": {"message": "top_logprobs is too high", "type": "BadRequestError", "code": 400}}

    async def use(client, _):
        status, answer = await ask(client, {**BODY, "stream": True})
        assert status == 400
        assert "top_logprobs is too high" in answer["error"]["message"]

    drive(tmp_path, lambda _: [f"data: {json.dumps(event)}\n\n".encode(), b"data: [DONE]\n\n"], use)


def test_a_refusal_of_tools_is_learned_once(tmp_path):
    def answer(body):
        return (400, {"error": {"message": "start with --enable-auto-tool-choice"}}) if "tools" in body else say("Yes.")

    async def use(client, fake):
        for _ in range(3):
            assert (await ask(client, BODY))[0] == 200
        # refused, refused of a request of the gateway's own, answered
        assert ["tools" in body for body in fake.bodies] == [True, True, False, False, False]

    drive(tmp_path, answer, use)


def test_what_one_gateway_learned_the_next_one_knows(tmp_path):
    (tmp_path / "other").mkdir()

    async def learn(client, fake):
        await ask(client, BODY)

    def answer(body):
        return (
            (400, {"error": {"message": "unknown field return_token_ids"}})
            if "return_token_ids" in body
            else say("Yes.")
        )

    drive(tmp_path, answer, learn)
    stored = json.loads((tmp_path / "servers.json").read_text())
    assert [entry["path"]["without"] for entry in stored.values()] == [["return_token_ids"]]


def test_what_another_worker_has_learned_holds_for_the_next_request(tmp_path):
    async def use(client, fake):
        await ask(client, BODY)
        address = f"http://{fake.headers[0]['Host']}/v1"
        ServerMemory(tmp_path).save(address, "m", "0.32.0", CallPath(disabled_fields=("return_token_ids",)))
        await ask(client, BODY)
        assert ["return_token_ids" in body for body in fake.bodies] == [True, False]

    drive(tmp_path, lambda _: say("Yes."), use)


def test_a_refusal_that_nothing_helps_against_reaches_the_client(tmp_path):
    refusal = {"error": {"message": "temperature must be positive", "code": 400}}

    async def use(client, _):
        assert await ask(client, BODY) == (400, refusal)

    drive(tmp_path, lambda _: (400, refusal), use)


@pytest.mark.parametrize(
    "message",
    ["The tool specified in `tool_choice` matches none of the `tools`", "Unexpected value in tool_choice: 'requird'"],
)
def test_a_refusal_of_the_client_s_own_tools_or_choice_reaches_the_client(tmp_path, message):
    refusal = {"error": {"message": message, "code": 400}}

    async def use(client, fake):
        assert await ask(client, BODY) == (400, refusal)
        assert len(fake.bodies) == 1

    drive(tmp_path, lambda _: (400, refusal), use)


def test_no_image_of_a_client_is_left_out(tmp_path):
    refusal = {"error": {"message": "tiny is not a multimodal model", "code": 400}}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}

    async def use(client, fake):
        for _ in range(2):
            body = {**BODY, "messages": [{"role": "user", "content": [{"type": "text", "text": "Look."}, image]}]}
            assert await ask(client, body) == (400, refusal)
        assert [each["messages"][0]["content"][1] for each in fake.bodies] == [image, image]

    drive(tmp_path, lambda _: (400, refusal), use)


def test_a_call_that_cannot_be_read_is_asked_for_once_more(tmp_path):
    def answer(body):
        return say(CALL if len(body["messages"]) > 1 else MALFORMED)

    async def use(client, fake):
        _, answer = await ask(client, BODY)
        assert answer["choices"][0]["message"]["tool_calls"]
        assert [len(body["messages"]) for body in fake.bodies] == [1, 3]

    drive(tmp_path, answer, use)


@pytest.mark.parametrize("is_streamed", [True, False])
def test_native_arguments_that_are_not_valid_json_are_mended_without_another_request(tmp_path, is_streamed):
    calls = [{"index": 0, "id": "n0", "function": {"name": "read", "arguments": '{"path": "a.txt",}'}}]
    whole = say("")
    whole["choices"][0] |= {"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    begun = {**whole, "choices": [{"index": 0, "delta": {"tool_calls": calls}}]}
    ended = {**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    events = [f"data: {event}\n\n".encode() for event in (json.dumps(begun), json.dumps(ended), "[DONE]")]

    async def use(client: TestClient[Any, Any], fake: FakeServer) -> None:
        async with client.post("/v1/chat/completions", json={**BODY, "stream": is_streamed}) as reply:
            text = await reply.text()
        answers = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
        choices = [answer["choices"][0] for answer in answers or [json.loads(text)]]
        made = [call for choice in choices for call in choice.get("delta", choice.get("message")).get("tool_calls", ())]
        assert json.loads("".join(call["function"].get("arguments", "") for call in made)) == {"path": "a.txt"}
        assert len(fake.bodies) == 1

    drive(tmp_path, lambda _: events if is_streamed else whole, use)


def test_a_call_that_stays_unreadable_leaves_as_its_text(tmp_path):
    async def use(client, fake):
        _, answer = await ask(client, BODY)
        assert answer["choices"][0]["message"]["content"] == MALFORMED
        assert len(fake.bodies) == 2

    drive(tmp_path, lambda _: say(MALFORMED), use)


def test_a_call_that_quotes_a_result_stays_text(tmp_path):
    asked = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    quoting = [
        *BODY["messages"],
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": f"The file says:\n{CALL}"},
    ]

    async def use(client, _):
        _, answer = await ask(client, {**BODY, "messages": quoting})
        assert answer["choices"][0]["message"] == say(f"It says {CALL}")["choices"][0]["message"]

    drive(tmp_path, lambda _: say(f"It says {CALL}"), use)


def test_the_header_has_a_request_relayed(tmp_path):
    async def use(client, fake):
        _, answer = await ask(client, BODY, **{"x-vllm-bot-off": "1"})
        assert answer == say(CALL)
        assert fake.bodies == [BODY]

    drive(tmp_path, lambda _: say(CALL), use)


@pytest.mark.parametrize(
    "change",
    [
        {"tools": []},
        {"tool_choice": "none"},
        {"response_format": {"type": "structural_tag"}},
        {"structured_outputs": {"choice": ["a"]}},
        {"guided_regex": "a*"},
    ],
)
def test_a_request_that_can_bring_no_call_is_relayed_byte_for_byte(tmp_path, change):
    sent = json.dumps({**BODY, **change}, indent=3).encode()

    async def use(client, fake):
        async with client.post(
            "/v1/chat/completions", data=sent, headers={"Content-Type": "application/json"}
        ) as reply:
            assert await reply.json() == say(CALL)
            assert "x-vllm-bot" not in reply.headers
        assert fake.raw == sent
        assert 'vllm_bot_relayed_total{status="200"} 1.0' in await read_metrics(client)

    drive(tmp_path, lambda _: say(CALL), use)


@pytest.mark.parametrize("method", ["GET", "PATCH", "QUERY"])
@pytest.mark.parametrize("path", ["/v1/files/a%2Fb%7E/?q=a+b%20c&q=%C3%A9&e=[1]&f", "/files//y/../z;p=1?a=%"])
def test_any_other_request_and_its_answer_are_relayed_byte_for_byte(tmp_path, method, path):
    async def use(client, fake):
        url = yarl.URL(f"{client.make_url('/')}{path[1:]}", encoded=True)
        body = b"\xff{ }" if method != "GET" else b""
        async with client.session.request(method, url, data=body or None) as reply:
            assert (reply.status, await reply.read()) == (418, b"\0teapot")
            assert (reply.headers["Content-Type"], reply.headers["X-Own"]) == ("x/y", "1")
        assert fake.relayed == [(method, path, body)]

    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "DELETE"])
def test_what_changes_the_server_does_not_reach_it(tmp_path, method):
    async def use(client, fake):
        async with client.request(method, "/flush_cache") as reply:
            assert reply.status == 403
        assert fake.relayed == []

    drive(tmp_path, lambda _: say("x"), use)


def test_a_redirect_is_the_client_s_to_follow(tmp_path):
    async def use(client, fake):
        async with client.get("/v1/files/moved", allow_redirects=False) as reply:
            assert (reply.status, reply.headers["Location"]) == (307, "/elsewhere")
        assert len(fake.relayed) == 1

    drive(tmp_path, lambda _: say("x"), use)


def test_a_client_that_names_the_whole_address_as_to_a_proxy_is_answered(tmp_path):
    async def use(client, fake):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(b"GET http://localhost/v1/files/some%7Ething?a HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"418"
        assert [path for _, path, _ in fake.relayed] == ["/v1/files/some%7Ething?a"]
        writer.close()

    drive(tmp_path, lambda _: say("x"), use)


def test_a_body_that_is_said_to_be_too_long_is_refused_before_it_comes(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway, "MAX_BODY_BYTES", 100)

    async def use(client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(b"POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n")
        assert (await reader.readline()).split()[1] == b"413"
        writer.close()

    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.parametrize("with_length", [True, False])
def test_a_body_that_is_too_long_is_refused(tmp_path, monkeypatch, with_length):
    monkeypatch.setattr(gateway, "MAX_BODY_BYTES", 100)

    async def pour():
        for _ in range(3):
            yield b"[" * 50

    async def use(client, fake):
        data = b"[" * 101 if with_length else pour()
        async with client.post("/v1/messages", data=data) as reply:
            assert reply.status == 413
            assert (await reply.json())["error"]["message"] == "The body is longer than 100 bytes."
        assert fake.bodies == []

    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.parametrize("data", [b"{", b"", b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused_in_the_shape_of_the_api(tmp_path, data):
    async def use(client, fake):
        for path, key in (("/v1/chat/completions", "error"), ("/v1/messages", "error"), ("/v1/responses", "error")):
            async with client.post(path, data=data) as reply:
                assert reply.status == 400
                assert "message" in (await reply.json())[key]
        assert fake.bodies == []

    drive(tmp_path, lambda _: say("x"), use)


def test_without_a_key_nothing_is_answered(tmp_path):
    async def use(client, fake):
        assert (await ask(client, BODY))[0] == 401
        assert (await ask(client, BODY, Authorization="Bearer wrong"))[0] == 401
        assert (await ask(client, BODY, **{"x-api-key": "right"}))[0] == 200
        (headers,) = fake.headers
        assert headers["Authorization"] == "Bearer server-key"
        assert "right" not in headers.values()
        for path, status in (("/metrics", 401), ("/metrics?key=right", 200), ("/health", 418)):  # a check needs no key
            async with client.get(path) as reply:
                assert reply.status == status

    drive(tmp_path, lambda _: say("x"), use, keys=KeyRing({hash_key("right"): "team"}))


def test_a_key_in_the_query_goes_no_further(tmp_path):
    async def use(client, fake):
        headers = {"Referer": "http://localhost:8010/?key=right"}
        for name in ("key", "%6bey"):
            async with client.get(yarl.URL(f"/v1/files?a=%7E&{name}=right&b", encoded=True), headers=headers) as reply:
                assert reply.status == 418
        assert {path for _, path, _ in fake.relayed} == {"/v1/files?a=%7E&b"}

    drive(tmp_path, lambda _: say("x"), use, keys=KeyRing({hash_key("right"): "team"}))


def test_a_cookie_of_one_client_s_answer_goes_to_no_other(tmp_path):
    async def use(client, fake):
        fake.sent_headers = {"Set-Cookie": "session=mine"}
        for _ in range(2):
            await ask(client, BODY)
            await ask(client, {**BODY, "tool_choice": "none"})
            client.session.cookie_jar.clear()  # another client
        assert len(fake.headers) == 4
        assert not any("Cookie" in headers for headers in fake.headers)

    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.parametrize(
    ("key", "head"), [("right", b"HTTP/1.1 100 Continue"), ("wrong", b"HTTP/1.1 401 Unauthorized")]
)
def test_a_body_is_asked_for_with_a_key_alone(tmp_path, key, head):
    lines = ["POST /v1/files HTTP/1.1", "Host: x", f"x-api-key: {key}", "Expect: 100-continue", "Content-Length: 1"]

    async def use(client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write("\r\n".join([*lines, "", ""]).encode())
        assert (await reader.readline()).rstrip() == head
        writer.close()

    drive(tmp_path, lambda _: say("x"), use, keys=KeyRing({hash_key("right"): "team"}))


def test_without_a_key_a_health_check_has_no_body_and_changes_nothing(tmp_path):
    async def use(client, fake):
        for method, body, status in (("GET", None, 418), ("HEAD", None, 418), ("POST", None, 401), ("GET", b"x", 401)):
            async with client.request(method, "/health", data=body) as reply:
                assert reply.status == status

    drive(tmp_path, lambda _: say("x"), use, keys=KeyRing({hash_key("right"): "team"}))


def test_a_compressed_body_is_relayed_as_it_came(tmp_path):
    packed = gzip.compress(b"0" * 100_000)

    async def use(client, fake):
        async with client.post("/v1/embeddings", data=packed, headers={"Content-Encoding": "gzip"}) as reply:
            assert reply.status == 418
        assert fake.packed == [packed]

    drive(tmp_path, lambda _: say("x"), use)


def test_a_compressed_body_of_an_api_is_refused(tmp_path):
    async def use(client, _):
        data = gzip.compress(json.dumps(BODY).encode())
        headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
        async with client.post("/v1/chat/completions", data=data, headers=headers) as reply:
            assert (reply.status, (await reply.json())["error"]["message"]) == (415, "The body must not be compressed.")

    drive(tmp_path, lambda _: say("x"), use)


def name_tools(name: str, parameters: Sequence[str] = (), **fields: object) -> bytes:
    """A request with one tool."""
    function = {"name": name, "parameters": {"type": "object", "properties": {each: {} for each in parameters}}}
    return json.dumps({**BODY, "tools": [{"type": "function", "function": function}], **fields}).encode()


@pytest.mark.parametrize(
    ("make_body", "limit"),
    [
        (lambda: json.dumps({**BODY, "tools": [TOOL] * 1025}).encode(), "more than 1,024 tools"),
        (lambda: b'{"a": [' + b"[]," * 300_000 + b"[]]}", "more than 300,000 lists and objects"),
        (lambda: b'{"a": [' + b"1," * 1_000_001 + b"1]}", "more than 1,000,000 values"),
        (lambda: name_tools("a" * 257), "more than 256 characters"),
        (lambda: name_tools("a", ["p" * 257]), "more than 256 characters"),
        (
            lambda: name_tools("a" * 257, response_format={"type": "json_schema", "json_schema": {}}),
            "more than 256 characters",
        ),
        (lambda: name_tools("a", [f"{number:0>200}" for number in range(1001)]), "more than 200,000 characters"),
    ],
    ids=["tools", "lists", "values", "name", "parameter", "name beside a form", "names"],
)
def test_a_request_that_would_hold_up_others_is_refused(tmp_path, make_body, limit):
    async def use(client, _):
        headers = {"Content-Type": "application/json"}
        async with client.post("/v1/chat/completions", data=io.BytesIO(make_body()), headers=headers) as reply:
            assert reply.status == 413
            assert limit in (await reply.json())["error"]["message"]

    drive(tmp_path, lambda _: say("x"), use)


def test_a_page_of_this_machine_reads_answers_and_no_other_page_does(tmp_path):
    async def use(client, _):
        for origin, status in (("http://localhost:3000", 200), ("https://evil.example", 403), ("null", 403)):
            async with client.post("/v1/chat/completions", json=BODY, headers={"Origin": origin}) as reply:
                allowed = reply.headers.get("Access-Control-Allow-Origin")
                assert (reply.status, allowed) == (status, origin if status == 200 else None)

    drive(tmp_path, lambda _: say("x"), use)


def test_a_browser_asks_beforehand_without_a_key(tmp_path):
    async def use(client, fake):
        headers = {
            "Origin": "tauri://localhost",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type",
        }
        async with client.options("/v1/chat/completions", headers=headers) as reply:
            assert reply.status == 204
            assert reply.headers["Access-Control-Allow-Origin"] == "tauri://localhost"
            assert reply.headers["Access-Control-Allow-Headers"] == "authorization,content-type"
        assert fake.relayed == []

    drive(tmp_path, lambda _: say("x"), use, keys=KeyRing({hash_key("right"): "team"}))


def test_what_a_server_allows_pages_does_not_come_through(tmp_path):
    async def use(client, _):
        async with client.get("/v1/files") as reply:
            assert reply.status == 418
            assert "Access-Control-Allow-Origin" not in reply.headers

    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.parametrize(
    "request_head",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk-secret\x01\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzzsk-secret\r\n",
    ],
)
def test_the_log_quotes_no_part_of_a_malformed_request(tmp_path, caplog, request_head):
    logging.getLogger("aiohttp.server").addFilter(hide_request)

    async def use(client, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", client.server.port)
        writer.write(request_head)
        writer.write_eof()
        await reader.read()
        writer.close()

    drive(tmp_path, lambda _: say("x"), use)
    assert "sk-secret" not in caplog.text


def test_a_server_that_does_not_answer_is_passed_over(tmp_path):
    async def use(client, _):
        for number in range(4):
            body = {**BODY, "messages": [{"role": "user", "content": f"{number}"}]}
            assert (await ask(client, body))[0] == 200

    drive(tmp_path, lambda _: say("x"), use, dead=2)


def test_a_server_that_says_nothing_is_a_timeout_of_the_gateway(tmp_path):
    async def use(client, _):
        status, answer = await ask(client, BODY)
        assert status == 504
        assert "0.1 s" in answer["error"]["message"]

    drive(tmp_path, lambda _: None, use, clocks=Timeouts(first_token=0.1))


def test_without_a_server_the_log_names_the_address_and_no_answer_does(tmp_path, caplog):
    async def use(client, _):
        for body in (BODY, {**BODY, "tools": []}, {**BODY, "stream": True}):
            status, answer = await ask(client, body)
            assert status == 502
            assert answer["error"]["message"] == NO_SERVER
        assert [record.getMessage() for record in caplog.records] == [
            "No server at http://127.0.0.1:9/v1 (127.0.0.1:9: Connection refused)."
        ]

    drive(tmp_path, lambda _: say("x"), use, dead=1, alive=0)


def test_what_breaks_a_stream_is_told_without_the_address(tmp_path):
    async def use(client, fake):
        async with client.post("/v1/chat/completions", json={**BODY, "stream": True}) as reply:
            text = await reply.text()
        assert "error" in text
        assert "127.0.0.1" not in text

    drive(tmp_path, lambda _: stream("Some text")[:2], use, clocks=Timeouts(idle=0.2))


@pytest.mark.parametrize("dead", [0, 1])
def test_liveness_is_the_gateway_s_own_and_readiness_is_a_server_s(tmp_path, dead):
    async def use(client, _):
        for path, status in (("/livez", 200), ("/readyz", 503 if dead else 200)):
            async with client.get(path) as reply:
                assert reply.status == status
                assert "127.0.0.1" not in await reply.text()

    drive(tmp_path, lambda _: say("x"), use, keys=KeyRing({hash_key("right"): "team"}), dead=dead, alive=1 - dead)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (503, "overloaded_error"),
    ],
)
def test_errors_of_the_server_have_anthropic_s_types_on_messages(tmp_path, status, kind):
    path, body = STREAMED[1]

    async def use(client, _):
        async with client.post(path, json=body) as reply:
            assert reply.status == status
            assert await reply.json() == {"type": "error", "error": {"type": kind, "message": "No."}}

    drive(tmp_path, lambda _: (status, REFUSED), use)


@pytest.mark.parametrize("off", [False, True])
def test_errors_of_relayed_requests_have_anthropic_s_types_unless_the_gateway_is_off(tmp_path, off):
    path, body = STREAMED[1]

    async def use(client, _):
        async with client.post(
            path, json={**body, "tools": []}, headers={"x-vllm-bot-off": "1"} if off else {}
        ) as reply:
            assert reply.status == 418
            assert reply.headers["X-Own"] == "1"
            told = await reply.read()
        words = {"type": "error", "error": {"type": "invalid_request_error", "message": "\0teapot"}}
        assert told == b"\0teapot" if off else json.loads(told) == words

    drive(tmp_path, lambda _: say("x"), use)


def test_requests_calls_and_tokens_are_counted_by_the_names_of_keys(tmp_path):
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}

    async def use(client, _):
        await ask(client, BODY, Authorization="Bearer right")
        await ask(client, BODY, Authorization="Bearer wrong")
        async with client.get("/metrics?key=right") as reply:
            lines = (await reply.text()).splitlines()
        assert 'vllm_bot_key_requests_total{key="team",status="200"} 1.0' in lines
        assert 'vllm_bot_key_requests_total{key="unknown",status="401"} 1.0' in lines
        assert 'vllm_bot_key_calls_total{how="text",key="team"} 1.0' in lines
        assert 'vllm_bot_key_tokens_total{key="team",kind="prompt"} 7.0' in lines
        assert not any("_created" in line for line in lines)

    drive(tmp_path, lambda _: {**say(CALL), "usage": usage}, use, keys=KeyRing({hash_key("right"): "team"}))


def test_a_model_s_name_that_has_no_utf_8_is_counted_as_the_server_gets_it(tmp_path):
    async def use(client, _):
        for _ in range(2):
            status, _ = await ask(client, {**BODY, "model": "m\ud800"})
            assert status == 200
        assert any('model="m?"' in line for line in await read_metrics(client))

    drive(tmp_path, lambda _: say("Yes."), use)


def test_of_a_long_name_of_a_model_the_beginning_is_counted(tmp_path):
    async def use(client, _):
        status, _ = await ask(client, {**BODY, "model": "m" * 10_000})
        assert status == 200
        assert max(map(len, await read_metrics(client))) < 1_000

    drive(tmp_path, lambda _: say("Yes."), use)


def test_an_answer_has_the_id_of_its_request(tmp_path):
    async def use(client, _):
        for path in ("/v1/chat/completions", "/v1/other"):
            async with client.post(path, json=BODY, headers={"X-Request-Id": "mine-1"}) as reply:
                assert reply.headers["X-Request-Id"] == "mine-1"
            async with client.post(path, json=BODY, headers={"X-Request-Id": "not an id"}) as reply:
                assert len(reply.headers["X-Request-Id"]) == 32

    drive(tmp_path, lambda _: say("x"), use)


def test_a_call_that_cannot_be_read_counts_as_lost(tmp_path):
    async def use(client, _):
        async with client.post("/v1/chat/completions", json=BODY) as reply:
            assert "lost=1" in reply.headers["x-vllm-bot"]
        lines = await read_metrics(client)
        assert 'vllm_bot_calls_total{how="lost",model="m",origin="hermes"} 1.0' in lines

    drive(tmp_path, lambda _: say(MALFORMED), use)


ENDS_OF_A_BREAK = {"/v1/chat/completions": "", "/v1/messages": "error", "/v1/responses": "response.failed"}


@pytest.mark.parametrize("path, body", STREAMED)
def test_a_stream_that_breaks_off_ends_with_an_error_of_the_api(tmp_path, path, body):
    async def use(client, _):
        async with client.post(path, json={**body, "stream": True}) as reply:
            lines = (await reply.text()).splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        assert events[-1].get("type", "") == ENDS_OF_A_BREAK[path]
        assert events[-1].get("response", events[-1])["error"]

    drive(tmp_path, lambda _: stream("It is")[:3], use)


@pytest.mark.parametrize("owner, name", [(ChatAsker, "choose_path"), (ChatBody, "__init__")])
def test_a_mistake_of_ours_before_the_first_byte_has_the_request_relayed(tmp_path, monkeypatch, owner, name):
    monkeypatch.setattr(owner, name, break_down)

    async def use(client, fake):
        assert await ask(client, BODY) == (200, say(CALL))
        assert fake.bodies == [BODY]

    drive(tmp_path, lambda _: say(CALL), use)


def test_a_mistake_of_ours_after_it_ends_the_stream_with_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(StreamGuard, "settle", break_down)

    async def use(client, _):
        async with client.post("/v1/chat/completions", json={**BODY, "stream": True}) as reply:
            last = (await reply.text()).splitlines()[-2]
        assert "The gateway failed: ZeroDivisionError." in last

    drive(tmp_path, lambda _: stream("It is done."), use)


def break_down(*_: object, **__: object) -> None:
    raise ZeroDivisionError


def test_a_key_in_the_header_of_anthropic_s_clients_is_sent_where_vllm_looks(tmp_path):
    async def use(client, fake):
        await ask(client, BODY, **{"x-api-key": "mine"})
        assert fake.headers[0]["Authorization"] == "Bearer mine"

    drive(tmp_path, lambda _: say("x"), use)


def test_turns_of_one_conversation_go_to_one_server(tmp_path):
    replicas = [Replica(AsyncClient(f"http://127.0.0.1:{port}/v1"), ServerMemory(tmp_path)) for port in range(1, 9)]
    upstreams, start = Upstreams(replicas), [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]
    longer = [*start, {"role": "assistant", "content": "z"}, {"role": "user", "content": "more"}]
    first, second = (upstreams.rank({"model": "m", "messages": each}) for each in (start, longer))
    assert first == second


def test_the_counts_tell_how_a_call_came(tmp_path):
    async def use(client, _):
        await ask(client, BODY)
        assert 'vllm_bot_calls_total{how="text",model="m",origin="hermes"} 1.0' in await read_metrics(client)

    drive(tmp_path, lambda _: say(CALL), use)


def test_the_header_of_an_answer_says_what_was_done(tmp_path):
    async def use(client, _):
        async with client.post("/v1/chat/completions", json=BODY) as reply:
            assert reply.headers["x-vllm-bot"] == "path=native; origin=hermes"

    drive(tmp_path, lambda _: say(CALL), use)


@pytest.mark.parametrize(
    "refuses, text, extra",
    [
        (lambda body: False, "It is done.", 0),
        (lambda body: "return_token_ids" in body, "It is done.", 2),
        (lambda body: False, MALFORMED, 1),
        (lambda body: "return_token_ids" in body, MALFORMED, 3),
    ],
)
def test_extra_requests_are_counted(tmp_path, refuses, text, extra):
    refusal = (400, {"error": {"message": "unknown field return_token_ids"}})

    async def use(client, _):
        await ask(client, BODY)
        assert f'vllm_bot_extra_requests_total{{model="m"}} {extra:.1f}' in await read_metrics(client)

    drive(tmp_path, lambda body: refusal if refuses(body) else say(text), use)


def test_the_load_of_the_servers_is_among_the_counts(tmp_path):
    async def use(client, _):
        (line,) = [line for line in await read_metrics(client) if line.startswith("vllm:")]
        assert line.startswith('vllm:num_requests_running{upstream="http://127.0.0.1:')
        assert line.endswith('",engine="0",model_name="m"} 3.0')

    drive(tmp_path, lambda _: say("x"), use, dead=1)


def test_a_template_with_one_system_message_gets_later_ones_with_the_message_before_them(tmp_path):
    def answer(body):
        roles = [each["role"] for each in body["messages"]]
        return (400, SYSTEM_REFUSED) if "system" in roles[1:] else say("Yes.")

    async def use(client, fake):
        late = [{"role": "system", "content": "One."}, *BODY["messages"], {"role": "system", "content": "Two."}]
        call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        messages = [
            *late,
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": "x"},
        ]
        for _ in range(2):
            assert (await ask(client, {**BODY, "messages": messages}))[0] == 200
        assert len(fake.bodies) == 4  # refused once, and proven once
        first, second, *others = fake.bodies[-1]["messages"]
        assert first == {"role": "system", "content": "One."}
        assert second["content"].endswith("\n\n<system-reminder>\nTwo.\n</system-reminder>")
        assert [each["role"] for each in others] == ["assistant", "tool"]

    drive(tmp_path, answer, use)


def test_without_a_parser_the_grammar_of_the_model_s_format_is_sent_and_asked_for_once(tmp_path):
    def answer(body):
        return say(CALL) if body.get("tool_choice") == "none" else (400, NO_PARSER)

    async def use(client, fake):
        fake.tells_tokens = True
        for _ in range(2):
            _, answered = await ask(client, BODY)
            assert len(answered["choices"][0]["message"]["tool_calls"]) == 1
            assert "<tool_call>" in fake.bodies[-1]["structured_outputs"]["structural_tag"]
        # refused, asked what the prompt holds, proven, answered; answered
        assert (len(fake.bodies), fake.rendered) == (5, 1)

    drive(tmp_path, answer, use)


def test_what_the_server_told_before_a_request_that_it_refused_is_not_asked_again(tmp_path):
    def answer(body):
        if body.get("tool_choice") != "none":
            return 400, NO_PARSER
        return 400, {"error": {"message": "maximum context length is 10 tokens", "code": 400}}

    async def use(client, fake):
        fake.tells_tokens = True
        for _ in range(2):
            assert (await ask(client, BODY))[0] == 400
        assert fake.rendered == 1

    drive(tmp_path, answer, use)


@pytest.mark.parametrize("is_of_tools", [False, True])
def test_a_grammar_with_which_the_server_fails_again_and_again_is_doubted_with_one_of_ours(tmp_path, is_of_tools):
    def answer(body):
        if "structured_outputs" in body and not (is_of_tools and "tools" not in body):
            return 500, {"error": {"message": "Internal Server Error", "code": 500}}
        if "structured_outputs" in body:
            return say(PROBE_TEXT)
        return say(CALL) if body.get("tool_choice") == "none" else (400, NO_PARSER)

    async def use(client, fake):
        fake.tells_tokens = True
        for _ in range(2):
            await ask(client, BODY)
        told = []
        for _ in range(2):
            asked = len(fake.bodies)
            assert (await ask(client, BODY))[1]["choices"][0]["message"]["tool_calls"]
            told.append([("tools" in body, "structured_outputs" in body) for body in fake.bodies[asked:]])
        probed, retried = [(False, True)], [(True, True), (True, False)]
        if is_of_tools:
            assert told == [probed + retried, retried]
        else:
            assert (told[0][:1], told[0][-1:], told[1]) == (probed, [(True, False)], [(True, False)])

    drive(tmp_path, answer, use)


THOUGHTFUL = {
    **BODY,
    "messages": [
        *BODY["messages"],
        {"role": "assistant", "content": "<think>\nHm.\n</think>\nYes?"},
        *BODY["messages"],
    ],
}


def test_without_a_parser_thoughts_are_asked_for_as_the_template_s_path_asks_and_once(tmp_path):
    def answer(body):
        if body.get("tool_choice") != "none":
            return 400, NO_PARSER
        return {**say("Yes."), "usage": {"prompt_tokens": 9, "completion_tokens": 1}}

    async def use(client, fake):
        fake.tells_tokens = True
        await ask(client, BODY)
        asked = len(fake.bodies)
        for _ in range(2):
            assert (await ask(client, THOUGHTFUL))[0] == 200
        # with a thought, without, answered; answered
        assert [body.get("max_tokens") for body in fake.bodies[asked:]] == [1, 1, None, None]
        assert all(body["tool_choice"] == "none" for body in fake.bodies[asked:])

    drive(tmp_path, answer, use)


def test_on_the_text_path_thoughts_stay_in_the_text_and_nothing_is_asked(tmp_path):
    async def use(client, fake):
        await ask(client, BODY)
        fake.tells_tokens, counted = True, len(fake.counted)
        assert (await ask(client, THOUGHTFUL))[0] == 200
        assert len(fake.counted) == counted
        assert fake.bodies[-1]["messages"][2] == THOUGHTFUL["messages"][1]

    drive(tmp_path, lambda body: (400, NO_PARSER) if "tools" in body else say("Yes."), use)


def test_no_grammar_is_sent_where_the_settings_say_so(tmp_path):
    def answer(body):
        return say(CALL) if body.get("tool_choice") == "none" else (400, NO_PARSER)

    async def use(client, fake):
        fake.tells_tokens = True
        _, answered = await ask(client, BODY)
        assert len(answered["choices"][0]["message"]["tool_calls"]) == 1
        assert not any("structured_outputs" in body for body in fake.bodies)
        assert fake.rendered == 0  # which format the model writes concerns a grammar only

    drive(tmp_path, answer, use, options=TurnOptions(constrained="off"))


def refuse_grammars(body: Mapping[str, Any], status: int = 400) -> Any:
    """The answer of a server without a tool parser that takes no grammar."""
    if "structured_outputs" in body:
        return status, {"error": {"message": "Invalid grammar specification: no", "code": status}}
    return say(CALL) if body.get("tool_choice") == "none" else (400, NO_PARSER)


def test_a_grammar_that_is_required_and_refused_is_an_error(tmp_path):
    async def use(client, fake):
        fake.tells_tokens = True
        status, answered = await ask(client, BODY)
        assert (status, answered["error"]["message"]) == (400, "Invalid grammar specification: no")

    drive(tmp_path, refuse_grammars, use, options=TurnOptions(constrained="on"))


@pytest.mark.parametrize("status", [400, 500])
def test_a_grammar_that_the_server_refuses_is_left_out_for_good(tmp_path, status):
    async def use(client, fake):
        fake.tells_tokens = True
        for _ in range(2):
            assert (await ask(client, BODY))[0] == 200
        # without tools parsed: refused, asked what the prompt holds, proven; with a grammar: refused, proven
        assert ["structured_outputs" in body for body in fake.bodies] == [*[False] * 3, True, True, False, False]

    drive(tmp_path, lambda body: refuse_grammars(body, status), use)


def test_a_server_that_drops_the_tools_it_is_not_to_parse_is_told_of_them_in_the_text(tmp_path):
    def answer(body):
        if body.get("tool_choice") == "auto" or ("tools" in body and "tool_choice" not in body):
            return 400, NO_PARSER
        is_told = "## Available Tools" in str(body["messages"])
        return {**say(CALL if is_told else "I have no tools."), "usage": {"prompt_tokens": 1, "completion_tokens": 9}}

    async def use(client, fake):
        fake.tells_tokens = True
        for _ in range(2):
            assert (await ask(client, BODY))[1]["choices"][0]["message"]["tool_calls"]
        # refused, probed, proven, answered; answered
        assert ["tools" in body for body in fake.bodies] == [True, True, True, False, False]

    drive(tmp_path, answer, use)


@pytest.mark.parametrize("streams", [True, False])
def test_a_server_that_drops_the_tools_after_a_new_start_is_told_of_them_in_the_text(tmp_path, streams):
    flags = set()

    def answer(body):
        if body.get("tool_choice") == "auto" or ("tools" in body and "tool_choice" not in body):
            return 400, NO_PARSER
        is_told = "tools" in body and not flags
        size = (200 if is_told else 3) if len(body["messages"][0]["content"]) > 10 else 1 + is_told
        text = CALL if is_told or "## Available Tools" in str(body["messages"]) else "I have no tools."
        told = {"prompt_token_ids": [7] * size}
        if body.get("stream"):
            first, *rest = stream(text)
            return [b"data: " + json.dumps({**json.loads(first[6:]), **told}).encode() + b"\n\n", *rest]
        return {**say(text), **told, "usage": {"prompt_tokens": size, "completion_tokens": 9}}

    async def use(client, fake):
        fake.tells_tokens = True
        body = {**BODY, "stream": streams, "messages": [{"role": "user", "content": "Read it, please. " * 9}]}
        modes = []
        for started_with in ([], ["--exclude-tools-when-tool-choice-none"], []):
            flags.update(started_with)
            response = await client.post("/v1/chat/completions", json=body)
            assert '"tool_calls"' in await response.text()
            modes.append(response.headers["x-vllm-bot"].partition(";")[0])
        assert modes == ["path=template", "path=text", "path=text"]
        # refused, probed, proven, answered; too short, probed, answered; answered
        assert ["tools" in each for each in fake.bodies] == [*[True] * 6, False, False]

    drive(tmp_path, answer, use)


def test_a_short_prompt_that_holds_the_tools_is_measured_once(tmp_path):
    def answer(body):
        if "tool_choice" not in body:
            return 400, NO_PARSER
        return {**say(CALL), "prompt_token_ids": [7, 7], "usage": {"prompt_tokens": 2, "completion_tokens": 9}}

    async def use(client, fake):
        fake.tells_tokens = True
        for _ in range(2):
            assert (await ask(client, BODY))[1]["choices"][0]["message"]["tool_calls"]
        # refused, probed, proven, answered, probed, answered again; answered
        assert [each.get("max_tokens") for each in fake.bodies] == [None, 1, 1, None, 1, None, None]

    drive(tmp_path, answer, use)


def test_tokens_are_counted_for_the_prompt_that_would_be_sent(tmp_path):
    async def use(client, _):
        messages = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "Two."}]
        tools = [{"name": "read", "input_schema": {"type": "object"}}]
        body = {"model": "m", "system": "One.", "messages": messages, "tools": tools}
        async with client.post("/v1/messages/count_tokens", json=body) as reply:
            assert (await reply.json())["input_tokens"] == 3

    drive(tmp_path, lambda _: say("Yes."), use)


def find_arguments(event: dict[str, Any]) -> str:
    """The piece of arguments in an event of any of the APIs."""
    if event.get("type") == "content_block_delta":
        return str(event["delta"].get("partial_json", ""))
    if event.get("type") == "response.function_call_arguments.delta":
        return str(event["delta"])
    calls = [each for choice in event.get("choices", ()) for each in choice["delta"].get("tool_calls") or ()]
    return "".join(call["function"]["arguments"] for call in calls)


@pytest.mark.parametrize("path, body", STREAMED)
def test_the_arguments_of_a_call_in_the_text_leave_in_pieces(tmp_path, path, body):
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    arguments = {"path": 'a/"long"/path/' * 10}
    call = f'<tool_call>{{"name": "read", "arguments": {json.dumps(arguments)}}}</tool_call>'
    typed = json.loads(json.dumps(body).replace(json.dumps(FUNCTION["parameters"]), json.dumps(parameters)))

    async def use(client, _):
        async with client.post(path, json={**typed, "stream": True}) as reply:
            lines = (await reply.text()).splitlines()
        events = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
        pieces = [piece for event in events if (piece := find_arguments(event))]
        assert len(pieces) > 2
        assert json.loads("".join(pieces)) == arguments

    drive(tmp_path, lambda _: stream(call), use)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize(
    "data, headers, status",
    [
        (b"{}", {"Content-Type": "text/plain"}, 415),
        (b"[1]", {"Content-Type": "application/json"}, 400),
        (b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", {}, 400),
        (b"{}", {f"x-{number}": "a" * 4000 for number in range(5)}, 431),
    ],
)
def test_what_is_no_request_gets_an_error_of_the_api(tmp_path, path, data, headers, status):
    async def use(client, fake):
        async with client.post(path, data=data, headers=headers) as reply:
            answer = await reply.json()
            assert (reply.status, isinstance(answer["error"]["message"], str)) == (status, True)
            assert answer.get("type") == ("error" if path == "/v1/messages" else None)
        assert fake.bodies == []

    drive(tmp_path, lambda _: say("x"), use)


@pytest.mark.parametrize(("path", "body"), STREAMED)
def test_an_answer_without_a_choice_is_an_error_of_the_api(tmp_path, path, body):
    async def use(client, fake):
        async with client.post(path, json=body) as reply:
            answer = await reply.json()
            assert (reply.status, "not a chat completion" in answer["error"]["message"]) == (502, True)

    drive(tmp_path, lambda _: {**say("x"), "choices": []}, use)


def test_a_body_that_does_not_come_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(gateway, "BODY_TIMEOUT_S", 0.05)

    async def dribble():
        yield b"{"
        await asyncio.Event().wait()

    async def use(client, _):
        async with client.post("/v1/chat/completions", data=dribble()) as reply:
            assert reply.status == 408

    drive(tmp_path, lambda _: say("x"), use)


def test_a_connection_without_a_whole_head_is_closed_and_one_that_has_asked_is_kept(tmp_path):
    async def use(client, _):
        server = client.server
        app, port = server.app, server.port
        assert (await ask(client, BODY))[0] == 200
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nx: y\r\n")
        watch = asyncio.create_task(close_silent(server.runner.server, app[gateway.HAS_ASKED], 0.05))
        assert await reader.read() == b""
        assert len(server.runner.server.connections) == 1
        watch.cancel()
        writer.close()

    drive(tmp_path, lambda _: say("x"), use)


def stream_prompted(prompt: list[int], text: str) -> list[bytes]:
    """The events of `stream`; the first one tells the tokens of the prompt, if there are any."""
    events = stream(text)
    first = json.loads(events[0].removeprefix(b"data: "))
    first |= {"prompt_token_ids": prompt} if prompt else {}
    return [f"data: {json.dumps(first, separators=(',', ':'))}\n\n".encode(), *events[1:]]


@pytest.mark.parametrize(
    ("prompts", "rendered", "waits"),
    [
        ([[], []], "", [False, True]),
        ([[], []], "assistant\n<think>\n", [False, True]),
        ([[], []], "assistant\n", [False, False]),
        ([[1, 5, 6], [2, 5, 6]], "assistant\n<think>\n", [False, True]),
        ([[1, 5, 6], [2, 7, 8]], "assistant\n<think>\n", [False, False]),
        ([[1, 7, 8], [2, 7, 8]], "assistant\n", [False, False]),
    ],
    ids=[
        "a server that shows no prompt",
        "llama.cpp's template opens a thought",
        "llama.cpp's model was asked to write the end of one",
        "the template opens a thought",
        "another prompt",
        "the model was asked to write the end of one",
    ],
)
def test_calls_wait_for_the_whole_answer_where_the_template_opens_a_thought(tmp_path, prompts, rendered, waits):
    """And the model has ended one in its text before."""
    left = list(prompts)

    async def use(client, fake):
        fake.written = fake.template_text = rendered
        for is_waiting in waits:
            assert await waits_with_calls(client) is is_waiting
        assert left == []

    drive(tmp_path, lambda sent: draft_call(sent, left), use)


def test_where_no_prompt_is_shown_three_answers_without_a_thought_take_it_back(tmp_path):
    kinds = ["draft", *["plain"] * 3, "draft", *["plain"] * 2, "draft", "plain", "draft"]
    left = list(kinds)

    def answer(sent):
        is_plain = sent.get("stream") and left.pop(0) == "plain"
        return stream("Done.") if is_plain else draft_call(sent, [[]])

    async def use(client, _):
        waits = [await waits_with_calls(client) for _ in kinds]
        assert [each for each, kind in zip(waits, kinds, strict=True) if kind == "draft"] == [False, False, True, True]

    drive(tmp_path, answer, use)


def test_a_client_that_opens_thoughts_itself_does_not_decide_about_the_answers_to_others(tmp_path):
    own = [[0, number, 5] for number in range(100, 120)]
    left = [*own, [1, 5, 6], [2, 5, 6]]

    async def use(client, fake):
        fake.written = "assistant\n<think>\n"
        for _ in own:
            await waits_with_calls(client, continue_final_message=True, add_generation_prompt=False)
        assert [await waits_with_calls(client) for _ in range(2)] == [False, True]

    drive(tmp_path, lambda sent: draft_call(sent, left), use)


def test_one_answer_with_three_choices_takes_no_belief_back(tmp_path):
    plain = [{"index": place, "delta": {"content": "Done."}, "finish_reason": "stop"} for place in range(3)]
    left = ["draft", "plain", "draft"]

    def answer(sent):
        is_plain = sent.get("stream") and left.pop(0) == "plain"
        return encode_events(*plain) if is_plain else draft_call(sent, [[]])

    async def use(client, _):
        waits = [await waits_with_calls(client, **fields) for fields in ({}, {"n": 3}, {})]
        assert waits[-1]

    drive(tmp_path, answer, use)


def draft_call(sent: Mapping[str, Any], prompts: list[list[int]]) -> list[bytes] | dict[str, Any]:
    """An answer that drafts a call in a thought which its prompt began, if it is streamed; else one without."""
    call = {"name": "read", "arguments": {"path": "a/long/path/" * 10}}
    draft = f"Maybe this:\n<tool_call>{json.dumps(call)}</tool_call>\nThat is right.\n</think>\n\nIt is done."
    return stream_prompted(prompts.pop(0), draft) if sent.get("stream") else say("It is done.")


async def waits_with_calls(client: TestClient[Any, Any], **fields: object) -> bool:
    """Whether the call that `draft_call` drafts does not leave."""
    parameters = {"type": "object", "properties": {"path": {"type": "string"}}}
    typed = json.loads(json.dumps(BODY).replace(json.dumps(FUNCTION["parameters"]), json.dumps(parameters)))
    async with client.post("/v1/chat/completions", json={**typed, "stream": True, **fields}) as reply:
        return "tool_calls" not in await reply.text()


def encode_events(*choices: dict[str, Any], done: bool = True, end: str = "\n\n") -> list[bytes]:
    """The events of a stream, with a choice in each."""
    chunks = [json.dumps({"id": "1", "model": "m", "choices": [{"index": 0, **choice}]}) for choice in choices]
    return [f"data: {chunk}{end}".encode() for chunk in [*chunks, *(["[DONE]"] if done else [])]]


async def collect_calls(client: TestClient[Any, Any]) -> tuple[list[str], list[str], bool]:
    """Of a streamed answer: the arguments of its calls, its finish reasons, and whether it ends as it should."""
    calls: dict[int, str] = {}
    async with client.post("/v1/chat/completions", json={**BODY, "stream": True}) as reply:
        events = [line[6:] for line in (await reply.text()).splitlines() if line.startswith("data: ")]
    choices = [choice for event in events[:-1] for choice in json.loads(event)["choices"]]
    for call in (call for choice in choices for call in choice["delta"].get("tool_calls") or ()):
        calls[call["index"]] = calls.get(call["index"], "") + call["function"]["arguments"]
    reasons = [choice["finish_reason"] for choice in choices if choice["finish_reason"]]
    return list(calls.values()), reasons, events[-1] == "[DONE]"


NATIVE = {"index": 0, "id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path":"a.txt"}'}}
SAID = {"delta": {"content": CALL}, "finish_reason": None}
ENDED = {"delta": {}, "finish_reason": "stop"}
ODD_STREAMS: dict[str, Any] = {
    "a whole answer": say(CALL),
    "a whole answer as the only event": encode_events(say(CALL)["choices"][0]),
    "an empty finish reason in each chunk": encode_events(
        {**SAID, "finish_reason": ""}, {"delta": {}, "finish_reason": ""}, ENDED
    ),
    "two finish reasons": encode_events(SAID, ENDED, {"delta": {"content": ""}, "finish_reason": "stop"}),
    "no finish reason": encode_events(SAID),
    "no blank lines": encode_events(SAID, ENDED, end="\n"),
    "no end of the last event": [*encode_events(SAID, done=False), encode_events(ENDED, done=False)[0].rstrip()],
    "one call in place of a list": [
        event.replace(b'"tool_calls": ', b'"tool_calls":')
        for event in encode_events({"delta": {"tool_calls": NATIVE}}, {"delta": {}, "finish_reason": "tool_calls"})
    ],
}


@pytest.mark.parametrize("answer", ODD_STREAMS.values(), ids=ODD_STREAMS)
def test_a_stream_of_another_form_reaches_the_client_in_the_usual_one(tmp_path, answer):
    async def use(client, _):
        calls, reasons, is_ended = await collect_calls(client)
        assert ([json.loads(call) for call in calls], reasons, is_ended) == ([{"path": "a.txt"}], ["tool_calls"], True)

    drive(tmp_path, lambda _: answer, use)


@pytest.mark.parametrize("again", [say(CALL), {**say(""), "choices": [{"message": {"tool_calls": [NATIVE]}}]}])
def test_an_answer_in_which_nothing_came_is_asked_for_once_more(tmp_path, again):
    usage = {"prompt_tokens": 9, "completion_tokens": 30}
    answers = [encode_events(ENDED)[:1], again]
    answers[0].append(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n")
    again["choices"][0]["finish_reason"] = "stop"

    async def use(client, fake):
        calls, _, is_ended = await collect_calls(client)
        assert ([json.loads(call) for call in calls], is_ended) == ([{"path": "a.txt"}], True)
        assert [body["stream"] for body in fake.bodies] == [True, False]

    drive(tmp_path, lambda _: answers.pop(0), use)


def test_an_answer_in_which_nothing_comes_again_leaves_as_it_came(tmp_path):
    def answer(body):
        empty = {**say(""), "usage": {"prompt_tokens": 9, "completion_tokens": 30}}
        return empty if not body["stream"] else encode_events({"delta": {}, "finish_reason": "tool_calls"})

    async def use(client, fake):
        assert await collect_calls(client) == ([], ["tool_calls"], True)
        assert len(fake.bodies) == 2

    drive(tmp_path, answer, use)
