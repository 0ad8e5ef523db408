"""A batch on a server with 64 places: how many are busy, and the CPU time of a task. Prints both.

    python -m tests.benchmarks.batch [--tasks 256] [--seconds 30]

Each task has two turns, of which each takes half of the seconds on the server. The CPU time is that of the driver and all
of its processes; that of the agent's own turns is part of it.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from src.cli.demo.loopback import LoopbackReply, LoopbackRequest, serve
from src.cli.demo.protocol import DemoServer
from tests.batch.script import play

PLACES = 64
PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h: processes whose parent ended become children of this one
ROOT = Path(__file__).parents[2]


class Places:
    """Counts the seconds in which places are busy, from the first request to the last."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._lock = threading.Lock()
        self._free = threading.Semaphore(PLACES)
        self._server = DemoServer(play, lambda _: None)
        self.busy = 0.0
        self.spans: list[tuple[float, float]] = []

    def __call__(self, request: LoopbackRequest) -> LoopbackReply:
        if request.path != "/v1/chat/completions":
            return self._server(request)
        with self._free:
            began = time.monotonic()
            time.sleep(self._seconds / 2)
            reply = self._server(request)
            with self._lock:
                self.spans.append((began, time.monotonic()))
        return reply

    def measure(self, tasks: int) -> float:
        """The share of places that were busy while enough tasks were left to fill them."""
        begins = sorted(began for began, _ in self.spans)
        first, last = begins[0], begins[-min(len(begins), PLACES)]
        busy = sum(max(0.0, min(end, last) - max(began, first)) for began, end in self.spans)
        return busy / (PLACES * (last - first)) if last > first else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tasks", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    places = Places(options.seconds)
    with TemporaryDirectory() as name, serve(places) as address:
        folder = Path(name)
        rows = [{"id": f"t{number}", "prompt": "write a.txt"} for number in range(options.tasks)]
        (folder / "tasks.jsonl").write_text("\n".join(map(json.dumps, rows)))
        words = [sys.executable, str(ROOT / "cli.py"), "batch", str(folder / "tasks.jsonl"), "--jobs", str(PLACES)]
        words += ["--out", str(folder / "out"), "--base-url", f"{address}/v1"]
        subprocess.run(words, env={**os.environ, "XDG_STATE_HOME": str(folder / "state")}, check=True)
        with suppress(ChildProcessError):
            while True:
                os.wait()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"places busy: {places.measure(options.tasks):.1%}")
    print(f"CPU a task: {1000 * (used.ru_utime + used.ru_stime) / options.tasks:.0f} ms")


if __name__ == "__main__":
    main()
