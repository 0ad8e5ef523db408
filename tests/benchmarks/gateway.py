"""CPU time of the gateway for a streamed chunk, alone and with --record, beside a bare aiohttp relay.

All are processes of their own.

    python -m tests.benchmarks.gateway [--rounds N] [--streams N]

A fake server streams answers of 400 chunks as vLLM 0.32 writes them, a chunk a write. A round asks for some streams at once
through one of the three, and takes the CPU time that its process used, from /proc.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
from aiohttp import web

ROOT = Path(__file__).resolve().parents[2]
CHUNKS = 400
PAUSE_S = 0.01  # between two chunks, so that each is read and written by itself, as those of a real model are
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
WORDS = [
    "The",
    " answer",
    " is",
    " written",
    " word",
    " by",
    " word",
    ",",
    " so",
    " that",
    " each",
    " is",
    " a",
    " chunk",
    ".",
]
TOOL = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}
BODY = {"model": "tiny", "stream": True, "tools": [TOOL], "messages": [{"role": "user", "content": "Tell me."}]}


def make_chunk(delta: dict, finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    choice |= {} if "role" in delta else {"token_ids": [1234]}  # the first chunk comes before any token
    chunk = {"id": "chatcmpl-0123456789", "object": "chat.completion.chunk", "created": 1795318377, "model": "tiny"}
    return b"data: " + json.dumps({**chunk, "choices": [choice], **more}, separators=(",", ":")).encode() + b"\n\n"


EVENTS = [
    make_chunk({"role": "assistant", "content": ""}, prompt_token_ids=[1, 2630, 201]),
    *(make_chunk({"content": WORDS[number % len(WORDS)]}) for number in range(CHUNKS)),
    make_chunk({}, "stop", system_fingerprint="vllm-0.32.0"),
    b"data: [DONE]\n\n",
]


async def answer(request: web.Request) -> web.StreamResponse:
    await request.read()
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for event in EVENTS:
        await response.write(event)
        await asyncio.sleep(PAUSE_S)
    await response.write_eof()
    return response


def make_server() -> web.Application:
    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_get("/v1/models", lambda _: _json({"data": [{"id": "tiny", "max_model_len": 32768}]}))
    app.router.add_get("/version", lambda _: _json({"version": "0.32.0"}))
    app.router.add_get("/health", lambda _: _json({}))
    return app


async def _json(value: object) -> web.Response:
    return web.json_response(value)


def make_relay(upstream: str) -> web.Application:
    """What relays every byte and knows nothing."""

    async def relay(request: web.Request) -> web.StreamResponse:
        body = await request.read()
        async with request.app["session"].request(request.method, upstream + request.path, data=body) as reply:
            response = web.StreamResponse(status=reply.status, headers={"Content-Type": reply.content_type})
            await response.prepare(request)
            async for chunk in reply.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    async def open_session(app: web.Application):
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as app["session"]:
            yield

    app = web.Application()
    app.cleanup_ctx.append(open_session)
    app.router.add_route("*", "/{path:.*}", relay)
    return app


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def count_lines(record: Path) -> int:
    return record.read_bytes().count(b"\n") if record.exists() else 0


async def ask(address: str, streams: int) -> None:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def read() -> None:
            async with session.post(f"{address}/v1/chat/completions", json=BODY) as reply:
                text = (await reply.read()).decode()
                assert text.count('"content"') == CHUNKS + 1 and text.endswith("[DONE]\n\n"), text[:500]

        await asyncio.gather(*(read() for _ in range(streams)))


@contextlib.contextmanager
def start(*command: str) -> Iterator[tuple[str, int]]:
    """A process that listens on the port in place of PORT; yields its address and its id."""
    from src.transport.http import find_free_port

    port = find_free_port()
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "HOME": home}
        words = [word.replace("PORT", str(port)) for word in command]
        process = subprocess.Popen([sys.executable, *words], cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}"
            asyncio.run(_wait(address))
            yield address, process.pid
        finally:
            process.terminate()
            process.wait()


async def _wait(address: str) -> None:
    async with aiohttp.ClientSession() as session:
        for _ in range(200):
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"{address}/health"):
                    return
            await asyncio.sleep(0.1)
    raise TimeoutError(address)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--streams", type=int, default=16)
    options = parser.parse_args()
    module = "tests.benchmarks.gateway"
    with contextlib.ExitStack() as stack:
        server, _ = stack.enter_context(start("-m", module, "--run", "server", "PORT"))
        relay = stack.enter_context(start("-m", module, "--run", "relay", "PORT", server))
        own = stack.enter_context(start("cli.py", "serve", "--upstream", server, "--listen", "127.0.0.1:PORT"))
        record = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "record.jsonl"
        words = ("cli.py", "serve", "--upstream", server, "--listen", "127.0.0.1:PORT", "--record", str(record))
        recording = stack.enter_context(start(*words))
        costs: dict[str, list[float]] = {"relay": [], "gateway": [], "record": []}
        for number in range(options.rounds + 1):
            for name, (address, pid) in (("relay", relay), ("gateway", own), ("record", recording)):
                before = cpu_seconds(pid)
                asyncio.run(ask(address, options.streams))
                while name == "record" and count_lines(record) < (number + 1) * options.streams:
                    time.sleep(0.1)
                if number:  # the first round warms up
                    costs[name].append((cpu_seconds(pid) - before) / (options.streams * CHUNKS) * 1e6)
        lines = count_lines(record)
    floor, cost, kept = (statistics.median(costs[name]) for name in ("relay", "gateway", "record"))
    print(f"CPU a chunk: bare relay {floor:.0f} us, gateway {cost:.0f} us: {cost / floor:.2f} x")
    print(f"with --record {kept:.0f} us: {kept / floor:.2f} x; {lines} calls were recorded")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        made = make_server() if sys.argv[2] == "server" else make_relay(sys.argv[4])
        web.run_app(made, host="127.0.0.1", port=int(sys.argv[3]), print=None, access_log=None)
    else:
        started = time.monotonic()
        main()
        print(f"{time.monotonic() - started:.0f} s")
