"""How long the program takes until it can be used, in multiples of `python -c pass`.

    python tests/benchmarks/startup.py [ROUNDS [PROGRAM ...]]

Each PROGRAM, as the path of llm, aider or gptme in an environment of its own, is timed with --version beside ours.

Rounds are interleaved, so that a busy moment of the machine falls on every command alike; what is shown
is the fastest and the median of all rounds. The prompt is timed on a pseudo-terminal, with a model
configured, from the start of the process to the first prompt. Exits with 1 where a goal is missed.
"""

from __future__ import annotations

import os
import pty
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
CLI = [sys.executable, "cli.py"]
PROMPT = b"> "


class Row(NamedTuple):
    """What is timed: one run of it gives seconds; `goal` is in multiples of the first row."""

    name: str
    run: Callable[[], float]
    goal: float = float("inf")  # none


def until_end(*command: str) -> Callable[[], float]:
    def run() -> float:
        start = time.perf_counter()
        subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        return time.perf_counter() - start

    return run


def until_prompt() -> float:
    terminal, end = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "VLLM_MODEL": "any", "VLLM_BASE_URL": "http://127.0.0.1:9/v1"}
    start = time.perf_counter()
    process = subprocess.Popen(CLI, cwd=ROOT, env=environment, stdin=end, stdout=end, stderr=end)
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


ROWS = (
    Row("python -c pass", until_end(sys.executable, "-c", "pass"), 1),
    Row("cli.py --version", until_end(*CLI, "--version"), 3),
    Row("cli.py --help", until_end(*CLI, "--help"), 3),
    Row("prompt on screen", until_prompt, 6),
)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    peers = [Row(f"{Path(peer).name} --version", until_end(peer, "--version")) for peer in sys.argv[2:]]
    rows = (*ROWS, *peers)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # else every run would compile what it loads
    for row in rows:
        row.run()  # once unmeasured: byte code is compiled, files are cached
    times: dict[str, list[float]] = {row.name: [] for row in rows}
    for _ in range(rounds):
        for row in rows:
            times[row.name].append(row.run())
    base = times[rows[0].name]
    missed = False
    print(f"{'command':18} {'ms min / median':>17} {'x min':>6} {'x median':>9} {'goal':>5}")
    for row in rows:
        fastest, median = min(times[row.name]), statistics.median(times[row.name])
        ratio, ratio_median = fastest / min(base), median / statistics.median(base)
        missed |= ratio > row.goal
        milliseconds = f"{fastest * 1000:.1f} / {median * 1000:.1f}"
        print(f"{row.name:18} {milliseconds:>17} {ratio:6.2f} {ratio_median:9.2f} {row.goal:5g}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
