"""How often guards interfere: in sessions that are healthy, and in real loops of one to four rounds.

    python -m tests.benchmarks.interventions SERVER_URL --clients PYTHON [--sessions 300] [--seed 29]

SERVER_URL is a vLLM of the rig with the parser hermes, without /v1. PYTHON has the SDKs of OpenAI and Anthropic. Their
sessions go through a gateway with every guard on, which is started here; those of the library go to the server. An
intervention is a count of a guard, a request besides the client's own, a note in a result, or an answer that came
otherwise than the model said it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from src import Agent, tool
from src.config.settings import GUARDS
from src.transport.http import find_free_port
from tests.benchmarks.measure import ROOT
from tests.benchmarks.sessions import Session, Step, make_healthy, make_loops, write_question
from tests.live.rig import does_answer, end_process

COUNTS = ("vllm_bot_guards_total", "vllm_bot_extra_requests_total")
NOTE = "the same calls gave the same results"


@contextmanager
def running_gateway(server: str, guards: Sequence[str] = GUARDS) -> Iterator[str]:
    """The address of a gateway with these guards on."""
    with tempfile.TemporaryDirectory() as folder:
        port = find_free_port()
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"serve": {"guards": list(guards)}}))
        command = [sys.executable, str(ROOT / "cli.py"), "serve", "--upstream", server]
        command += ["--config", str(config), "--listen", f"127.0.0.1:{port}"]
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            while not does_answer(f"http://127.0.0.1:{port}/metrics"):
                time.sleep(0.2)
            yield f"http://127.0.0.1:{port}"
        finally:
            end_process(process.pid)
            process.wait()


def read_counts(gateway: str) -> Counter[str]:
    with urllib.request.urlopen(f"{gateway}/metrics", timeout=10) as reply:
        lines = [line.rsplit(" ", 1) for line in reply.read().decode().splitlines() if line.startswith(COUNTS)]
    return Counter({name: int(float(value)) for name, value in lines})


def hold_through_gateway(gateway: str, python: str, sessions: Sequence[Session]) -> list[str]:
    """What was wrong with each session, or nothing."""
    given = "".join(json.dumps(session) + "\n" for session in sessions)
    command = [python, "-m", "tests.benchmarks._session_clients", gateway]
    done = subprocess.run(command, cwd=ROOT, input=given, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def make_tools(results: Iterator[str], pause: Callable[[], None]) -> list[Any]:
    """Tools that give the next result, whatever they are called with."""

    def give() -> str:
        pause()
        return next(results)

    @tool(risk="low")
    def read(path: str, limit: int = 0) -> str:
        """Read."""
        return give()

    @tool(risk="low")
    def edit(path: str, old: str, new: str) -> str:
        """Edit."""
        return give()

    @tool(risk="low")
    def run(command: str) -> str:
        """Run."""
        return give()

    @tool(risk="low")
    def status(job: str) -> str:
        """Status."""
        return give()

    @tool(risk="low")
    def note(title: str, tags: list[str], extra: str | int | bool | list[str] | dict[str, str] = "") -> str:
        """Note."""
        return give()

    return [read, edit, run, status, note]


def hold_by_library(server: str, session: Session) -> tuple[str, int]:
    """What was wrong with the session, or nothing; and how many notes on a loop its model got."""
    results = iter([result for steps in session.questions for step in steps for result in step.results])
    tools = make_tools(results, lambda: time.sleep(session.pause))
    with Agent.connect(f"{server}/v1", "tiny", tools=tools, max_tool_turns=30, max_tokens=1500) as agent:
        notes = 0
        for number, steps in enumerate(session.questions):
            answer = agent.answer(write_question(number, steps))
            notes += sum(NOTE in made.result.text for made in answer.calls)
            if wrong := find_difference(steps, answer):
                return wrong, notes
    return "", notes


def find_difference(steps: Sequence[Step], answer: Any) -> str:
    expected = [call for step in steps for call in step.calls]
    made = [(each.call.name, dict(each.call.arguments)) for each in answer.calls]
    if made != expected:
        return f"calls {made} in place of {expected}"
    said = steps[-1].text.partition("</think>")[2].strip() or steps[-1].text
    return "" if answer.text.endswith(said) else f"{answer.text!r} in place of {said!r}"


def hold(server: str, gateway: str, python: str, sessions: Sequence[Session]) -> tuple[list[str], Counter[str]]:
    """What was wrong with the sessions, and how often guards interfered."""
    direct = [session for session in sessions if session.client == "library"]
    others = [session for session in sessions if session not in direct]
    before = read_counts(gateway)
    wrong = [
        f"{session.name}, {session.client}: {each}"
        for session, each in zip(others, hold_through_gateway(gateway, python, others), strict=True)
        if each
    ]
    found = read_counts(gateway) - before
    with ThreadPoolExecutor(4) as pool:
        for session, (each, notes) in zip(
            direct, pool.map(lambda it: hold_by_library(server, it), direct), strict=True
        ):
            if each:
                wrong.append(f"{session.name}, {session.client}: {each}")
            if notes:
                found["library: notes on a loop"] += notes
    return wrong, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("--clients", default=sys.executable, help="a Python with both SDKs")
    parser.add_argument("--sessions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=29)
    args = parser.parse_args()
    with running_gateway(args.server) as gateway:
        for title, sessions in (
            ("healthy", list(make_healthy(args.sessions, args.seed))),
            ("loops", list(make_loops(args.seed))),
        ):
            rounds = sum(bool(step.calls) for session in sessions for steps in session.questions for step in steps)
            wrong, found = hold(args.server, gateway, args.clients, sessions)
            print(f"{title}: {len(sessions)} sessions, {rounds} rounds with calls")
            print(f"  by client: {dict(Counter(session.client for session in sessions))}")
            print(f"  otherwise than the model said it: {len(wrong)}", *wrong, sep="\n    ")
            print(f"  interventions: {dict(found) or 0}", flush=True)


if __name__ == "__main__":
    main()
