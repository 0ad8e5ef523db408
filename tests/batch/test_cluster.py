"""What stands between the tasks and a cluster. What Ray does with it is tested in tests/live/test_ray.py."""

from types import SimpleNamespace

import pytest

from src.batch.cluster import SHUT, Gate, make_runtime_env
from src.errors import ConfigError
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


class StrictRuntimeEnv(dict):
    """In place of Ray's: it takes texts as variables only, and says why in more than one line."""

    def __init__(self, **given):
        super().__init__(given)
        if not all(isinstance(value, str) for value in self.env_vars().values()):
            raise TypeError("env_vars must be texts.\nThey are not.")

    def env_vars(self):
        return self.get("env_vars", {})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"env_vars": 5}, "--ray-runtime-env: env_vars: expected an object of names and texts."),
        ({"env_vars": {"A": 1}}, "--ray-runtime-env: env_vars must be texts."),
    ],
)
def test_a_runtime_env_that_ray_does_not_take_is_refused(given, told):
    with pytest.raises(ConfigError) as error:
        make_runtime_env(FAKE_RAY, given)
    assert error.value.message == told


def test_the_workers_of_ray_find_this_program_unless_the_user_says_where(monkeypatch):
    monkeypatch.setattr("sys.path", ["/program", ""])
    assert make_runtime_env(FAKE_RAY, {"pip": ["pytest"]})["env_vars"] == {"PYTHONPATH": "/program"}
    own = {"PYTHONPATH": "/elsewhere", "A": "b"}
    assert make_runtime_env(FAKE_RAY, {"env_vars": own})["env_vars"] == own


FAKE_RAY = SimpleNamespace(runtime_env=SimpleNamespace(RuntimeEnv=StrictRuntimeEnv))
