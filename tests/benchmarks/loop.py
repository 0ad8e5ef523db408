"""What a turn of the loop costs: our Agent and Model against a bare requests loop, and peers that are installed.

    python tests/benchmarks/loop.py [--peers FOLDER] [--rounds N]

A server in a process of its own asks for `add(a, b)`, or what else is offered first, so many times, then stops.
Costs are CPU seconds of the client alone, a turn, the least of several rounds; ours and the bare loop take turns.
Peers run in FOLDER/NAME, a virtual environment each, on the same server without streaming, after one run that is not
counted; of one that fails, its last words are shown. Exits with 1 where a goal is missed, or a peer costs less.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from src.agent.loop import AgentLoop  # noqa: E402 - run as a script, from anywhere
from src.model import Model  # noqa: E402
from src.security.permissions.approval import APPROVE_ALL  # noqa: E402
from src.security.permissions.policy import Policy  # noqa: E402
from src.tools import Registry, ToolContext  # noqa: E402
from src.transport import Client  # noqa: E402
from src.types.messages import UserMessage  # noqa: E402
from tests.benchmarks.peers import PEERS, TIMED  # noqa: E402
from tests.benchmarks.serving import serving  # noqa: E402

TURNS = (10, 50, 100)
GOAL, GROWTH = 1.5, 1.2  # times the bare loop; a turn of 100 against one of 10
PATIENCE = 120  # seconds for one peer's runs

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
        model = Model(client, "tiny", is_vllm=False)
        agent = AgentLoop(model, registry, ToolContext(workspace=ROOT), APPROVE_ALL, Policy(ROOT), max_tool_turns=1000)
        for _ in agent.run([UserMessage("go")]):
            pass


def bare(base_url: str) -> None:
    """What nobody can do without: one session, one request a turn, the answer read and parsed."""
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


def peer(python: Path, script: Path, base_url: str, turns: int) -> float | str:
    """CPU ms a turn, or what went wrong."""
    try:
        done = subprocess.run([python, script, base_url], capture_output=True, text=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return float(done.stdout.splitlines()[-1]) / turns * 1000


def peers(folder: Path, server: str) -> Iterator[tuple[str, list[float | str]]]:
    """Each that is there, with what it costs at each number of turns."""
    with tempfile.TemporaryDirectory() as name:
        script = Path(name, "peer.py")  # a file, for some read the source of what they are given
        for each, run in PEERS.items():
            python = folder / each / "bin" / "python"
            if not python.exists():
                print(f"{each:20} is not in {folder}")
                continue
            script.write_text(run + TIMED)
            yield each, [peer(python, script, f"{server}/{turns}/v1", turns) for turns in TURNS]


def show(name: str, costs: list[float], base: list[float]) -> None:
    figures = " ".join(f"{cost:8.3f}" for cost in costs)
    print(f"{name:20} {figures}  x{costs[1] / base[1]:6.2f}  growth {costs[-1] / costs[0]:5.2f}", flush=True)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--peers", type=Path, metavar="FOLDER")
    options.add_argument("--rounds", type=int, default=7, metavar="N")
    given = options.parse_args()
    print(f"{'CPU ms a turn':20} " + " ".join(f"{f'N={turns}':>8}" for turns in TURNS))
    with serving(SERVER) as server:
        rows: dict[str, list[float]] = {"bare": [], "ours": []}
        for turns in TURNS:
            rounds = [
                [milliseconds(run, f"{server}/{turns}/v1", turns) for run in (bare, ours)] for _ in range(given.rounds)
            ]
            for name, all_rounds in zip(rows, zip(*rounds, strict=True), strict=True):
                rows[name].append(min(all_rounds))
        for name, costs in rows.items():
            show(name, costs, rows["bare"])
        cheaper = []
        for name, found in peers(given.peers, server) if given.peers else ():
            costs = [cost for cost in found if isinstance(cost, float)]
            if len(costs) < len(found):
                wrong = next(cost for cost in found if isinstance(cost, str))
                print(f"{name:20} does not run: {wrong}", flush=True)
                continue
            show(name, costs, rows["bare"])
            if min(cost / ours for cost, ours in zip(costs, rows["ours"], strict=True)) <= 1:
                cheaper.append(name)
    mine, base = rows["ours"], rows["bare"]
    missed = mine[1] > GOAL * base[1] or mine[-1] > GROWTH * mine[0] or bool(cheaper)
    print(f"goals: x <= {GOAL}, growth <= {GROWTH}, below every peer{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
