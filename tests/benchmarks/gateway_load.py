"""The gateway under load: first token, many streams, slow and vanished clients, servers that die, SIGTERM.

    python -m tests.benchmarks.gateway_load [ROW ...] [--streams N]

Rows: first, streams, slow, gone, kill, term, others. The gateway is the shipped program, in front of a fake server; where a
figure is relative, a bare aiohttp relay carries the same load in the same run. `--streams`: instead of half of what the
relay carries.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import resource
import signal
import socket
import statistics
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from .gateway import TOOL, make_chunk, make_relay, start

MODULE = "tests.benchmarks.gateway_load"
WORKERS = 2
PAUSE_S = 0.2  # between the chunks of a stream: five a second
STREAM_CHUNKS = 60
MAX_GAP_S = 2 * PAUSE_S  # at the 99th percentile; above it, the relay does not carry the streams
BIG_BYTES = 20 * 1024 * 1024
LARGE_BYTES = 26_000_000


async def answer(request: web.Request) -> web.StreamResponse:
    """As the body's `load` says: a refusal, or seconds of waiting, chunks, seconds between them, characters of each."""
    load = (await request.json())["load"]
    if load.get("refuse"):
        return web.json_response({"error": {"message": "Not this conversation.", "code": 400}}, status=400)
    counts = request.app["counts"]
    counts["running"] += 1
    try:
        await asyncio.sleep(load.get("wait", 0))
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chunk = make_chunk({"content": " word" * (load.get("chars", 5) // 5)})
        for _ in range(load["chunks"]):
            await response.write(chunk)
            if pause := load.get("pause", 0):
                await asyncio.sleep(pause)
        await response.write(make_chunk({}, "stop") + b"data: [DONE]\n\n")
        return response
    finally:
        counts["running"] -= 1


def make_server() -> web.Application:
    async def tell(request: web.Request) -> web.Response:
        known: dict[str, Any] = {
            "/version": {"version": "0.32.0"},
            "/v1/models": {"data": [{"id": "tiny", "max_model_len": 32768}]},
        }
        return web.json_response(known.get(request.path, app["counts"]))

    app = web.Application(client_max_size=2 * BIG_BYTES)
    app["counts"] = {"running": 0}
    app.router.add_post("/v1/chat/completions", answer)
    app.router.add_get("/{path:.*}", tell)
    return app


def make_body(**load: float) -> bytes:
    message = {"role": "user", "content": f"Tell me {time.monotonic_ns()}."}
    return json.dumps({"model": "tiny", "stream": True, "tools": [TOOL], "messages": [message], "load": load}).encode()


class Stream(asyncio.Protocol):
    """One request: when its bytes came. `on_end` is told whether all of it came."""

    def __init__(self, body: bytes) -> None:
        self.times: list[float] = []
        self.error = ""
        self.ended = asyncio.get_running_loop().create_future()
        self._body = body
        self._tail = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(self._body)}\r\n"
        transport.write(f"{head}Content-Type: application/json\r\nConnection: close\r\n\r\n".encode() + self._body)

    def data_received(self, data: bytes) -> None:
        if not self._tail and not data.startswith(b"HTTP/1.1 200"):
            self.error = data[:200].decode(errors="replace")
        if b"data:" in data:
            self.times.append(time.monotonic())
        self._tail = (self._tail + data)[-40:]

    def connection_lost(self, _: Exception | None) -> None:
        if b"[DONE]" not in self._tail and not self.error:
            self.error = f"cut after {len(self.times)} chunks"
        if not self.ended.done():
            self.ended.set_result(None)


async def open_stream(address: str, **load: float) -> Stream:
    where = urlsplit(address)
    _, stream = await asyncio.get_running_loop().create_connection(
        lambda: Stream(make_body(**load)), where.hostname, where.port
    )
    return stream


def find_processes(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in find_processes(int(child)))]


def read_rss_kb(pid: int) -> int:
    total = 0
    for each in find_processes(pid):
        with contextlib.suppress(OSError):
            lines = Path(f"/proc/{each}/status").read_text().splitlines()
            total += next((int(line.split()[1]) for line in lines if line.startswith("VmRSS")), 0)
    return total


class Carried(NamedTuple):
    errors: list[str]
    gap_s: float  # at the 99th percentile
    kb: float  # of memory a stream


async def carry(address: str, pid: int, count: int) -> Carried:
    """`count` streams at once, begun over one pause so that their chunks are spread."""
    await (await open_stream(address, chunks=2)).ended
    before, streams = read_rss_kb(pid), []
    for number in range(count):
        streams.append(await open_stream(address, chunks=STREAM_CHUNKS, pause=PAUSE_S))
        if number % 20 == 19:
            await asyncio.sleep(20 * PAUSE_S * 5 / max(count, 100))
    await asyncio.sleep(STREAM_CHUNKS * PAUSE_S / 2)
    during = read_rss_kb(pid)
    await asyncio.wait_for(asyncio.gather(*(each.ended for each in streams)), 300)
    gaps = sorted(after - this for each in streams for this, after in pairwise(each.times))
    errors = [each.error for each in streams if each.error]
    return Carried(errors, gaps[int(len(gaps) * 0.99)] if gaps else 0, (during - before) / count)


def measure_streams(servers: Servers, count: int) -> None:
    relay, own = servers.start_relay(), servers.start_gateway("--workers", str(WORKERS))
    if not count:
        count, carried = 250, asyncio.run(carry(*relay, 250))
        while carried.gap_s <= MAX_GAP_S and not carried.errors and count < 8000:
            print(f"  relay carries {count}: p99 gap {carried.gap_s * 1000:.0f} ms")
            count, carried = count * 2, asyncio.run(carry(*relay, count * 2))
        count //= 4  # half of the last number that it carried
    for name, process in (("relay", relay), ("gateway", own)):
        carried = asyncio.run(carry(*process, count))
        errors = f"{len(carried.errors)} errors {carried.errors[:1] or ''}"
        print(f"{count} streams, {name}: {errors}, p99 gap {carried.gap_s * 1000:.0f} ms, {carried.kb:.0f} KB a stream")


def measure_first(servers: Servers, _: int) -> None:
    relay, own = servers.start_relay(), servers.start_gateway()
    times: dict[str, list[float]] = {"relay": [], "gateway": []}

    async def ask(address: str) -> float:
        stream = await open_stream(address, chunks=2, pause=0.01)
        began = time.monotonic()
        await stream.ended
        return stream.times[0] - began

    for number in range(420):
        for name, (address, _) in (("relay", relay), ("gateway", own)):
            taken = asyncio.run(ask(address))
            if number >= 20:
                times[name].append(taken * 1000)
    for part, at in (("p50", 0.5), ("p99", 0.99)):
        floor, cost = (sorted(each)[int(len(each) * at)] for each in times.values())
        print(f"first token, {part}: relay {floor:.1f} ms, gateway {cost:.1f} ms, added {cost - floor:.1f} ms")
    print(f"  median of 400 requests each: {statistics.median(times['gateway']):.1f} ms")


def measure_slow(servers: Servers, _: int) -> None:
    """A client that reads one kilobyte a second of twenty megabytes."""
    address, pid = servers.start_gateway()

    async def warm() -> None:
        await (await open_stream(address, chunks=200, chars=1000)).ended

    asyncio.run(warm())
    before, most = read_rss_kb(pid), 0
    where = urlsplit(address)
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect((where.hostname, where.port))
        body = make_body(chunks=BIG_BYTES // 1000, chars=1000)
        client.sendall(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        )
        client.sendall(body)
        for _ in range(20):
            client.recv(1024)
            time.sleep(1)
            most = max(most, read_rss_kb(pid))
    print(f"a client that reads 1 KB/s of 20 MB, after 20 s: RSS + {(most - before) / 1024:.1f} MB")


async def read_running(server: str) -> int:
    async with aiohttp.ClientSession() as session, session.get(f"{server}/running") as reply:
        return int((await reply.json())["running"])


def measure_gone(servers: Servers, _: int) -> None:
    async def leave(address: str, server: str) -> float:
        streams = [await open_stream(address, chunks=1000, pause=0.05) for _ in range(20)]
        while await read_running(server) < len(streams) or not all(each.times for each in streams):
            await asyncio.sleep(0.02)
        began = time.monotonic()
        for each in streams:
            each.transport.abort()
        while await read_running(server):
            await asyncio.sleep(0.005)
        return time.monotonic() - began

    address, _ = servers.start_gateway()
    print(f"20 clients gone: no stream at the server after {asyncio.run(leave(address, servers.first)) * 1000:.0f} ms")


def measure_kill(servers: Servers, _: int) -> None:
    """Of 200 streams at two servers, half have a byte when one server is killed."""
    second, second_pid = servers.start_server()
    address, _ = servers.start_gateway("--upstream", second)

    async def run() -> None:
        begun = [await open_stream(address, chunks=60, pause=0.1) for _ in range(100)]
        waiting = [await open_stream(address, chunks=10, pause=0.1, wait=4) for _ in range(100)]
        while not all(each.times for each in begun):
            await asyncio.sleep(0.05)
        os.kill(second_pid, signal.SIGKILL)
        await asyncio.gather(*(each.ended for each in [*begun, *waiting]))
        cut, failed = (sum(bool(each.error) for each in part) for part in (begun, waiting))
        print(
            f"one of two servers killed: {failed} of 100 streams without a byte failed, {cut} of 100 with one were cut"
        )
        print(f"  as: {next((each.error[-100:] for each in begun if each.error), '')!r}")

    asyncio.run(run())


def measure_term(servers: Servers, _: int) -> None:
    address, pid = servers.start_gateway("--workers", str(WORKERS))

    async def run() -> None:
        streams = [await open_stream(address, chunks=30, pause=0.2) for _ in range(50)]
        while not all(each.times for each in streams):
            await asyncio.sleep(0.05)
        os.kill(pid, signal.SIGTERM)
        await asyncio.sleep(1)
        refused = False
        try:
            await open_stream(address, chunks=1)
        except OSError:
            refused = True
        await asyncio.gather(*(each.ended for each in streams))
        cut = sum(bool(each.error) for each in streams)
        print(f"SIGTERM: {cut} of 50 running streams cut; a new connection is {'refused' if refused else 'TAKEN'}")

    asyncio.run(run())


def make_large_body(count: int, **load: float) -> bytes:
    """LARGE_BYTES in so many messages, without the first one."""
    text = f"{Path(__file__).read_text()}\n" * (LARGE_BYTES // count // len(Path(__file__).read_text()) + 1)
    said = [{"role": ("assistant", "user")[at % 2], "content": text[: LARGE_BYTES // count]} for at in range(count)]
    messages = [{"role": "user", "content": "Tell me."}, *said, {"role": "user", "content": "Go on."}]
    return json.dumps({"model": "tiny", "stream": True, "tools": [TOOL], "messages": messages, "load": load}).encode()


def read_cpu_s(pid: int) -> float:
    """Of all threads of a process."""
    files = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[0]) for each in files) / 1e9


def measure_others(servers: Servers, _: int) -> None:
    """How long others wait for an answer that takes nothing, while one client's large request is read and sent on."""
    address, pid = servers.start_gateway()
    where = urlsplit(address)
    waits: list[tuple[float, float]] = []

    def send(body: bytes) -> None:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        with socket.create_connection((where.hostname, where.port)) as client:
            client.sendall(head.encode() + body)
            while client.recv(65536):
                pass

    def wait(work: threading.Thread) -> None:
        other = http.client.HTTPConnection(where.netloc)
        while work.is_alive():
            cpu, began = read_cpu_s(pid), time.monotonic()
            other.request("GET", "/livez")
            other.getresponse().read()
            waits.append((time.monotonic() - began, read_cpu_s(pid) - cpu))
            time.sleep(0.005)

    for count, load in ((1, {"chunks": 3}), (60_000, {"chunks": 3}), (1, {"refuse": 1}), (60_000, {"refuse": 1})):
        waits.clear()
        for _ in range(3):
            work = threading.Thread(target=send, args=(make_large_body(count, **load),))
            work.start()
            wait(work)
        longest, cpu = map(max, zip(*waits, strict=True))
        name = "refused" if "refuse" in load else "answered"
        print(f"{LARGE_BYTES // 10**6} MB in {count} messages, {name}: others wait {longest:.2f} s, of CPU {cpu:.3f} s")


class Servers(contextlib.ExitStack):
    """The processes of one row, which end with it. `first`: the fake server's address."""

    first = ""

    def start_server(self) -> tuple[str, int]:
        return self.enter_context(start("-m", MODULE, "--run", "server", "PORT"))

    def start_relay(self) -> tuple[str, int]:
        return self.enter_context(start("-m", MODULE, "--run", "relay", "PORT", self.first))

    def start_gateway(self, *options: str) -> tuple[str, int]:
        words = ("cli.py", "serve", "--upstream", self.first, "--listen", "127.0.0.1:PORT", *options)
        return self.enter_context(start(*words))


ROWS = {
    "first": measure_first,
    "streams": measure_streams,
    "slow": measure_slow,
    "gone": measure_gone,
    "kill": measure_kill,
    "term": measure_term,
    "others": measure_others,
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("rows", nargs="*", default=list(ROWS))
    parser.add_argument("--streams", type=int, default=0)
    options = parser.parse_args()
    for row in options.rows:
        with Servers() as servers:
            servers.first, _ = servers.start_server()
            ROWS[row](servers, options.streams)


def serve(kind: str, port: str, *upstream: str) -> None:
    """A fake server, or a relay of two workers."""
    app = make_server() if kind == "server" else make_relay(*upstream)
    other = os.fork() if kind == "relay" else 0
    try:
        web.run_app(
            app,
            host="127.0.0.1",
            port=int(port),
            print=None,
            access_log=None,
            reuse_port=True,
            handler_cancellation=True,
        )
    finally:
        if other:
            os.kill(other, signal.SIGTERM)


def raise_limit() -> None:
    """As many open files as allowed: a stream has two."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    raise_limit()
    if sys.argv[1:2] == ["--run"]:
        serve(*sys.argv[2:])
    else:
        main()
