"""What a turn of the loop costs, beside clients that send the same bytes, and beside other packages.

    python -m tests.benchmarks.loop [--rounds N] [--program FOLDER] [--peers FOLDER]

The first rows are the shipped program: `-p` makes 200 calls of `read`, each of 3.5 KB, with its journal, redaction and
checks. The server notes the program's CPU time at each request; a turn's cost is the median of ten turns around it.
The bare client sends the same requests (but for the tokens' ids, which it does not ask for), reads the same files and
parses the answers; it encodes each body anew, as any client must. Then 64 agents of the library run in threads, beside 64 bare loops in threads.

With --peers the loop without a journal is measured beside the packages of peers.py, each in FOLDER/NAME, a virtual
environment, on a server that does not stream; of one that fails, its last words are shown.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import requests

from src.agent.loop import AgentLoop
from src.security.permissions.approval import APPROVE_ALL
from src.security.permissions.policy import Policy
from src.tools import Registry, ToolContext
from src.transport import Client
from src.types.messages import UserMessage
from tests.benchmarks.measure import ROOT, Row, ask_program, make_options, print_table, require_byte_code, run
from tests.benchmarks.peers import PEERS, TIMED
from tests.benchmarks.serving import fetch, list_turn_costs, serving
from tests.doubles import make_model

TURNS = (10, 50, 100)
GOAL, GROWTH = 1.5, 1.2  # times the bare loop; a turn of 100 against one of 10
PATIENCE = 120  # seconds for one peer's runs

READS, READ_CHARS = 200, 3_500
TEXT_READS = 158  # 545 KB of results were given after 156
AROUND = 5  # turns before and after the one that is measured
AGENTS, AGENT_TURNS, ASYNC_CHUNKS = 64, 5, 100
ASYNC_PACE = 0.01  # seconds between two chunks: each comes on its own, as a model writes it

# argv: the address, the file of the requests to send, the workspace.
BARE = r"""
import gc, json, os, sys
import requests

url, bodies, workspace = sys.argv[1].replace("$$", str(os.getpid())), json.load(open(sys.argv[2])), sys.argv[3]
gc.freeze()
with requests.Session() as session:
    for number, body in enumerate(bodies):
        body.pop("return_token_ids", None)  # a bare client has no use for them
        rest = bytearray()
        with session.post(f"{url}/v1/chat/completions", json=body, stream=True) as answer:
            while piece := answer.raw.read1(65536, decode_content=True):
                rest += piece
                *events, last = rest.split(b"\n\n")
                rest = bytearray(last)
                for event in events:
                    if event != b"data: [DONE]" and (choices := json.loads(event[6:])["choices"]):
                        choices[0]["delta"].get("content")
        if number < len(bodies) - 1:
            open(os.path.join(workspace, f"f{number:04}.txt")).read()
"""

# argv: the address, how many agents, how many calls each. Prints the CPU seconds of all of them.
AGENTS_OURS = """
import sys, threading, time
from src import Agent, tool

@tool(risk="low")
def add(a: int, b: int) -> str:
    "Add."
    return str(a + b)

def work():
    with Agent.connect(sys.argv[1] + "/v1", tools=[add]) as agent:
        assert agent.answer("go").text == "All is done."

work()  # once unmeasured: modules are loaded
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
start = time.process_time()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(time.process_time() - start)
"""
# argv: the address, how many models, how many turns each. Prints the CPU seconds of all of them.
ASYNC_OURS = """
import asyncio, sys, time
from src import AsyncServer, Completed
from src.types.messages import UserMessage

async def work(server, turns):
    model = await server.model("tiny")
    for _ in range(turns):
        texts = [event.response.text async for event in model.respond([UserMessage("go")]) if isinstance(event, Completed)]
        assert texts[0]

async def main():
    async with AsyncServer(sys.argv[1] + "/v1", provider="openai") as server:
        await work(server, 1)  # once unmeasured: modules are loaded
        start = time.process_time()
        await asyncio.gather(*(work(server, int(sys.argv[3])) for _ in range(int(sys.argv[2]))))
        print(time.process_time() - start)

