"""What a streamed chunk costs us, how late it is, and what one huge event and a huge stream do to memory.

    python tests/benchmarks/stream.py [--peers FOLDER] [--rounds N]

A server in a process of its own sends chunks as vLLM does, one HTTP chunk each; ours is the whole way
(HTTP, SSE, JSON, scanner, event), as the loop sees it. Costs are CPU seconds of the client alone, the
least of several interleaved rounds; goals are ratios within this one run. FOLDER/openai is a virtual
environment that holds the openai package: without --peers that row is left out. Exits with 1 where a
goal is missed.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import requests

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from src.model import Model  # noqa: E402
from src.transport import Client  # noqa: E402 - run as a script, from anywhere
from src.types.events import TextDelta  # noqa: E402
from src.types.messages import UserMessage  # noqa: E402
from tests.benchmarks.serving import serving  # noqa: E402

EVENTS = 20_000
PACED, PACE = 200, 0.005  # events, seconds between them
LATEST = 1.0  # ms for the latest of a hundred chunks
HUGE = 20_000_000  # bytes of one event
LONG = 100_000_000  # bytes of a stream
BARE = 200  # bytes of an event without text

# argv: port is printed; each GET or POST of /EVENTS/PACE/SIZE/FRAMING streams so many events.
SERVER = r"""
import json, socket, threading, time

def event(text, finish=None):
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": finish, "token_ids": None}
    chunk = {"id": "chatcmpl-b76877260288296b", "object": "chat.completion.chunk", "created": 1795243173,
             "model": "tiny", "choices": [choice]}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"

