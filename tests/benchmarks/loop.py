"""What a turn of the loop costs: our Agent and Model against a bare requests loop, and peers that are installed.

    python tests/benchmarks/loop.py [--peers FOLDER] [--rounds N]

A server in a process of its own asks for `add(a, b)` so many times, then stops. Costs are CPU seconds of
the client alone, a turn, the least of several interleaved rounds. Peers run in FOLDER/NAME, a virtual
environment each, on the same server without streaming; one that is not there, or fails, is left out.
Exits with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import requests

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from src.agent import Agent  # noqa: E402 - run as a script, from anywhere
from src.client import Client  # noqa: E402
from src.messages import UserMessage  # noqa: E402
from src.model import Model  # noqa: E402
from src.security.approval import APPROVE_ALL  # noqa: E402
from src.security.policy import Policy  # noqa: E402
from src.tools import Registry, ToolContext  # noqa: E402
from tests.benchmarks.serving import serving  # noqa: E402

TURNS = (10, 50, 100)
GOAL, GROWTH = 1.5, 1.2  # times the bare loop; a turn of 100 against one of 10

SERVER = r"""
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        turns = sum(message["role"] == "tool" for message in request["messages"])
        done = turns >= int(self.path.split("/")[1])
        call = {"id": "call12345", "type": "function", "index": 0,
                "function": {"name": "add", "arguments": json.dumps({"a": turns, "b": 2})}}
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

# Each runs the whole conversation at sys.argv[1], once to warm up and then timed, and prints CPU seconds.
TIMED = "import time\nrun()\nstart = time.process_time()\nrun()\nprint(time.process_time() - start)\n"
PEERS = {
    "openai": """
import json, sys
from openai import OpenAI
client = OpenAI(base_url=sys.argv[1], api_key="none")
function = {"name": "add", "description": "Add.", "parameters": {"type": "object", "properties": {
    "a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}
def run():
    messages = [{"role": "user", "content": "go"}]
    while True:
        answer = client.chat.completions.create(
            model="tiny", messages=messages, tools=[{"type": "function", "function": function}])
        message = answer.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            return
        for call in message.tool_calls:
            arguments = json.loads(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": str(sum(arguments.values()))})
""",
    "pydantic-ai-slim": """
import sys
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits
model = OpenAIChatModel("tiny", provider=OpenAIProvider(base_url=sys.argv[1], api_key="none"))
agent = Agent(model)
@agent.tool_plain
def add(a: int, b: int) -> int:
    return a + b
def run():
    agent.run_sync("go", usage_limits=UsageLimits(request_limit=None))
""",
    "openai-agents": """
import sys
from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
set_tracing_disabled(True)
@function_tool
def add(a: int, b: int) -> int:
    return a + b
model = OpenAIChatCompletionsModel("tiny", AsyncOpenAI(base_url=sys.argv[1], api_key="none"))
agent = Agent(name="a", model=model, tools=[add])
def run():
    Runner.run_sync(agent, "go", max_turns=1000)
""",
    "smolagents": """
import sys
from smolagents import OpenAIServerModel, ToolCallingAgent, tool
@tool
def add(a: int, b: int) -> int:
    \"\"\"Add.

    Args:
        a: one
        b: other
    \"\"\"
    return a + b
model = OpenAIServerModel("tiny", api_base=sys.argv[1], api_key="none")
turns = int(sys.argv[1].split("/")[3])
def run():
    agent = ToolCallingAgent(tools=[add], model=model, max_steps=turns, verbosity_level=0)
    agent.run("go")
""",
}


def ours(base_url: str) -> None:
    registry = Registry()

    @registry.tool(risk="low")
    def add(a: int, b: int) -> str:
        """Add."""
        return str(a + b)

    with Client(base_url) as client:
        model = Model(client, "tiny", is_vllm=False)
        agent = Agent(model, registry, ToolContext(workspace=ROOT), APPROVE_ALL, Policy(ROOT), max_tool_turns=1000)
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


def peer(python: Path, script: str, base_url: str, turns: int) -> float | None:
    done = subprocess.run([python, "-c", script + TIMED, base_url], capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1]) / turns * 1000 if done.returncode == 0 else None


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
        for name, script in PEERS.items() if given.peers else ():
            python = given.peers / name / "bin" / "python"
            costs = [peer(python, script, f"{server}/{turns}/v1", turns) for turns in TURNS]
            if None not in costs:
                show(name, [cost for cost in costs if cost is not None], rows["bare"])
            else:
                print(f"{name:20} does not run")
    mine, base = rows["ours"], rows["bare"]
    missed = mine[1] > GOAL * base[1] or mine[-1] > GROWTH * mine[0]
    print(f"goals: x <= {GOAL}, growth <= {GROWTH}{': MISSED' if missed else ''}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
