"""What a sandbox costs a command, beside a run in none, through the tool that a model calls.

    python tests/benchmarks/sandbox.py [ROUNDS]

Rounds are interleaved, so that a busy moment of the machine falls on every row alike; what is shown is the
fastest and the median of all rounds. The bare run has the limits as well. Exits with 1 where the goal,
less than 10 ms added in the median, is missed.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from src.security.sandbox.choose import choose
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.view import build_view
from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall

GOAL = 10.0  # ms added
KINDS = {"bare": ("off", ()), "bubblewrap": ("auto", ("bubblewrap",)), "landlock": ("auto", ("landlock",))}


def timed(kind: str, workspace: Path) -> Callable[[], float] | None:
    """What runs `true` once, in milliseconds; None where the kind does not work here."""
    environment = dict(os.environ)
    wanted, kinds = KINDS[kind]
    installations = (sys.prefix, sys.base_prefix)
    chosen = choose(
        wanted, build_view(workspace, environment, installations=installations), ResourceLimits(), environment, kinds
    )
    if kinds and chosen.sandbox.kind != kind:
        print(f"{kind:12} {chosen.warning}")
        return None
    context = ToolContext(workspace, environment=environment, sandbox=chosen.sandbox)

    def run() -> float:
        start = time.perf_counter()
        result = REGISTRY.run(ToolCall("1", "exec", {"command": "true"}), context)
        assert result.value == "[exit code 0]", result
        return (time.perf_counter() - start) * 1000

    return run


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    with tempfile.TemporaryDirectory() as folder:
        runs = {kind: run for kind in KINDS if (run := timed(kind, Path(folder).resolve()))}
        times: dict[str, list[float]] = {kind: [] for kind in runs}
        for _ in range(rounds):
            for kind, run in runs.items():
                times[kind].append(run())
    bare = statistics.median(times["bare"])
    missed = False
    print(f"{'':12} {'fastest':>8} {'median':>8} {'added':>8}   ms a command, {rounds} rounds; goal: added < {GOAL:g}")
    for kind, each in times.items():
        added = statistics.median(each) - bare
        missed = missed or added >= GOAL
        print(f"{kind:12} {min(each):8.1f} {statistics.median(each):8.1f} {added:8.1f}")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
