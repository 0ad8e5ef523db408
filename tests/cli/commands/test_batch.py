"""`vllm-bot batch` as its user sees it."""

import json

import pytest

from src.cli.main import main


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
    assert main(["batch", "report"]) == 0
    assert "successful                     8" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "Name one file of tasks."),
        (["none.jsonl"], "none.jsonl: No such file or directory."),
        (["report"], "There is no batch in runs/."),
        (["show", "x", "--out", "none"], "none/results.jsonl: No such file or directory."),
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


def test_without_a_server_nothing_is_written(capsys, tmp_path):
    (tmp_path / "tasks.jsonl").write_text(json.dumps({"id": "a", "prompt": "x"}))
    assert main(["batch", "tasks.jsonl", "--base-url", "http://127.0.0.1:9/v1"]) == 4
    assert "127.0.0.1:9" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()
