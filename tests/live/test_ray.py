"""A batch on a real Ray cluster, which is started here."""

import os
import signal
from collections.abc import Iterator
from contextlib import suppress

import pytest

from src.batch.cluster import make_runtime_env
from src.batch.results import load_rows
from src.batch.tasks import Task
from src.errors import ConfigError
from tests.batch.test_driver import run
from tests.processes import find_processes, read_process_file

pytestmark = [pytest.mark.live, pytest.mark.filterwarnings("ignore")]  # Ray warns of itself


@pytest.fixture(autouse=True)
def mark(monkeypatch, tmp_path):
    """What the environment of this test's workers holds."""
    pytest.importorskip("ray", reason="Ray is not installed")
    monkeypatch.setenv("VLLM_BOT_TEST", str(tmp_path))
    return f"VLLM_BOT_TEST={tmp_path}\0"


def find_workers(mark: str) -> Iterator[int]:
    """The processes of Ray that run tasks of this test."""
    for pid in find_processes("environ", mark.encode()):
        if read_process_file(pid, "cmdline").startswith(b"ray::Map"):
            yield pid


def test_ray_gives_the_rows_of_the_pool(tmp_path):
    tasks = [Task("a", "say x"), Task("b", "write b.txt", checks=("test -f b.txt",))]
    rows = []
    for ray in (None, ""):
        with run(tmp_path / f"ray {ray}", *tasks, ray=ray) as batch:
            rows.append([row._replace(seconds=0, session="") for row in batch.rows])
    assert rows[0] == rows[1]


def test_a_task_whose_worker_is_killed_runs_again_and_no_row_is_lost_or_repeated(tmp_path, mark):
    killed = []

    def kill(_):
        for worker in [] if len(killed) >= 3 else find_workers(mark):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)

    tasks = [Task(f"t{number}", f"write {number}.txt") for number in range(8)]
    with run(tmp_path / "on ray", *tasks, ray="", show=kill) as batch:
        assert {row.status for row in batch.rows} == {"answered"}
    assert killed
    assert sorted(row.id for row in load_rows(tmp_path / "on ray/out")) == sorted(task.id for task in tasks)


@pytest.mark.parametrize("given", [{"env_vars": 5}, {"env_vars": {"A": 1}}, {"pip": 5}, {"pip": ["a"], "conda": "b"}])
def test_a_runtime_env_that_ray_does_not_take_is_refused(given):
    import ray.runtime_env

    with pytest.raises(ConfigError, match="--ray-runtime-env: .*"):
        make_runtime_env(ray, given)
