"""Commands in the background, through the tool exec: started, watched, read, ended, and what the model is told."""

from __future__ import annotations

import os
import threading

import pytest

from src.tools import REGISTRY, ToolContext
from src.tools.process import background, jobs
from src.tools.process.jobs import Jobs
from src.tools.process.output import Output
from src.tools.sdk.output_store import Outputs

from ...waiting import PATIENCE_S, wait_until

WAITS = "while [ ! -e go ]; do sleep 0.01; done"
LIVES = "echo up; exec sleep 600"


@pytest.fixture
def ctx(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "START_WATCH_S", 0.0)
    base = ToolContext(tmp_path, environment={"PATH": os.environ["PATH"]}).rewire(outputs=Outputs(tmp_path / "outputs"))
    with base.for_run() as ctx:
        yield ctx


def run(ctx, command, **arguments):
    return REGISTRY["exec"].execute({"command": command, **arguments}, ctx)


def start(ctx, command=LIVES, **arguments):
    shown = run(ctx, command, background=True, **arguments).value
    (*_, job) = ctx.wiring.jobs
    wait_until(lambda: "up" in job.read_output() or job.has_ended.is_set(), "the job did not begin")
    return job, shown


def test_it_runs_on_and_its_output_can_be_read(ctx):
    job, shown = start(ctx)
    assert "runs in the background as job 1" in shown
    assert f'tool_output_cache(ref_id="{job.ref}")' in shown
    assert REGISTRY["tool_output_cache"].execute({"ref_id": job.ref}, ctx).value == "1\tup\n"
    assert job.state.startswith("running for")


def test_one_that_fails_at_once_is_told_as_a_failure(ctx, monkeypatch):
    monkeypatch.setattr(background, "START_WATCH_S", 60.0)
    assert run(ctx, "echo taken; exit 3", background=True).value == "taken\n[exit code 3]"
    assert ctx.wiring.jobs.take_ended() == []


def test_kill_with_its_number_ends_it_and_it_is_not_told_again(ctx):
    job, _ = start(ctx)
    shown = run(ctx, "kill %1").value
    assert shown.startswith("up\n[it was ended, after")
    assert job.has_ended.is_set()
    assert ctx.wiring.jobs.take_ended() == []


def test_of_an_end_the_model_is_told_once_with_the_last_lines(ctx, tmp_path):
    job, _ = start(ctx, f"seq 9; echo up; {WAITS}; exit 4")
    (tmp_path / "go").touch()
    job.has_ended.wait(PATIENCE_S)
    (ended,) = ctx.wiring.jobs.take_ended()
    assert ended.describe_end().startswith("background job 1 ended (exit code 4, after")
    assert ended.describe_end().endswith(":\n8\n9\nup")
    assert ctx.wiring.jobs.take_ended() == []


def test_it_has_no_time_limit_but_one_that_is_named(ctx):
    job, _ = start(ctx, timeout=0.05)
    job.has_ended.wait(PATIENCE_S)
    assert job.ending == "timed out after 0.05 s, and was killed"


def test_a_timeout_may_be_raised_up_to_the_longest(ctx):
    assert "[timed out after 0.05 s" in run(ctx, "sleep 60", timeout=0.05).value
    assert "at most 3600 s" in run(ctx, "true", timeout=3601).value
    assert "more than 0" in run(ctx, "true", timeout=0).value


def test_there_are_no_more_than_so_many(ctx, monkeypatch):
    monkeypatch.setattr(jobs, "MAX_RUNNING", 2)
    for _ in range(2):
        start(ctx)
    assert "`kill %1`" in run(ctx, LIVES, background=True).value
    run(ctx, "kill %1")
    assert "job 3" in start(ctx)[1]


def test_a_number_that_no_job_has_is_an_error(ctx):
    assert run(ctx, "kill %3").value.startswith("Error executing tool: there is no background job 3")