asyncio.run(main())
"""
ASYNC_BARE = r"""
import asyncio, json, sys, time
import aiohttp

async def work(session, turns):
    for _ in range(turns):
        body = {"model": "tiny", "messages": [{"role": "user", "content": "go"}], "stream": True}
        text, rest = "", b""
        async with session.post(sys.argv[1] + "/v1/chat/completions", json=body) as answer:
            async for piece in answer.content.iter_any():
                *events, rest = (rest + piece).split(b"\n\n")
                for event in events:
                    if event != b"data: [DONE]" and (choices := json.loads(event[6:])["choices"]):
                        text += choices[0]["delta"].get("content") or ""
        assert text

async def main():
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await work(session, 1)
        start = time.process_time()
        await asyncio.gather(*(work(session, int(sys.argv[3])) for _ in range(int(sys.argv[2]))))
        print(time.process_time() - start)

asyncio.run(main())
"""
AGENTS_BARE = r"""
import json, sys, threading, time
import requests

parameters = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
              "required": ["a", "b"]}
tools = [{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": parameters}}]

def work():
    messages = [{"role": "user", "content": "go"}]
    with requests.Session() as session:
        while True:
            body = {"model": "tiny", "messages": messages, "tools": tools, "stream": True}
            text, call, arguments, rest = "", {}, "", bytearray()
            with session.post(sys.argv[1] + "/v1/chat/completions", json=body, stream=True) as answer:
                while piece := answer.raw.read1(65536, decode_content=True):
                    rest += piece
                    *events, last = rest.split(b"\n\n")
                    rest = bytearray(last)
                    for event in events:
                        if event == b"data: [DONE]" or not (choices := json.loads(event[6:])["choices"]):
                            continue
                        delta = choices[0]["delta"]
                        text += delta.get("content") or ""
                        for each in delta.get("tool_calls") or ():
                            call = call or each
                            arguments += each["function"]["arguments"]
            if not call:
                assert text == "All is done."
                return
            total = sum(json.loads(arguments).values())
            function = {"name": "add", "arguments": arguments}
            messages.append({"role": "assistant", "tool_calls": [{**call, "function": function}]})
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(total)})

