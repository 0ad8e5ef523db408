"""`vllm-bot batch` as its user sees it."""

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.batch.driver import BatchProgress
from src.batch.results import Row
from src.cli.commands import batch, runs
from src.cli.main import main
from tests.batch.script import open_server
from tests.waiting import PATIENCE_S, wait_until

ROOT = Path(__file__).resolve().parents[3]
PROGRESS = BatchProgress((Row("a", "h", "answered"), Row("b", "h", "error")), 1000, 7, 2, 60.0)
ABOUT = "7 running, 1 failed, 2.0 a minute, 8.3 h left"


def write_tasks(folder, *prompts):
    lines = [json.dumps({"id": f"t{n}", "prompt": prompt}) for n, prompt in enumerate(prompts)]
    (folder / "tasks.jsonl").write_text("\n".join(lines))


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_the_demo_runs_and_its_tasks_can_be_shown(capsys, tmp_path):
    assert main(["batch", "--demo"]) == 0
    assert "8 of 8      python3 greet.py" in capsys.readouterr().out
    assert (tmp_path / "runs/demo/report.html").exists()
    assert main(["batch", "show", "greet-1"]) == 0
    told = capsys.readouterr().out
    assert "tour" in told
    assert "status     answered" in told
    assert "\n\nid         greet-1\n" in told
    assert main(["batch", "report"]) == 0
    assert "successful                     8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Name a file of tasks."),
        (["--demo", "tasks.jsonl"], "--demo has tasks of its own, so tasks.jsonl would not run."),
        (["none.jsonl"], "none.jsonl: No such file or directory."),
        (["report"], "There is no batch in runs/."),
        (["show", "x", "--out", "none"], "none/results.jsonl: No such file or directory."),
        (["evaluate", "none.jsonl"], "none.jsonl: No such file or directory."),
        (["--demo", "--ray-cpus", "2"], "--ray-cpus, --ray-resources and --ray-runtime-env are for Ray."),
        (["tasks.jsonl", "--ray-resources", "[1]"], "--ray-resources: expected an object as JSON, or a file of one"),
        (["tasks.jsonl", "--jobs", "0"], "expected a whole number, 1 or more, got '0'"),
    ],
)
def test_what_cannot_be_done_is_said_in_two_lines(capsys, words, told):
    try:
        assert main(["batch", *words]) in (1, 2)
    except SystemExit as end:
        assert end.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert len(error.splitlines()) <= 2


def test_the_patches_of_a_batch_are_judged(capsys, tmp_path):
    write_tasks(tmp_path, "write a.txt", "say x")
    with open_server(tmp_path / "state") as settings:
        assert main(["batch", "tasks.jsonl", "--base-url", settings.vllm.base_url]) == 0
    capsys.readouterr()
    assert main(["batch", "evaluate", "tasks.jsonl", "--check", "test -e a.txt"]) == 1
    told = capsys.readouterr()
    assert sorted(told.out.splitlines()) == ["failed   t1 test -e a.txt (exit code 1)", "passed   t0"]
    assert told.err == "1 of 2 passed: runs/tasks/verdicts.jsonl\n"


def test_the_memory_of_a_task_is_that_of_its_commands(tmp_path):
    write_tasks(tmp_path, "run python3 -c 'bytearray(200_000_000)'")
    with open_server(tmp_path / "state") as settings:
        main(["batch", "tasks.jsonl", "--base-url", settings.vllm.base_url, "--task-memory", "100"])
    (conversation,) = (tmp_path / "runs/tasks/sessions").iterdir()
    assert "MemoryError" in conversation.read_text()


def test_without_a_server_nothing_is_written(capsys, tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "a", "prompt": "x"}))
    assert main(["batch", "tasks.jsonl", "--base-url", "http://127.0.0.1:9/v1"]) == 4
    assert "127.0.0.1:9" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_tasks_run_on_each_server_that_is_named(tmp_path):
    write_tasks(tmp_path, *(f"say {n}" for n in range(4)))
    first, second = [], []
    with open_server(tmp_path / "a", first) as one, open_server(tmp_path / "b", second) as two:
        addresses = [word for each in (one, two) for word in ("--upstream", each.vllm.base_url)]
        assert main(["batch", "tasks.jsonl", "--jobs", "2", *addresses]) == 0
    answered = [served.count("/v1/chat/completions") for served in (first, second)]
    assert all(answered)
    assert sum(answered) == 4


def test_a_spent_budget_is_told_with_what_is_left(tmp_path, capsys):
    write_tasks(tmp_path, "say x", "say x", "say x")
    with open_server(tmp_path / "state") as settings:
        words = ["batch", "tasks.jsonl", "--jobs", "1", "--base-url", settings.vllm.base_url]
        assert main([*words, "--budget-tokens", "1"]) == 3
        assert "The budget of 1 tokens is spent; 2 of 3 tasks were not started." in capsys.readouterr().err
        assert main(words) == 0
    assert "budget" not in capsys.readouterr().err


def test_ctrl_c_tells_what_is_recorded_and_how_to_go_on(tmp_path):
    write_tasks(tmp_path, "say x", "run sleep 985")
    with open_server(tmp_path / "state", seen := []) as settings:
        words = ["batch", "tasks.jsonl", "--out", "my runs", "--jobs", "1", "--base-url", settings.vllm.base_url]
        command = [sys.executable, str(ROOT / "cli.py"), *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        process = subprocess.Popen(
            command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        wait_until(lambda: seen.count("/v1/chat/completions") == 2, "the second task")
        process.send_signal(signal.SIGINT)
        told, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert told == ""
    assert errors == (
        "\n1 of 2 tasks are recorded in my runs. To go on: vllm-bot batch tasks.jsonl --out 'my runs' --jobs 1 "
        f"--base-url {settings.vllm.base_url}\n"
    )


def test_without_a_terminal_a_line_tells_how_far_it_is_once_a_minute(monkeypatch, capsys):
    clock = iter([0.0, 59.0, 60.0, 60.0, 119.0, 120.0, 120.0])
    monkeypatch.setattr(runs.time, "monotonic", lambda: next(clock))
    with runs.open_progress("tasks", batch.LOG_INTERVAL_S) as show:
        for _ in range(4):
            show(batch._make_step(PROGRESS))
    lines = capsys.readouterr().err.splitlines()
    assert [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in lines] == [f"2 of 1,000 tasks, {ABOUT}"] * 2


def test_a_terminal_shows_a_bar_with_the_same(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with runs.open_progress("tasks", batch.LOG_INTERVAL_S) as show:
        show(batch._make_step(PROGRESS))
        show(None)
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", terminal.getvalue())
    assert "2/1000" in shown
    assert ABOUT in shown


def test_a_server_that_refuses_is_told_while_its_tasks_are_tried_again():
    assert batch._make_step(replace(PROGRESS, refusal="No server.")).about == f"{ABOUT}, trying again: No server."


@pytest.mark.parametrize(("seconds", "told"), [(99, "99 s"), (100, "2 min"), (7100, "118 min"), (7200, "2.0 h")])
def test_the_time_left_is_told_in_a_unit_that_fits(seconds, told):
    assert runs.format_span(seconds) == told