def test_one_that_closed_its_output_is_ended_too(ctx):
    job, _ = start(ctx, "echo up; exec sleep 600 >/dev/null 2>&1")
    assert run(ctx, "kill %1").value.startswith("up\n[it was ended")
    assert job.has_ended.is_set()


def test_all_end_with_the_answer_that_started_them(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "START_WATCH_S", 0.0)
    with ToolContext(tmp_path, environment={"PATH": os.environ["PATH"]}).for_run() as ctx:
        job, _ = start(ctx, "sleep 600 & echo up; wait")
    assert job.ending.startswith("it was ended")


def test_a_command_that_cannot_be_started_is_a_job_that_has_ended(ctx, tmp_path, monkeypatch):
    monkeypatch.setattr(background, "START_WATCH_S", 60.0)
    (tmp_path / "gone").mkdir()
    missing = ToolContext(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with missing.for_run() as within:
        assert run(within, "true", background=True).value.startswith("[the command could not be started")


def test_the_user_sends_a_command_to_the_background(tmp_path):
    jobs, requested = Jobs(), []
    base = ToolContext(tmp_path, environment={"PATH": os.environ["PATH"]}).rewire(chat_jobs=jobs)
    with base.for_run() as ctx:
        thread = threading.Thread(target=wait_and_request, args=(jobs, tmp_path / "up", requested))
        thread.start()
        shown = run(ctx, f"touch up; {WAITS}; exit 4", access="write", timeout=PATIENCE_S).value
        thread.join()
    assert "[the user sent it to the background: it runs in the background as job 1;" in shown
    (job,) = jobs
    assert job.began_s < requested[0]
    assert not job.has_ended.is_set()  # the answer has ended, the chat has not
    (tmp_path / "go").touch()
    job.has_ended.wait(PATIENCE_S)
    assert job.ending == "exit code 4"
    assert not jobs.can_send


def test_the_time_of_a_command_that_was_sent_there_counts_from_its_start():
    now = Jobs().open("make", Output(100))
    assert now.state == "running for 0 s"
    assert Jobs().open("make", Output(100), now.began_s - 3600).state.startswith("running for 36")


def test_the_user_is_told_of_an_end_once_and_not_of_one_that_a_result_tells(ctx, tmp_path):
    ends = threading.Event()
    ctx.wiring.jobs.on_end = ends.set
    start(ctx, f"echo up; {WAITS}")
    (tmp_path / "go").touch()
    assert ends.wait(PATIENCE_S)
    assert [job.number for job in ctx.wiring.jobs.take_unshown()] == [1]
    assert ctx.wiring.jobs.take_unshown() == []
    assert [job.number for job in ctx.wiring.jobs.take_ended()] == [1]
    start(ctx)
    run(ctx, "kill %2")
    assert ctx.wiring.jobs.take_unshown() == []


def wait_and_request(jobs, up, requested):
    wait_until(lambda: jobs.can_send and up.exists(), "no command began")
    requested.append(Jobs().open("true", Output(100)).began_s)
    jobs.request()


def test_a_request_that_comes_while_the_command_is_started_sends_it(tmp_path):
    jobs = Jobs()
    base = ToolContext(tmp_path, environment={"PATH": os.environ["PATH"]}).rewire(chat_jobs=jobs)
    with base.for_run() as ctx:
        shown = run(ctx.rewire(on_start=lambda _: jobs.request()), WAITS, timeout=PATIENCE_S).value
    assert "it runs in the background as job 1;" in shown
    (tmp_path / "go").touch()
    assert jobs.find(1).has_ended.wait(PATIENCE_S)


def test_a_request_that_comes_where_no_command_runs_does_not_send_the_next_one(tmp_path):
    jobs = Jobs()
    jobs.request()
    with ToolContext(tmp_path, environment={"PATH": os.environ["PATH"]}).rewire(chat_jobs=jobs).for_run() as ctx:
        assert run(ctx, "echo up").value == "up\n[exit code 0]"
