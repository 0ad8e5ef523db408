"""How many tasks run on each server."""

from src.app.endpoint import make_settings
from src.batch.load import LoadControl, fetch_waiting
from src.cli.demo.loopback import LoopbackReply, serve


def fill(control):
    taken = []
    while (address := control.acquire()) is not None:
        taken.append(address)
    return taken


def test_no_more_than_the_jobs_run_spread_over_the_servers():
    control = LoadControl(["a", "b"], 6)
    assert sorted(fill(control)) == ["a", "a", "a", "b", "b", "b"]


def test_where_requests_wait_fewer_tasks_run():
    control = LoadControl(["a"], 100)
    fill(control)
    control.note_waiting("a", 40)
    for _ in range(100):
        control.release("a")
    assert len(fill(control)) == 75


def test_a_refusal_for_load_lowers_the_number_of_tasks():
    control = LoadControl(["a"], 100)
    fill(control)
    for _ in range(99):
        control.release("a")
    control.release("a", is_overload=True)
    assert len(fill(control)) == 1


def test_the_number_grows_by_one_at_each_look_up_to_the_jobs():
    control = LoadControl(["a"], 4)
    fill(control)
    control.note_waiting("a", 9)
    for _ in range(4):
        control.release("a")
    assert len(fill(control)) == 3
    control.note_waiting("a", 0)
    assert len(fill(control)) == 1
    control.note_waiting("a", 0)
    assert fill(control) == []


def test_at_least_one_task_runs():
    control = LoadControl(["a"], 2)
    for _ in range(20):
        control.note_waiting("a", 50)
    assert fill(control) == ["a"]


def test_the_requests_that_wait_are_those_of_all_engines():
    text = b'# HELP x\nvllm:num_requests_waiting{engine="0"} 2.0\nvllm:num_requests_waiting{engine="1"} 1e1\nvllm:num_requests_waiting_by_reason{engine="0"} 7.0\n'
    with serve(lambda _: LoopbackReply(200, "text/plain", [text])) as address:
        assert fetch_waiting(make_settings(f"{address}/v1", "vllm", model="m")) == 12


def test_a_server_that_does_not_say_is_no_error():
    with serve(lambda _: LoopbackReply(404, "text/plain", [b"no"])) as address:
        assert fetch_waiting(make_settings(f"{address}/v1", "vllm", model="m")) is None
    assert fetch_waiting(make_settings(f"{address}/v1", "vllm", model="m")) is None
