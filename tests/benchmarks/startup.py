"""How long the program takes until it can be used, in multiples of `python -c pass`.

    python -m tests.benchmarks.startup [--rounds N] [--program FOLDER] [PEER ...]

Each PEER, as the path of llm, aider or gptme in an environment of its own, is timed with --version beside ours.

Rounds are interleaved, so that a busy moment of the machine falls on every command alike, and the fastest counts.
The prompt is timed on a pseudo-terminal, with a model configured, from the start of the process to the first prompt.
The last row is CPU time: one question with `-p` that calls no tool, in a new process with an empty state folder, beside
`python -c 'import requests'`; "next" is the run after it.
"""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.benchmarks.measure import Row, ask_program, make_options, print_table, require_byte_code, run
from tests.benchmarks.serving import serving

PROMPT = b"> "


class Command(NamedTuple):
    """What is timed: one run of it gives seconds; `bar` is in multiples of `python -c pass`."""

    name: str
    run: Callable[[], float]
    bar: float | None = None


def until_end(program: Path, *command: str) -> Callable[[], float]:
    def run_once() -> float:
        start = time.perf_counter()
        subprocess.run(command, cwd=program, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    return run_once


def until_prompt(program: Path) -> float:
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "VLLM_MODEL": "any", "VLLM_BASE_URL": "http://127.0.0.1:9/v1"}
    start = time.perf_counter()
    command = [sys.executable, "cli.py"]
    process = subprocess.Popen(command, cwd=program, env=environment, stdin=end, stdout=end, stderr=end)
    os.close(end)
    shown = b""
    try:
        while not shown.endswith(PROMPT):
            shown += os.read(terminal, 65536)
        return time.perf_counter() - start
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def command_rows(rounds: int, program: Path, peers: list[str]) -> Iterator[Row]:
    python = [sys.executable]
    base = Command("python -c pass", until_end(program, *python, "-c", "pass"))
    commands = [
        base,
        Command("cli.py --version", until_end(program, *python, "cli.py", "--version"), 3),
        Command("cli.py --help", until_end(program, *python, "cli.py", "--help"), 3),
        Command("prompt on screen", lambda: until_prompt(program), 6),
        *(Command(f"{Path(peer).name} --version", until_end(program, peer, "--version")) for peer in peers),
    ]
    for command in commands:
        command.run()  # once unmeasured: byte code is compiled, files are cached
    times = [[command.run() for command in commands] for _ in range(rounds)]
    floor, *others = (min(each) * 1000 for each in zip(*times, strict=True))
    for command, least in zip(commands[1:], others, strict=True):
        yield Row(f"{command.name} / {base.name}", least, "ms", floor, command.bar)


def question_rows(rounds: int, program: Path) -> Iterator[Row]:
    """CPU time of one question."""
    costs: dict[str, list[float]] = {"first": [], "next": [], "bare": []}
    with serving() as server, tempfile.TemporaryDirectory() as name:
        ask_program(program, f"{server}/say,chunks=20", Path(name), Path(name))  # once unmeasured
        for number in range(rounds):
            home = Path(name, str(number))
            home.mkdir()
            for which in ("first", "next"):
                costs[which].append(ask_program(program, f"{server}/say,chunks=20", home, home).cpu_s * 1000)
            costs["bare"].append(run([sys.executable, "-c", "import requests"], home, home).cpu_s * 1000)
    for which, bar in (("first", 1.7), ("next", None)):
        yield Row(f"-p without tools, {which} / import requests", min(costs[which]), "ms", min(costs["bare"]), bar)


def main() -> int:
    options = make_options(__doc__, rounds=15)
    options.add_argument("peers", nargs="*", metavar="PEER")
    given = options.parse_args()
    require_byte_code()
    commands = command_rows(given.rounds, given.program, given.peers)
    return print_table(chain(commands, question_rows(given.rounds, given.program)))


if __name__ == "__main__":
    sys.exit(main())
