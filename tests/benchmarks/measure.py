"""What the benchmarks share: running the shipped program, its CPU time and memory, and the table with its bars.

CPU is user and system time of a process, so that others on the machine change little; ours and the bare floor take
turns, and the least of several rounds counts. Byte code must be written, else every process compiles what it imports.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "Go on."
LIMIT_REACHED = 3  # the program's exit code


class Row(NamedTuple):
    """One figure. `bar` is of the ratio to `floor` where there is a floor, else of `ours`; None: shown only."""

    what: str
    ours: float
    unit: str
    floor: float | None = None
    bar: float | None = None
    is_least: bool = False  # whether the bar is the least allowed, and not the most

    @property
    def figure(self) -> float:
        return self.ours / self.floor if self.floor else self.ours

    @property
    def is_met(self) -> bool:
        if self.bar is None:
            return True
        return self.figure >= self.bar if self.is_least else self.figure <= self.bar

    def format(self) -> str:
        floor = f"{self.floor:10,.2f}" if self.floor else " " * 10
        ratio = f"{self.figure:6.2f} x" if self.floor else " " * 8
        unit = " x" if self.floor else f" {self.unit}"
        sign = ">=" if self.is_least else "<="
        bar = "" if self.bar is None else f"{sign} {self.bar:,g}{unit}"
        return f"{self.what:58} {self.ours:12,.2f} {floor} {self.unit:8} {ratio} {bar:>12}{'' if self.is_met else '  MISSED'}"


HEADER = f"{'what':58} {'ours':>12} {'bare':>10} {'':8} {'ratio':>8} {'bar':>12}"


class Usage(NamedTuple):
    """What a process took; `code` is its exit code, negative for a signal."""

    cpu_s: float
    clock_s: float
    memory_mb: float
    code: int


def print_table(rows: Iterable[Row]) -> int:
    """Print each row as it is measured; the exit code: 1 where a bar is missed."""
    print(HEADER, flush=True)
    missed = False
    for row in rows:
        missed |= not row.is_met
        print(row.format(), flush=True)
    print("MISSED" if missed else "all bars met")
    return int(missed)


def make_options(doc: str | None, rounds: int = 5) -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=rounds, metavar="N")
    options.add_argument("--program", type=Path, default=ROOT, metavar="FOLDER", help="a checkout (default: this one)")
    return options


def require_byte_code() -> None:
    """Fail where Python may not write byte code: each run would then compile what it imports."""
    if sys.dont_write_bytecode:
        sys.exit("PYTHONDONTWRITEBYTECODE is set: run this under `env -u PYTHONDONTWRITEBYTECODE`.")


def make_environment(home: Path) -> dict[str, str]:
    """Of a user without settings and without sessions."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VLLM_", "XDG_"))}
    return {**kept, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "NO_PROXY": "127.0.0.1"}


def run(command: Sequence[str], folder: Path, home: Path, *, within: float | None = None) -> Usage:
    """Run a command to its end, or until it is killed after `within` seconds."""
    began = time.perf_counter()
    with (home / "output.txt").open("wb") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=make_environment(home), stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        if within is not None:
            try:
                while time.perf_counter() < began + within:
                    if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
                        break
                    time.sleep(0.05)
            finally:
                os.kill(process.pid, signal.SIGKILL)  # it may have ended, but its id is held until wait4
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    clock = time.perf_counter() - began
    return Usage(used.ru_utime + used.ru_stime, clock, used.ru_maxrss / 1000, process.returncode)


def ask_program(
    program: Path, url: str, workspace: Path, home: Path, *options: str, within: float | None = None
) -> Usage:
    """One question with -p. `url` may hold $$, which becomes the id of the program's process; HOME/pid.txt has it.

    Raises AssertionError with what it printed if it fails, unless it was to be killed.
    """
    script = f'echo $$ > "$0"; exec "$@" --base-url "{url}/v1"'
    command = [
        "sh",
        "-c",
        script,
        str(home / "pid.txt"),
        sys.executable,
        str(program / "cli.py"),
        "-p",
        QUESTION,
        *options,
    ]
    usage = run([*command, "--workspace", str(workspace), "--profile", "read-only"], workspace, home, within=within)
    assert usage.code in (0, LIMIT_REACHED) or within is not None, (home / "output.txt").read_text(errors="replace")[
        -2000:
    ]
    return usage
