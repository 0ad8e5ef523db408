"""Tasks whose commands run in containers, by a double of podman. podman and docker themselves were not tried."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from src.batch.results import load_rows
from src.batch.task_run import Job, run_task
from src.batch.tasks import Task
from src.tools.process.proc import list_processes
from tests.containers import IMAGE, FakePodman
from tests.processes import read_process_file
from tests.thorough import only_thorough
from tests.waiting import PATIENCE_S, wait_until

from .script import make_repository, open_server

ROOT = Path(__file__).parents[2]


@pytest.fixture
def podman(tmp_path):
    return FakePodman(tmp_path / "bin")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The outcome of a task, and the paths of the requests that it made."""

    def run_it(task):
        seen = []
        with open_server(tmp_path / "state", seen) as settings:
            outcome = run_task(Job(task, "h", settings, tmp_path / "scratch"))
        return outcome.row, seen

    (tmp_path / "scratch").mkdir()
    return run_it


def test_the_commands_and_checks_of_a_task_run_in_its_image(run, podman, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", podman.path)
    repository = str(make_repository(tmp_path / "repo"))
    row, _ = run(Task("a", "run echo new > b.txt", image=IMAGE, repo=repository, checks=("test -f b.txt", "exit 3")))
    assert (row.status, [check.exit_code for check in row.checks]) == ("answered", [0, 3])
    assert "+++ b/b.txt" in row.patch
    assert [words[words.index("--entrypoint") + 2] for words in podman.runs] == [IMAGE] * 3
    assert podman.list_containers() == []


def test_tools_for_files_work_on_the_folder_outside(run, podman, monkeypatch):
    monkeypatch.setenv("PATH", podman.path)
    row, _ = run(Task("a", "write b.txt", image=IMAGE, checks=("cat b.txt",)))
    assert [check.output for check in row.checks] == ["new\n[exit code 0]"]


def test_a_missing_image_is_told_before_anything_is_asked(run, podman, monkeypatch):
    monkeypatch.setenv("PATH", podman.path)
    row, seen = run(Task("a", "say x", image="nothing:1"))
    assert (row.status, row.reason.partition("\n")[0]) == (
        "error",
        "The image nothing:1 cannot be used: Error: no such image nothing:1",
    )
    assert seen == []


def test_a_missing_runtime_is_told_before_anything_is_asked(run, monkeypatch, tmp_path):
    for name in ("git", "sh"):
        (tmp_path / name).symlink_to(Path("/usr/bin") / name)
    monkeypatch.setenv("PATH", str(tmp_path))
    row, seen = run(Task("a", "say x", image=IMAGE))
    assert row.reason.startswith(f"The image {IMAGE} needs podman or docker, which is not installed.")
    assert seen == []


@contextmanager
def start_batch(tmp_path, podman, *prompts):
    """`vllm-bot batch` in a process of its own, whose tasks have these prompts."""
    tasks = tmp_path / "tasks.jsonl"
    lines = [json.dumps({"id": f"t{n}", "prompt": prompt, "image": IMAGE}) for n, prompt in enumerate(prompts)]
    tasks.write_text("\n".join(lines))
    with open_server(tmp_path / "state") as settings:
        words = [sys.executable, str(ROOT / "cli.py"), "batch", str(tasks), "--out", str(tmp_path / "out")]
        environment = {**os.environ, "PATH": podman.path, "XDG_STATE_HOME": str(tmp_path / "state")}
        words += ["--base-url", settings.vllm.base_url]
        driver = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield driver
        finally:
            driver.kill()
            driver.wait()


def wait_for_command(mark):
    """The number of the process in a container that sleeps for `mark` seconds."""
    found = []

    def look():
        found[:] = find_commands(mark)
        return found

    wait_until(look, "the command")
    return found[0]


def find_commands(mark):
    for each in list_processes():
        words = read_process_file(each.pid, "cmdline").split(b"\0")
        if words[:2] == [b"sleep", mark.encode()]:
            yield each


def has_ended(podman, mark):
    return not podman.list_containers() and not list(find_commands(mark))


@only_thorough
def test_a_worker_that_is_killed_leaves_no_container(tmp_path, podman):
    mark = f"971.{os.getpid()}"
    with start_batch(tmp_path, podman, f"run sleep {mark}") as driver:
        wait_for_command(mark)
        wait_until(podman.list_containers, "the container")
        (client,) = (each for each in list_processes() if each.pid == podman.list_pids()[0])
        os.kill(client.parent, signal.SIGKILL)
        driver.wait(PATIENCE_S)
    assert [row.status for row in load_rows(tmp_path / "out")] == ["crashed"]
    wait_until(lambda: has_ended(podman, mark), "the end of its container")


@only_thorough
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_driver_that_is_ended_leaves_no_container(tmp_path, podman, number):
    mark = f"972.{os.getpid()}"
    with start_batch(tmp_path, podman, f"run sleep {mark}") as driver:
        wait_for_command(mark)
        driver.send_signal(number)
        driver.wait(PATIENCE_S)
        wait_until(lambda: has_ended(podman, mark), "the end of its containers")