def said(at, size):
    # Another each time: what repeats itself without end would be stopped.
    if size > 20:
        return "".join(f"{each:08d}" for each in range(size // 8))
    return " " * (size > 0) + "".join(chr(97 + at // 26**place % 26) for place in range(size - 1))

def serve(connection):
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    incoming = connection.makefile("rb")
    while line := incoming.readline():
        length = 0
        while (field := incoming.readline()) != b"\r\n":
            if field.lower().startswith(b"content-length:"):
                length = int(field.split(b":")[1])
        incoming.read(length)
        _, count, pace, size, framing, *_ = line.split()[1].decode().split("/")
        count, pace, size, chunked = int(count), float(pace), int(size), framing == "chunked"
        how = "Transfer-Encoding: chunked" if chunked else "Connection: close"
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{how}\r\n\r\n".encode())
        frame = (lambda data: b"%x\r\n%s\r\n" % (len(data), data)) if chunked else (lambda data: data)
        if pace:
            for _ in range(count):
                time.sleep(pace)
                connection.sendall(frame(event(f" {time.monotonic_ns()}")))  # a word, as a token is
        else:
            batch = max(1, min(100, 1_000_000 // max(1, size)))
            for start in range(0, count // batch * batch, batch):
                connection.sendall(b"".join(frame(event(said(at, size))) for at in range(start, start + batch)))
        connection.sendall(frame(event("", "stop") + b"data: [DONE]\n\n") + (b"0\r\n\r\n" if chunked else b""))
        if not chunked:
            break
    connection.close()

listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

OPENAI = """
import sys, time
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none", max_retries=0)
best = None
for _ in range(2):
    start, read = time.process_time(), 0
    for chunk in client.chat.completions.create(model="tiny", stream=True, messages=[{"role": "user", "content": "go"}]):
        read += len(chunk.choices[0].delta.content or "")
    took = time.process_time() - start
    best = min(best or took, took)
print(best)
"""


class Row(NamedTuple):
    name: str
    unit: str
    ours: float
    theirs: float
    goal: str
    kept: bool


def ours(base_url: str) -> Iterator[str]:
    """The text of each event, all the way."""
    with Client(base_url) as client:
        for event in Model(client, "tiny", is_vllm=False).respond([UserMessage("go")]):
            if isinstance(event, TextDelta):
                yield event.text


def texts(read1: Callable[[int], bytes]) -> Iterator[str]:
    """The least that an event takes: split, parse, look up."""
    rest = bytearray()
    while chunk := read1(65536):
        rest += chunk
        *events, last = rest.split(b"\n\n")
        rest = bytearray(last)
        for event in events:
            if event != b"data: [DONE]":
                yield json.loads(event[6:])["choices"][0]["delta"]["content"]


def with_requests(base_url: str) -> Iterator[str]:
    """The bare loop that ours is measured against."""
    with requests.Session() as session, session.post(f"{base_url}/chat", data=b"{}", stream=True) as answer:
        yield from texts(lambda size: answer.raw.read1(size, decode_content=True))


def with_http_client(base_url: str) -> Iterator[str]:
    host, _, path = base_url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host)
    connection.request("POST", f"/{path}/chat", b"{}")
    yield from texts(connection.getresponse().read1)
    connection.close()


def cpu_seconds(read: Callable[[str], Iterator[str]], base_url: str) -> float:
    start, length = time.process_time(), 0
    for text in read(base_url):
        length += len(text)
    assert length, "nothing was read"
    return time.process_time() - start


def lags(read: Callable[[str], Iterator[str]], base_url: str) -> list[float]:
    """Milliseconds from the server's send to the event; what says no time is the end."""
    return [(time.monotonic_ns() - int(text)) / 1e6 for text in read(base_url) if text]


def peak_memory(read: Callable[[str], Iterator[str]], base_url: str) -> int:
    """Bytes, above what was there before."""
    tracemalloc.start()
    try:
        for _ in read(base_url):
            pass
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def chunk_costs(server: str, rounds: int, peers: Path | None) -> Iterator[Row]:
    base_url = f"{server}/{EVENTS}/0/5/chunked"
    seconds: dict[str, list[float]] = {"ours": [], "requests": [], "http.client": [], "openai": []}
    for _ in range(rounds):
        seconds["ours"].append(cpu_seconds(ours, base_url))
        seconds["requests"].append(cpu_seconds(with_requests, base_url))
        seconds["http.client"].append(cpu_seconds(with_http_client, base_url))
        if peers:
            python = str(peers / "openai" / "bin" / "python")
            command = [python, "-c", OPENAI, base_url]
            seconds["openai"].append(float(subprocess.run(command, capture_output=True, check=True).stdout))
    least = {name: min(all_rounds) / EVENTS * 1e6 for name, all_rounds in seconds.items() if all_rounds}
    mine = least.pop("ours")
    yield Row("chunk / raw.read1 loop", "us", mine, least["requests"], "<= 1.7", mine <= 1.7 * least["requests"])
    yield Row("chunk / http.client loop", "us", mine, least["http.client"], "", True)
    if peers:
        yield Row("chunk / openai", "us", mine, least["openai"], "<= 0.2", mine <= least["openai"] / 5)


def lag_rows(server: str, rounds: int) -> Iterator[Row]:
    """In turns, as the load of the machine changes. Where the bare loop's p99 is over the goal, it is too busy to tell."""
    for framing in ("chunked", "close"):
        base_url = f"{server}/{PACED}/{PACE}/5/{framing}"
        pairs = [(lags(ours, base_url), lags(with_http_client, base_url)) for _ in range(rounds)]
        mine, floor = (list(chain.from_iterable(each)) for each in zip(*pairs, strict=True))
        median, theirs = statistics.median(mine), statistics.median(floor)
        late, theirs_late = (statistics.quantiles(each, n=100)[98] for each in (mine, floor))
        yield Row(f"lag, {framing}: median", "ms", median, theirs, "<= 1.5", median <= 1.5 * theirs)
        yield Row(f"lag, {framing}: p99", "ms", late, theirs_late, f"<= {LATEST:g} ms", late <= LATEST)


def size_rows(server: str) -> Iterator[Row]:
    huge = f"{server}/1/0/{HUGE}/chunked"
    took = min(cpu_seconds(ours, huge) for _ in range(3)) * 1000
    yield Row("one 20 MB event / 100 ms", "ms", took, 100, "<= 1", took <= 100)
    held = peak_memory(ours, huge) / 1e6
    yield Row("one 20 MB event: memory / size", "MB", held, HUGE / 1e6, "<= 3", held <= 3 * HUGE / 1e6)
    # Without text: what was said stays, of course.
    tenth, whole = (peak_memory(ours, f"{server}/{size // BARE}/0/0/chunked") / 1e6 for size in (LONG // 10, LONG))
    yield Row("100 MB stream: memory / of 10 MB", "MB", whole, tenth, "<= 1.1", whole <= 1.1 * tenth)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--peers", type=Path, metavar="FOLDER")
    options.add_argument("--rounds", type=int, default=5, metavar="N")
    given = options.parse_args()
    print(f"{'what':34} {'ours':>9} {'theirs':>9}    {'ratio':>6}  goal")
    missed = False
    with serving(SERVER) as server:
        for rows in (chunk_costs(server, given.rounds, given.peers), lag_rows(server, given.rounds), size_rows(server)):
            for row in rows:
                missed |= not row.kept
                mark = "" if row.kept else "  MISSED"
                figures = f"{row.ours:9.2f} {row.theirs:9.2f} {row.unit} {row.ours / row.theirs:6.2f}"
                print(f"{row.name:34} {figures}  {row.goal}{mark}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
