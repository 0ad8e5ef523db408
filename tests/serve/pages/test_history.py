"""What the page shows of the last hour."""

from __future__ import annotations

import asyncio
import multiprocessing
import sqlite3

import pytest
from aiohttp.test_utils import TestClient, TestServer

from src.app.state_files import ServerMemory
from src.serve.gateway import Gateway
from src.serve.pages.history import MAX_CALLS, History
from src.serve.pages.metrics import Metrics
from src.serve.upstreams import Replica, Upstreams
from src.transport.async_http import AsyncClient
from tests.thorough import only_thorough

HOUR_S = 3600.0


def make_entry(*calls, id="1", first_byte=0.5, tokens=None):
    """A request in which calls landed so."""
    landed = [{"name": f"tool {how}", "how": how, "origin": "hermes"} for how in calls]
    return {"id": id, "model": "m", "first_byte_s": first_byte, "calls": landed} | (
        {"tokens": tokens} if tokens else {}
    )


def test_requests_of_a_minute_are_summed_by_model(tmp_path):
    now = 600.0
    history = History(tmp_path, lambda: now)
    history.add(make_entry("native", "native", "lost", tokens={"prompt": 10, "cached": 5, "completion": 3}), "m")
    history.add(make_entry("text"), "m")
    history.add(make_entry(), "other")
    now = 660.0
    history.add(make_entry("text"), "m")
    assert history.read_minutes() == [
        {"minute": 10, "model": "m", "native": 2, "lost": 1, "text": 1}
        | {"requests": 2, "first_byte": 1.0, "prompt": 10, "cached": 5},
        {"minute": 10, "model": "other", "requests": 1, "first_byte": 0.5},
        {"minute": 11, "model": "m", "text": 1, "requests": 1, "first_byte": 0.5},
    ]
    assert [row["minute"] for row in history.read_minutes(since=11)] == [11]


def test_what_is_older_than_an_hour_goes(tmp_path):
    now = 600.0
    history = History(tmp_path, lambda: now)
    history.add(make_entry("native"), "m")
    now += HOUR_S
    assert history.read_minutes() == []
    history.add(make_entry("native"), "m")
    assert [row["minute"] for row in history.read_minutes()] == [70]
    with sqlite3.connect(tmp_path / "history.sqlite") as database:
        assert {minute for (minute,) in database.execute("select minute from minutes")} == {70}


def test_the_last_calls_are_told_once_with_what_was_done_to_their_request(tmp_path):
    history = History(tmp_path)
    assert history.read_calls() == (0, [])
    history.add(make_entry("native", "repaired", id="a"), "m")
    last, calls = history.read_calls()
    assert [(call["id"], call["name"], call["how"]) for call in calls] == [
        ("a", "tool native", "native"),
        ("a", "tool repaired", "repaired"),
    ]
    assert "calls" not in calls[0]
    assert history.read_calls(last) == (last, [])
    for number in range(MAX_CALLS + 20):
        history.add(make_entry("text", id=str(number)), "m")
    last, calls = history.read_calls()
    assert [call["id"] for call in calls] == [str(number) for number in range(20, MAX_CALLS + 20)]


def add_many(folder):
    history = History(folder)
    for _ in range(50):
        history.add(make_entry("native"), "m")


@only_thorough
def test_workers_see_what_all_of_them_have_answered(tmp_path):
    History(tmp_path)
    workers = [multiprocessing.get_context("spawn").Process(target=add_many, args=(tmp_path,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sum(row["native"] for row in History(tmp_path).read_minutes()) == 100


def test_a_file_that_cannot_be_written_is_told_once_and_fails_no_request(tmp_path, caplog):
    history = History(tmp_path)
    history.close()
    history.add(make_entry("native"), "m")
    history.add(make_entry("native"), "m")
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("The page lacks requests: ")


def test_the_file_is_closed_when_the_gateway_ends(tmp_path):
    metrics = Metrics(tmp_path)

    async def run():
        upstreams = Upstreams([Replica(AsyncClient("http://127.0.0.1:9/v1"), ServerMemory(tmp_path))])
        async with TestClient(TestServer(Gateway(upstreams, metrics).make_app())):
            assert metrics.history.read_minutes() == []

    asyncio.run(run())
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        metrics.history.read_minutes()
