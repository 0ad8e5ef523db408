"""kill -9 of the driver at any point: what was recorded stays and does not run again, and nothing lives on."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from src.batch.results import load_rows
from src.errors import BotError
from tests.processes import find_processes
from tests.thorough import is_thorough, only_thorough, sample
from tests.waiting import PATIENCE_S, wait_until

from .script import open_server

ROOT = Path(__file__).parents[2]
TASKS = 12 if is_thorough() else 4
POINTS = range(48)  # rows recorded, and how the driver is caught after them, before it is killed


def has_processes(state):
    """Whether any process of a batch lives, by its state folder."""
    return any(find_processes("environ", f"XDG_STATE_HOME={state}\0".encode()))


def count_rows(out):
    with suppress(BotError):  # not there yet
        return len(load_rows(out))
    return 0


@pytest.mark.thorough
@pytest.mark.parametrize("point", sample(POINTS, len(POINTS), start=17))
def test_no_row_is_lost_or_repeated(tmp_path, point):
    out, tasks = tmp_path / "out", tmp_path / "tasks.jsonl"
    tasks.write_text("\n".join(json.dumps({"id": f"t{n}", "prompt": f"write {n}.txt"}) for n in range(TASKS)))
    with open_server(tmp_path / "state") as settings:
        words = [sys.executable, str(ROOT / "cli.py"), "batch", str(tasks), "--out", str(out), "--jobs", "3"]
        words += ["--base-url", settings.vllm.base_url]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
        driver = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: count_rows(out) >= point % TASKS or driver.poll() is not None, "rows")
        finally:
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
        recorded = load_rows(out) if (out / "results.jsonl").exists() else []
        wait_until(lambda: not has_processes(tmp_path / "state"), "the end of its processes")
        subprocess.run(words, env=environment, check=True, capture_output=True, timeout=PATIENCE_S)
    rows = load_rows(out)
    assert rows[: len(recorded)] == recorded
    assert sorted(row.id for row in rows) == sorted(f"t{n}" for n in range(TASKS))


@pytest.fixture
def temporary():
    """A folder with a short path, as a socket's must be."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@only_thorough
def test_the_next_start_removes_what_a_killed_driver_left(tmp_path, temporary):
    tasks = tmp_path / "tasks.jsonl"
    tasks.write_text(json.dumps({"id": "t", "prompt": "write a.txt"}))
    with open_server(tmp_path / "state") as settings:
        words = [sys.executable, str(ROOT / "cli.py"), "batch", str(tasks), "-u", settings.vllm.base_url, "--out"]
        environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(temporary)}
        quiet = {"env": environment, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        driver = subprocess.Popen([*words, str(tmp_path / "out")], **quiet)
        try:
            wait_until(lambda: list(temporary.glob("*/tasks")) or driver.poll() is not None, "a task")
        finally:
            driver.kill()
            driver.wait()
        wait_until(lambda: not has_processes(tmp_path / "state"), "the end of its processes")
        assert list(temporary.iterdir()) != []
        subprocess.run([*words, str(tmp_path / "another")], **quiet, check=True, timeout=PATIENCE_S)
    assert list(temporary.iterdir()) == []
