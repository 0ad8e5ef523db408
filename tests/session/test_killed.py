"""kill -9 at random points (see killing.py); tests/benchmarks/session.py kills 200 times."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

POINTS = 8


@pytest.mark.skipif(sys.platform != "linux", reason="a process is killed at a byte by what Linux does at a limit")
def test_nothing_finished_is_lost_and_no_call_runs_twice(tmp_path):
    command = [sys.executable, "-m", "tests.session.killing", str(tmp_path / "killed"), str(POINTS)]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0), done.stdout
    summary = json.loads(done.stdout.splitlines()[-1])
    assert summary["points"] == POINTS
    assert summary["killed"] > POINTS // 2
