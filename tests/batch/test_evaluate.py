"""The checks of a batch in clean folders."""

from __future__ import annotations

import json

import pytest

from src.batch.evaluate import Evaluation
from src.batch.results import Results, Row
from src.batch.tasks import Task
from src.config import Settings
from src.errors import BotError, ConfigError
from tests.batch.script import make_repository
from tests.batch.test_workspace import run_git
from tests.waiting import PATIENCE_S


@pytest.fixture
def evaluate(tmp_path):
    def run(task: Task, *rows: Row):
        with Results(tmp_path / "out") as results:
            for row in rows:
                results.add(row, b"")
        settings = Settings(state=tmp_path / "state")
        return Evaluation(tmp_path / "out", [task], settings, jobs=2, timeout=PATIENCE_S).run()

    return run


def make_patch(repo, change):
    change(repo)
    patch = run_git(repo, "diff", "--binary", "HEAD")
    run_git(repo, "checkout", "-q", ".")
    return patch


def test_a_patch_is_judged_where_nothing_else_was_left(evaluate, tmp_path):
    repo = make_repository(tmp_path / "repo")
    (repo / "left.log").write_text("ignored by git")
    patch = make_patch(repo, lambda folder: (folder / "a.txt").write_text("new\n"))
    task = Task("a", "x", repo=str(repo), checks=("grep -qx new a.txt", "test ! -e left.log"))
    (verdict,) = evaluate(task, Row("a", "h", "answered", patch=patch))
    assert (verdict.verdict, [check.exit_code for check in verdict.checks]) == ("passed", [0, 0])
    (line,) = (tmp_path / "out/verdicts.jsonl").read_text().splitlines()
    assert json.loads(line)["verdict"] == "passed"


def test_bytes_that_are_no_text_come_back(evaluate, tmp_path):
    repo = make_repository(tmp_path / "repo")
    patch = make_patch(repo, lambda folder: (folder / "a.txt").write_bytes(b"\0\xe9\n"))
    task = Task("a", "x", repo=str(repo), checks=("test \"$(od -An -tx1 a.txt)\" = ' 00 e9 0a'",))
    assert [each.verdict for each in evaluate(task, Row("a", "h", "answered", patch=patch))] == ["passed"]


def test_each_sample_has_a_verdict_and_the_last_row_counts(evaluate):
    task = Task("a", "x", checks=("test -e b.txt",))
    patch = "diff --git a/b.txt b/b.txt\nnew file mode 100644\n--- /dev/null\n+++ b/b.txt\n@@ -0,0 +1 @@\n+b\n"
    rows = Row("a", "h", "answered"), Row("a", "h", "answered", patch=patch), Row("a@2", "g", "answered", sample=2)
    assert [(each.id, each.instance, each.verdict) for each in evaluate(task, *rows)] == [
        ("a", "a", "passed"),
        ("a@2", "a", "failed"),
    ]


def test_a_patch_that_does_not_apply_is_an_error_and_the_others_go_on(evaluate):
    patch = "diff --git a/b.txt b/b.txt\n--- a/b.txt\n+++ b/b.txt\n@@ -1 +1 @@\n-a\n+b\n"
    rows = Row("a", "h", "answered", patch=patch), Row("a@2", "h", "answered", sample=2)
    one, other = evaluate(Task("a", "x", checks=("true",)), *rows)
    assert (one.verdict, other.verdict) == ("error", "passed")
    assert "git apply: " in one.reason


def test_rows_of_other_tasks_and_tasks_without_checks_are_named(evaluate):
    with pytest.raises(BotError, match="has no row of these tasks"):
        evaluate(Task("b", "x", checks=("true",)), Row("a", "h", "answered"))
    with pytest.raises(ConfigError, match="The task a has no checks.\nName one for all such with --check COMMAND."):
        evaluate(Task("a", "x"), Row("a", "h", "answered"))
