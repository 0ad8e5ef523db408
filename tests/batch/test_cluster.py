"""The gate of the tasks on a cluster. What Ray does with it is tested in tests/live/test_ray.py."""

import pytest

from src.batch.cluster import SHUT, Gate
from tests.batch.script import open_server


@pytest.fixture
def gate(tmp_path):
    with open_server(tmp_path) as settings:
        gate = Gate((settings.vllm.base_url,), 1, settings)
        yield gate
        gate.shut()


def test_a_task_waits_while_all_jobs_are_taken(gate):
    assert gate.acquire(1)
    assert gate.acquire(2) is None
    gate.release(1, is_overload=False)
    assert gate.acquire(2)


def test_a_task_that_ray_runs_again_holds_one_place(gate):
    assert gate.acquire(1)
    assert gate.acquire(1)
    gate.release(1, is_overload=False)
    assert gate.acquire(2)


def test_no_task_starts_once_it_is_shut(gate):
    gate.shut()
    assert gate.acquire(1) == SHUT
