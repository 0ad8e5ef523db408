"""Tasks to rows, on one machine."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from src.app.endpoint import make_settings
from src.batch import driver
from src.batch.driver import Batch, LoadLook, open_scratch
from src.batch.load import LoadControl
from src.batch.results import Results, load_rows
from src.batch.tasks import BatchOptions, Task
from src.cli.demo.loopback import LoopbackReply, serve
from tests.processes import find_processes
from tests.waiting import wait_until

from .script import InstantPool, make_repository, open_server

SECONDS = f"987.{os.getpid()}"  # for which nobody else on this machine sleeps
NOWHERE = "http://127.0.0.1:9/v1"  # where nobody listens
DEADLY = '''
import os, signal, tempfile
from vllm_bot import tool

@tool(risk="low")
def look() -> str:
    """Tell where temporary files go."""
    raise ValueError(tempfile.gettempdir())

@tool(risk="low")
def die() -> str:
    """End the process."""
    os.kill(os.getpid(), signal.SIGKILL)
'''


@contextmanager
def run(tmp_path, *tasks, show=lambda _: None, adapt=lambda settings: settings, server=None, **options):
    """A batch that has run, and may be looked at. `server`: options of open_server."""
    tmp_path.mkdir(exist_ok=True)
    with open_server(tmp_path / "state", **server or {}) as settings, Results(tmp_path / "out") as results:
        settings = adapt(settings)
        chosen = BatchOptions((settings.vllm.base_url,), **{"jobs": 2, **options})
        batch = Batch(tasks, settings, results, chosen, show)
        batch.run()
        yield batch


def keep_books(tmp_path, *tasks, pool=None, show=lambda _: None, **options):
    """The rows of a batch whose tasks no process runs, and its pool: for which of them run, when, and what is kept."""
    pool = InstantPool() if pool is None else pool
    settings = replace(make_settings(NOWHERE, "vllm", model="m"), state=tmp_path / "state")
    with Results(tmp_path / "out") as results:
        chosen = BatchOptions((NOWHERE,), **{"jobs": 2, **options})
        batch = Batch(tasks, settings, results, chosen, show, lambda timeout: pool)
        batch.run()
        return batch.rows, pool


def is_running(*words):
    """Whether a process with these words runs."""
    return any(find_processes("cmdline", "".join(f"{word}\0" for word in words).encode()))


def test_each_task_gets_a_row(tmp_path):
    tasks = [Task(f"t{n}", f"say {n}") for n in range(3)]
    with run(tmp_path, *tasks) as batch:
        assert [(row.id, row.status, row.answer) for row in batch.rows] == [
            (f"t{n}", "answered", str(n)) for n in range(3)
        ]
    assert len(load_rows(tmp_path / "out")) == 3
    assert len((tmp_path / "out/predictions.jsonl").read_text().splitlines()) == 3


def test_a_finished_batch_starts_nothing(tmp_path):
    keep_books(tmp_path, Task("t", "say x"))
    rows, pool = keep_books(tmp_path, Task("t", "say x"))
    assert [row.answer for row in rows] == ["x"]
    assert pool.started == []


def test_a_task_that_changed_runs_again_and_its_old_row_stays(tmp_path):
    keep_books(tmp_path, Task("t", "say x"))
    rows, _ = keep_books(tmp_path, Task("t", "say y"))
    assert [row.answer for row in rows] == ["y"]
    assert [row.answer for row in load_rows(tmp_path / "out")] == ["x", "y"]


def test_only_failed_tasks_run_again_when_that_is_asked_for(tmp_path):
    tasks = [Task("good", "say x"), Task("bad", "say x", checks=("exit 3",))]
    keep_books(tmp_path, *tasks)
    keep_books(tmp_path, *tasks, retry_failed=True)
    assert sorted(row.id for row in load_rows(tmp_path / "out")) == ["bad", "bad", "good"]


def test_a_spent_budget_starts_no_task(tmp_path):
    told = []
    rows, pool = keep_books(
        tmp_path, *(Task(f"t{n}", "say x") for n in range(6)), jobs=1, budget_tokens=1, show=told.append
    )
    assert len(rows) == len(pool.started) == 1
    assert told[-1].total == 6


@pytest.mark.parametrize(("refusals", "status"), [(2, "answered"), (99, "error")])
def test_a_task_that_is_refused_for_load_runs_again_a_few_times(tmp_path, monkeypatch, refusals, status):
    monkeypatch.setattr(driver, "BACKOFF_S", 0.0)
    rows, pool = keep_books(tmp_path, Task("t", "say x"), pool=InstantPool(refusals))
    assert [row.status for row in rows] == [status]
    assert len(pool.started) == min(refusals + 1, driver.MAX_ATTEMPTS)


def test_a_refusal_for_load_lowers_the_number_of_tasks_that_run(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "BACKOFF_S", 0.0)
    monkeypatch.setattr(driver, "LOOK_INTERVAL_S", 1000.0)
    pool, running, refusals = InstantPool(3), [], []

    def show(progress):
        running.append(len(pool.started) - sum(running))  # in this round
        refusals.append(progress.refusal)

    rows, _ = keep_books(tmp_path, *(Task(f"t{n}", "say x") for n in range(3)), jobs=3, pool=pool, show=show)
    assert [row.status for row in rows] == ["answered"] * 3
    assert (running[0], max(running[1:])) == (3, 1)
    assert "Too busy." in refusals
    assert refusals[-1] == ""


def test_each_look_at_the_servers_changes_how_many_tasks_run(monkeypatch):
    monkeypatch.setattr(driver, "LOOK_INTERVAL_S", 0.0)
    waiting = iter([50])

    def tell(_):
        return LoopbackReply(200, "text/plain", [b"vllm:num_requests_waiting %d\n" % next(waiting, 0)])

    with serve(tell) as address, ThreadPoolExecutor(1) as executor:
        settings = make_settings(f"{address}/v1", "vllm", model="m")
        control = LoadControl([settings.vllm.base_url], 100)
        (server,) = control.replicas.values()
        server.active = 100
        look = LoadLook(control, settings, executor)
        limits = []

        def take():
            look.take()
            limits.append(server.limit)
            return server.limit

        wait_until(lambda: take() < 100, "a look at a server whose requests wait")
        wait_until(lambda: take() > min(limits), "a look at one whose requests do not wait any more")


def test_what_one_task_learns_of_the_server_serves_the_next(tmp_path):
    server = {"seen": (seen := []), "has_parser": False}
    with run(tmp_path, *(Task(f"t{n}", "say x") for n in range(2)), jobs=1, server=server):
        assert seen.count("/v1/chat/completions") == 1 + 2  # refused once


def test_the_servers_are_looked_at_again_while_tasks_run(tmp_path, monkeypatch):
    monkeypatch.setattr(driver, "LOOK_INTERVAL_S", 0.0)
    with run(tmp_path, Task("t", "say x"), server={"seen": (seen := [])}):
        assert seen.count("/metrics") > 1


def test_tasks_of_one_repository_do_not_see_each_other(tmp_path):
    repository = str(make_repository(tmp_path / "repo"))
    tasks = [Task(f"t{n}", "run ls > seen.txt; touch more", repo=repository, mode="full") for n in range(3)]
    with run(tmp_path, *tasks, jobs=3) as batch:
        assert ["+more" in row.patch for row in batch.rows] == [False] * 3


class TestPoisonedTasks:
    def test_one_that_kills_its_process_ends_alone_and_what_there_is_of_it_is_kept(self, tmp_path):
        (tmp_path / "deadly.py").write_text(DEADLY)

        def add_tool(settings):
            return replace(settings, tools=replace(settings.tools, modules=(str(tmp_path / "deadly.py"),)))

        with run(tmp_path, Task("bad", "use die"), Task("good", "use look"), adapt=add_tool) as batch:
            assert [row.status for row in batch.rows] == ["crashed", "answered"]
            bad, good = batch.rows
        assert bad.reason == "Its process ended with signal SIGKILL."
        assert (bad.calls, bad.turns, bad.tokens > 0) == (1, 1, True)
        journals = [(tmp_path / f"out/sessions/{row.session}.jsonl").read_text() for row in (bad, good)]
        assert '"name":"die"' in journals[0]
        assert re.search(r"ValueError: \S+/vllm-bot-tasks-\w+/tasks/\w+/private\b", journals[1])

    def test_one_that_takes_too_long_is_ended_with_its_commands(self, tmp_path):
        many = f"run for i in $(seq 40); do sleep {SECONDS} & done; wait"
        with run(tmp_path, Task("slow", many), timeout=4.0) as batch:
            assert [row.status for row in batch.rows] == ["timeout"]
        assert not is_running("sleep", SECONDS)


def test_nothing_is_left_when_it_is_interrupted(tmp_path):
    def interrupt(progress):
        if progress.running == 2:
            raise KeyboardInterrupt

    tasks = [Task(f"t{n}", f"run sleep {SECONDS}") for n in range(4)]
    with pytest.raises(KeyboardInterrupt), run(tmp_path, *tasks, show=interrupt):
        pass
    wait_until(lambda: not is_running("sleep", SECONDS), "the end of the commands, by their supervisor")
    assert load_rows(tmp_path / "out") == []


def test_what_a_killed_driver_left_is_removed(tmp_path):
    with open_server(tmp_path / "state") as settings:
        with open_scratch(tmp_path, settings) as scratch:
            pass
        (scratch / "tasks/x").mkdir(parents=True)
        with open_scratch(tmp_path, settings) as again:
            assert again == scratch
            assert list(again.iterdir()) == []
        assert not scratch.exists()