work()
threads = [threading.Thread(target=work) for _ in range(int(sys.argv[2]))]
start = time.process_time()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(time.process_time() - start)
"""

SERVER = r"""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turns = sum(message["role"] in ("tool", "function") for message in request["messages"])
        done = turns >= int(self.path.split("/")[1]) or not request.get("tools")
        name = "" if done else request["tools"][0]["function"]["name"]
        arguments = {"command": f"echo {turns}"} if name == "bash" else {"a": turns, "b": 2}
        call = {"id": f"call{len(request['messages']):05}", "type": "function", "index": 0,
                "function": {"name": name, "arguments": json.dumps(arguments)}}
        message = {"role": "assistant", "content": "Done." if done else None}
        if not done:
            message["tool_calls"] = [call]
        finish = "stop" if done else "tool_calls"
        head = {"id": "chatcmpl-1", "created": 1, "model": "tiny"}
        usage = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        if request.get("stream"):
            chunks = [{"choices": [{"index": 0, "delta": message, "finish_reason": None}]},
                      {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
                      {"choices": [], "usage": usage}]
            events = [json.dumps({**head, "object": "chat.completion.chunk", **chunk}) for chunk in chunks]
            body, kind = "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]), "text/event-stream"
        else:
            choice = {"index": 0, "message": message, "finish_reason": finish}
            body = json.dumps({**head, "object": "chat.completion", "choices": [choice], "usage": usage})
            kind = "application/json"
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"""


def ours(base_url: str) -> None:
    registry = Registry()

    @registry.tool(risk="low")
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    with Client(base_url) as client:
        model = make_model(client, "tiny", is_vllm=False)
        agent = AgentLoop(
            model.core, registry, ToolContext(workspace=ROOT), APPROVE_ALL, Policy(ROOT), max_tool_turns=1000
        )
        for _ in model.drive(agent.run([UserMessage("go")])):
            pass


def bare(base_url: str) -> None:
    """The least that a loop costs: one session, one request a turn, the answer read and parsed."""
    properties = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    parameters = {"type": "object", "properties": properties, "required": ["a", "b"]}
    tools = [{"type": "function", "function": {"name": "add", "description": "Add.", "parameters": parameters}}]
    messages: list[dict] = [{"role": "user", "content": "go"}]
    with requests.Session() as session:
        while True:
            request = {"model": "tiny", "messages": messages, "tools": tools}
            answer = session.post(f"{base_url}/chat/completions", json=request)
            message = answer.json()["choices"][0]["message"]
            messages.append(message)
            if not message.get("tool_calls"):
                return
            for call in message["tool_calls"]:
                total = sum(json.loads(call["function"]["arguments"]).values())
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": str(total)})


def milliseconds(run: Callable[[str], None], base_url: str, turns: int) -> float:
    start = time.process_time()
    run(base_url)
    return (time.process_time() - start) / turns * 1000


def measure_peer(python: Path, script: Path, base_url: str, turns: int) -> float | str:
    """CPU ms a turn, or what went wrong."""
    try:
        done = subprocess.run([python, script, base_url], capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return float(done.stdout.splitlines()[-1]) / turns * 1000


def measure_peers(folder: Path, server: str) -> Iterator[tuple[str, list[float | str]]]:
    """Each that is there, with what it costs at each number of turns."""
    with tempfile.TemporaryDirectory() as name:
        script = Path(name, "peer.py")  # a file, for some read the source of what they are given
        for each, run in PEERS.items():
            python = folder / each / "bin" / "python"
            if not python.exists():
                print(f"{each:20} is not in {folder}")
                continue
            script.write_text(run + TIMED)
            yield each, [measure_peer(python, script, f"{server}/{turns}/v1", turns) for turns in TURNS]


def make_files(folder: Path, count: int) -> Path:
    """A workspace of files of source code, 3.5 KB each, no two alike."""
    code = Path(statistics.__file__).read_text()
    folder.mkdir()
    for number in range(count):
        start = number * 211 % (len(code) - READ_CHARS)
        (folder / f"f{number:04}.txt").write_text(code[start : start + READ_CHARS])
    return folder


def median_around(costs: list[float], turn: int) -> float:
    return statistics.median(costs[max(turn - AROUND, 1) : turn + AROUND])


def measure_turns(
    server: str, scenario: str, program: Path, workspace: Path, home: Path, *options: str
) -> tuple[list[float], list[float]]:
    """CPU ms of each turn: ours, and the bare client's."""
    url = f"{server}/{scenario}"
    (home / "config.json").write_text(json.dumps({"agent": {"max_tool_turns": 1000}}))
    process_url = f"{url},pid=$$"
    ask_program(program, process_url, workspace, home, "--config", str(home / "config.json"), *options)
    pid = (home / "pid.txt").read_text().strip()
    ours_url = f"{url},pid={pid}"
    (home / "bodies.json").write_text(json.dumps(fetch(f"{ours_url}/bodies")))
    command = ["sh", "-c", 'echo $$ > "$0"; exec "$@"', str(home / "pid.txt"), sys.executable, "-c", BARE]
    used = run([*command, f"{url},by=bare,pid=$$", str(home / "bodies.json"), str(workspace)], workspace, home)
    assert used.code == 0, (home / "output.txt").read_text()
    bare_url = f"{url},by=bare,pid={(home / 'pid.txt').read_text().strip()}"
    return list_turn_costs(ours_url), list_turn_costs(bare_url)


def turn_rows(rounds: int, program: Path) -> Iterator[Row]:
    with serving() as server, tempfile.TemporaryDirectory() as name:
        home = Path(name)
        workspace = make_files(home / "workspace", READS)
        for what, scenario, options, places in (
            ("native", f"read,turns={READS - 4}", (), (10, 110, READS - 10)),
            ("text path", f"read,turns={TEXT_READS},text=1", ("--no-function-calling",), (10, 110, TEXT_READS - 3)),
        ):
            least: dict[tuple[str, int], list[float]] = {}
            for number in range(rounds):
                pair = measure_turns(server, f"{scenario},round={number}", program, workspace, home, *options)
                for who, costs in zip(("ours", "bare"), pair, strict=True):
                    for place in places:
                        least.setdefault((who, place), []).append(median_around(costs, place))
            for place in places:
                given = f"{place * READ_CHARS // 1000} KB of results"
                row = f"a turn with a read, {what}, after {place} turns, {given}"
                yield Row(row, min(least["ours", place]), "ms", min(least["bare", place]), 3.0)


def agents_row(rounds: int, program: Path) -> Iterator[Row]:
    costs = measure_together(rounds, program, (AGENTS_OURS, AGENTS_BARE), f"add,turns={AGENT_TURNS}")
    what = f"an agent of {AGENTS} in threads, {AGENT_TURNS} calls each / bare loops in threads"
    yield Row(what, costs[AGENTS_OURS], "ms", costs[AGENTS_BARE], 1.5)
    costs = measure_together(rounds, program, (ASYNC_OURS, ASYNC_BARE), f"say,chunks={ASYNC_CHUNKS},pace={ASYNC_PACE}")
    what = f"a model of {AGENTS} on asyncio, {AGENT_TURNS} turns of {ASYNC_CHUNKS} chunks each / bare aiohttp"
    yield Row(what, costs[ASYNC_OURS], "ms", costs[ASYNC_BARE], 1.3)


def measure_together(rounds: int, program: Path, scripts: Sequence[str], kind: str) -> dict[str, float]:
    """The least CPU time of one of AGENTS in each script, in ms."""
    costs: dict[str, list[float]] = {script: [] for script in scripts}
    with serving() as server, tempfile.TemporaryDirectory() as name:
        home = Path(name)
        for _ in range(rounds):
            for script, each in costs.items():
                command = [sys.executable, "-c", script, f"{server}/{kind}", str(AGENTS), str(AGENT_TURNS)]
                used = run(command, program, home)
                assert used.code == 0, (home / "output.txt").read_text()
                each.append(float((home / "output.txt").read_text().split()[-1]) * 1000 / AGENTS)
    return {script: min(each) for script, each in costs.items()}


def loop_rows(rounds: int, server: str) -> Iterator[Row]:
    """The loop alone, without a journal: a turn of 10, 50 and 100."""
    for turns in TURNS:
        pairs = [[milliseconds(each, f"{server}/{turns}/v1", turns) for each in (ours, bare)] for _ in range(rounds)]
        mine, floor = (min(each) for each in zip(*pairs, strict=True))
        yield Row(f"a turn of {turns} of the loop alone", mine, "ms", floor, GOAL)


def peer_rows(server: str, folder: Path) -> Iterator[Row]:
    """Each package; ours must cost less than it at every length."""
    for name, found in measure_peers(folder, server):
        costs = [cost for cost in found if isinstance(cost, float)]
        if len(costs) < len(found):
            print(f"{name} does not run: {next(cost for cost in found if isinstance(cost, str))}", flush=True)
            continue
        for turns, cost in zip(TURNS, costs, strict=True):
            mine = min(milliseconds(ours, f"{server}/{turns}/v1", turns) for _ in range(3))
            yield Row(f"a turn of {turns} of the loop alone / {name}", mine, "ms", cost, 1.0)


def main() -> int:
    options = make_options(__doc__, rounds=3)
    options.add_argument("--peers", type=Path, metavar="FOLDER")
    given = options.parse_args()
    require_byte_code()
    with serving(SERVER) as server:
        rows = [turn_rows(given.rounds, given.program), agents_row(given.rounds, given.program)]
        rows.append(loop_rows(given.rounds, server))
        if given.peers:
            rows.append(peer_rows(server, given.peers))
        return print_table(chain(*rows))


if __name__ == "__main__":
    sys.exit(main())
