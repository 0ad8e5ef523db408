"""What a streamed chunk costs us, how late it is, and what one huge event and a huge stream do to memory.

    python -m tests.benchmarks.stream [--rounds N] [--program FOLDER] [--peers FOLDER]

The first rows are the shipped program: `-p` with its journal and redaction, beside a loop that reads and parses the
same answer. What a chunk costs is what a long answer takes more than a short one. "Paced" chunks come 2 ms apart, so that each is read alone.
The other rows are the way from the socket to the event, as the loop sees it. A server in a process of its own sends
one HTTP chunk an event, as vLLM does. Costs are CPU of the client alone, the least of interleaved rounds. FOLDER/openai
is a virtual environment that holds the openai package: without --peers that row is left out.
"""

from __future__ import annotations

import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import requests

from src.transport import Client
from src.types.events import TextDelta
from src.types.messages import UserMessage
from tests.benchmarks.measure import Row, ask_program, make_options, print_table, require_byte_code
from tests.benchmarks.serving import CHAT, serving
from tests.doubles import make_model

SHORT, ANSWER = 500, 5_500  # chunks of the program's answers
SHORT_PACED, ANSWER_PACED, PACED_ANSWER = 100, 1_100, ",pace=0.002"
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


def ours(base_url: str) -> Iterator[str]:
    """The text of each event, all the way."""
    with Client(base_url) as client:
        for event in make_model(client, "tiny", is_vllm=False).respond([UserMessage("go")]):
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


def read_answer(base_url: str) -> Iterator[str]:
    """The floor of `-p`: one request for the same answer, each event parsed and its text looked up."""
    request = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "go"}],
        "stream": True,
        "return_token_ids": True,
    }
    with requests.Session() as session, session.post(f"{base_url}/{CHAT}", json=request, stream=True) as answer:
        rest = bytearray()
        while piece := answer.raw.read1(65536, decode_content=True):
            rest += piece
            *events, last = rest.split(b"\n\n")
            rest = bytearray(last)
            for event in events:
                if event != b"data: [DONE]" and (choices := json.loads(event[6:])["choices"]):
                    yield choices[0]["delta"].get("content") or ""


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


def program_rows(rounds: int, program: Path) -> Iterator[Row]:
    """A chunk of `-p`: what an answer takes more than a short one, by the chunks it has more."""
    with serving() as server, tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for what, short, long, pace, bar in (
            ("a chunk of -p, prose / read and json.loads", SHORT, ANSWER, "", 4.0),
            ("a chunk of -p, code / read and json.loads", SHORT, ANSWER, ",of=code", 4.0),
            ("a paced chunk of -p, prose / read and json.loads", SHORT_PACED, ANSWER_PACED, PACED_ANSWER, None),
        ):
            costs: dict[str, list[float]] = {"ours": [], "bare": []}
            for _ in range(rounds):
                url, long_url = (f"{server}/say,chunks={count}{pace}" for count in (short, long))
                least, most = (ask_program(program, each, home, home).cpu_s for each in (url, long_url))
                costs["ours"].append((most - least) / (long - short) * 1e6)
                least, most = (cpu_seconds(read_answer, each) for each in (url, long_url))
                costs["bare"].append((most - least) / (long - short) * 1e6)
            yield Row(what, min(costs["ours"]), "us", min(costs["bare"]), bar)


def chunk_rows(server: str, rounds: int, peers: Path | None) -> Iterator[Row]:
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
    yield Row("an event / raw.read1 loop", least["ours"], "us", least["requests"], 1.7)
    yield Row("an event / http.client loop", least["ours"], "us", least["http.client"])
    if peers:
        yield Row("an event / openai", least["ours"], "us", least["openai"], 0.2)


def lag_rows(server: str, rounds: int) -> Iterator[Row]:
    """In turns, as the load of the machine changes. Where the bare loop's p99 is over the goal, it is too busy to tell."""
    for framing in ("chunked", "close"):
        base_url = f"{server}/{PACED}/{PACE}/5/{framing}"
        pairs = [(lags(ours, base_url), lags(with_http_client, base_url)) for _ in range(rounds)]
        mine, floor = (list(chain.from_iterable(each)) for each in zip(*pairs, strict=True))
        yield Row(f"lag, {framing}: median", statistics.median(mine), "ms", statistics.median(floor), 1.5)
        late, floor_late = (statistics.quantiles(each, n=100)[98] for each in (mine, floor))
        yield Row(f"lag, {framing}: p99 (bare: {floor_late:.2f})", late, "ms", bar=LATEST)


def size_rows(server: str) -> Iterator[Row]:
    huge = f"{server}/1/0/{HUGE}/chunked"
    yield Row("one 20 MB event", min(cpu_seconds(ours, huge) for _ in range(3)) * 1000, "ms", bar=100)
    yield Row("one 20 MB event: memory / size", peak_memory(ours, huge) / 1e6, "MB", HUGE / 1e6, 3)
    # Without text: what was said stays, of course.
    tenth, whole = (peak_memory(ours, f"{server}/{size // BARE}/0/0/chunked") / 1e6 for size in (LONG // 10, LONG))
    yield Row("100 MB stream: memory / of 10 MB", whole, "MB", tenth, 1.1)


def main() -> int:
    options = make_options(__doc__)
    options.add_argument("--peers", type=Path, metavar="FOLDER")
    options.add_argument("--only-program", action="store_true", help="only the rows of the shipped program")
    given = options.parse_args()
    require_byte_code()
    rows = program_rows(given.rounds, given.program)
    if given.only_program:
        return print_table(rows)
    with serving(SERVER) as server:
        others = (chunk_rows(server, given.rounds, given.peers), lag_rows(server, given.rounds), size_rows(server))
        return print_table(chain(rows, *others))


if __name__ == "__main__":
    sys.exit(main())
