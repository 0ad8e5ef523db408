"""What a sandbox costs a command, beside a run in none, through the tool that a model calls.

    python tests/benchmarks/sandbox.py [ROUNDS]

Rounds are interleaved, so that a busy moment of the machine falls on every row alike; what is shown is the
fastest and the median of all rounds. The bare run has the limits as well. `bwrap true` is bubblewrap alone, with the mounts
of a command with access read. Exits with 1 where a goal is missed: what bubblewrap adds to a command is at most 1.5 times
what `bwrap true` takes.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from src.security.sandbox.bubblewrap import BubblewrapSandbox
from src.security.sandbox.choose import choose
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.view import SandboxView, complete_view
from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall

MAX_RATIO = 1.5  # of what bubblewrap adds to a command, to `bwrap true`
ACCESS = "read"
KINDS = {"bare": ("off", ()), "bubblewrap": ("auto", ("bubblewrap",)), "landlock": ("auto", ("landlock",))}
Run = Callable[[], object]


def prepare(kind: str, workspace: Path) -> dict[str, Run]:
    """What runs `true` in the sandbox of a kind, by the name of its row; nothing where the kind does not work here."""
    environment = dict(os.environ)
    wanted, kinds = KINDS[kind]
    view = complete_view(SandboxView(workspace), environment, installations=(sys.prefix, sys.base_prefix))
    chosen = choose(wanted, view, ResourceLimits(), environment, kinds)
    if kinds and chosen.sandbox.kind != kind:
        print(f"{kind:12} {chosen.warning}")
        return {}
    context = ToolContext(workspace, environment=environment).rewire(sandbox=chosen.sandbox)

    def run() -> None:
        result = REGISTRY.run(ToolCall("1", "exec", {"command": "true", "access": ACCESS}), context)
        assert result.value == "[exit code 0]", result

    if kind != "bubblewrap":
        return {kind: run}
    sandbox = cast(BubblewrapSandbox, chosen.sandbox)
    alone = [*sandbox.build_words(ACCESS), "--chdir", str(workspace), "--", "true"]
    return {kind: run, "bwrap true": lambda: subprocess.run(alone, check=True)}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        runs = {name: run for kind in KINDS for name, run in prepare(kind, Path(folder).resolve()).items()}
        times: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                start = time.perf_counter()
                run()
                times[name].append((time.perf_counter() - start) * 1000)
    medians = {name: statistics.median(each) for name, each in times.items()}
    print(f"{'':12} {'fastest':>8} {'median':>8} {'added':>8}   ms a command, {rounds} rounds")
    for name, each in times.items():
        print(f"{name:12} {min(each):8.1f} {medians[name]:8.1f} {medians[name] - medians['bare']:8.1f}")
    if "bwrap true" not in medians:
        return 0
    ratio = (medians["bubblewrap"] - medians["bare"]) / medians["bwrap true"]
    print(f"what bubblewrap adds is {ratio:.2f} times `bwrap true`; goal: at most {MAX_RATIO:g}")
    return int(ratio > MAX_RATIO)


if __name__ == "__main__":
    sys.exit(main())
