"""What the request log tells of a request."""

from __future__ import annotations

import asyncio
import json
from base64 import b64encode

import pytest
from aiohttp.test_utils import TestClient, TestServer

from src.app.keys import KeyRing, hash_key
from src.app.state_files import ServerMemory
from src.serve.gateway import Gateway
from src.serve.pages.metrics import Metrics
from src.serve.record.log_file import LogFile
from src.serve.record.recorder import Recorder
from src.serve.request_log import RequestLog
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from tests.serve.test_gateway import BODY, CALL, STREAMED, FakeServer, ask, say, stream

SECRET = "what nobody else may read"
WORDS = {**BODY, "messages": [{"role": "user", "content": SECRET}]}


def drive(tmp_path, answer, use):
    """Run `use` with a client whose key has a name. Returns the entries of the log, and its text."""
    file = tmp_path / "requests.jsonl"

    async def run():
        fake = FakeServer(answer)
        async with TestServer(fake.make_app()) as server:
            address = str(server.make_url("/v1"))
            upstreams = Upstreams([Replica(AsyncClient(address), ServerMemory(tmp_path))])
            keys = KeyRing({hash_key("right"): "team a"})
            own = Gateway(upstreams, Metrics(tmp_path), keys, request_log=RequestLog(str(file)))
            headers = {"Authorization": "Bearer right"}
            async with TestClient(TestServer(own.make_app()), headers=headers) as client:
                await use(client)

    asyncio.run(run())
    text = file.read_text()
    return [json.loads(line) for line in text.splitlines()], text


def test_a_guarded_request_has_what_was_done_and_nothing_that_was_said(tmp_path):
    usage = {
        "prompt_tokens": 7,
        "completion_tokens": 2,
        "total_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 4},
    }

    async def use(client):
        await ask(client, WORDS, **{"X-Request-Id": "mine"})

    (entry,), text = drive(tmp_path, lambda _: {**say(f"{SECRET} {CALL}"), "usage": usage}, use)
    assert SECRET not in text
    assert "a.txt" not in text
    assert entry.pop("time")
    assert entry.pop("seconds") >= entry.pop("first_byte_s") >= 0
    assert entry.pop("server").startswith("http://127.0.0.1:")
    assert entry == {
        "id": "mine",
        "key": "team a",
        "api": "chat/completions",
        "model": "m",
        "stream": False,
        "path": "native",
        "status": 200,
        "calls": [{"name": "read", "how": "text", "origin": "hermes"}],
        "tokens": {"prompt": 7, "cached": 4, "completion": 2},
    }


def test_each_request_has_one_line_with_its_path_and_status(tmp_path):
    async def use(client):
        for path, body in STREAMED:
            async with client.post(path, json={**body, "stream": True}) as reply:
                await reply.read()
        await ask(client, {**WORDS, "tools": []})
        await ask(client, WORDS, Authorization="Bearer wrong")
        async with client.post("/v1/chat/completions", data=b"{") as reply:
            await reply.read()
        async with client.get("/livez") as reply, client.get("/metrics") as metrics:
            assert (reply.status, metrics.status) == (200, 200)

    entries, text = drive(tmp_path, lambda body: stream("x") if body.get("stream") else say("x"), use)
    assert [(entry["api"], entry["path"], entry["status"], entry["key"]) for entry in entries] == [
        ("chat/completions", "native", 200, "team a"),
        ("messages", "native", 200, "team a"),
        ("responses", "native", 200, "team a"),
        ("chat/completions", "relayed", 200, "team a"),
        ("chat/completions", "refused", 401, ""),
        ("chat/completions", "refused", 400, "team a"),
    ]
    assert "Bearer" not in text


def test_a_stream_that_breaks_off_tells_why(tmp_path):
    async def use(client):
        async with client.post("/v1/chat/completions", json={**BODY, "stream": True}) as reply:
            await reply.read()

    refusal = b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
    (entry,), _ = drive(tmp_path, lambda _: [stream("x" * 9)[0], refusal], use)
    assert (entry["status"], entry["error"]) == (200, "ServerError")


def test_a_log_that_can_no_longer_be_written_is_told_once_and_fails_no_request(tmp_path, caplog):
    file = tmp_path / "requests.jsonl"
    requests = RequestLog(str(file))
    file.unlink()
    file.mkdir()
    requests.write({"id": "1"})
    requests.write({"id": "2"})
    assert [record.getMessage() for record in caplog.records] == [
        f"The request log cannot be written: {file}: Is a directory."
    ]
    file.rmdir()
    requests.write({"id": "3"})
    assert file.read_text() == '{"id":"3"}\n'


def test_a_login_in_the_address_of_a_server_is_shown_nowhere(tmp_path, caplog):
    """Neither of a server that answers, nor of one that cannot be reached."""
    record = tmp_path / "record.jsonl"
    fake = FakeServer(lambda _: say("Yes."))

    async def run() -> None:
        async with TestServer(fake.make_app()) as server:
            address = str(server.make_url("/v1")).replace("://", "://me:hunter%2F22@")
            upstreams = Upstreams([Replica(AsyncClient(address), ServerMemory(tmp_path))])
            recorder = Recorder(LogFile(record, 10**9, 3))
            log = RequestLog(str(tmp_path / "log"))
            own = Gateway(upstreams, Metrics(tmp_path), None, request_log=log, recorder=recorder)
            async with TestClient(TestServer(own.make_app())) as client:
                await ask(client, WORDS)
                await ask(client, {**WORDS, "tools": []})
                async with client.get("/metrics") as reply:
                    assert 'vllm_bot_upstream_requests_total{upstream="http://127.0.0.1:' in (
                        text := await reply.text()
                    )
                    assert "hunter" not in text
                async with client.get("/vllm-bot/events") as reply:
                    assert b"hunter" not in await reply.content.readline()
                await server.close()
                await ask(client, WORDS)

    asyncio.run(run())
    assert (tmp_path / "log").read_text().count('"server":"http://127.0.0.1:') == 3
    assert record.read_text().count("\n") == 3
    assert "No server at http://127.0.0.1:" in caplog.text
    written = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert b"hunter" not in b"".join([*written, caplog.text.encode()])


@pytest.mark.parametrize("more", [{}, {"tools": []}], ids=["guarded", "relayed"])
@pytest.mark.parametrize(("written", "login"), [("me:hunter%2F22", b"me:hunter/22"), ("me", b"me:")])
def test_a_login_in_the_address_of_a_server_is_sent_to_it(tmp_path, more, written, login):
    fake = FakeServer(lambda _: say("Yes."))

    async def run() -> None:
        async with TestServer(fake.make_app()) as server:
            address = str(server.make_url("/v1")).replace("://", f"://{written}@")
            replica = Replica(AsyncClient(address, "sk-of-all-servers"), ServerMemory(tmp_path))
            own = Gateway(Upstreams([replica]), Metrics(tmp_path), None)
            async with TestClient(TestServer(own.make_app())) as client:
                await ask(client, {**WORDS, **more}, Authorization="Bearer own")

    asyncio.run(run())
    assert fake.headers[-1]["Authorization"] == f"Basic {b64encode(login).decode()}"
