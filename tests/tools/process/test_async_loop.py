"""The loop of async tools: how a wait ends, and what is left when it closes."""

from __future__ import annotations

import asyncio
import threading

import pytest

from src.errors import ToolError
from src.tools.process.async_loop import AsyncLoop
from tests.waiting import PATIENCE_S


@pytest.fixture
def loop():
    loop = AsyncLoop()
    yield loop
    loop.close()


async def wait_for_ever(ended):
    try:
        await asyncio.Event().wait()
    finally:
        ended.set()


def test_what_takes_longer_than_its_time_is_cancelled(loop):
    ended = threading.Event()
    with pytest.raises(ToolError, match="it took longer than 0.01 s"):
        loop.run(wait_for_ever(ended), threading.Event(), 0.01)
    assert ended.wait(PATIENCE_S)


def test_closing_cancels_what_still_runs(loop):
    ended, began = threading.Event(), threading.Event()

    async def begin():
        began.set()
        await wait_for_ever(ended)

    loop.start(begin())
    assert began.wait(PATIENCE_S)
    loop.close()
    assert ended.is_set()


def test_what_runs_when_the_user_interrupts_is_cancelled(loop):
    ended, cancelled = threading.Event(), threading.Event()

    async def begin():
        cancelled.set()
        await wait_for_ever(ended)

    with pytest.raises(ToolError, match="it was cancelled"):
        loop.run(begin(), cancelled)
    assert ended.wait(PATIENCE_S)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_a_task_that_would_end_the_program_ends_alone(loop, error):
    async def fail():
        raise error

    async def gather():
        await asyncio.gather(fail(), asyncio.sleep(0))

    async def answer():
        return 42

    for work in (gather(), fail()):
        with pytest.raises(type(error)):
            loop.run(work, threading.Event())
    assert loop.run(answer(), threading.Event()) == 42


def test_a_loop_that_a_coroutine_stops_goes_on(loop):
    async def stop():
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0)
        return 42

    assert loop.run(stop(), threading.Event()) == 42


@pytest.mark.parametrize("gives_way", [True, False], ids=["ends when cancelled", "goes on when cancelled"])
def test_a_call_whose_loop_closes_ends_with_an_error(loop, monkeypatch, gives_way):
    monkeypatch.setattr("src.tools.process.async_loop.CANCEL_GRACE_S", 0.05)
    began, raised = threading.Event(), []

    async def hold():
        began.set()
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                if gives_way:
                    raise

    def run():
        try:
            loop.run(hold(), threading.Event())
        except ToolError as error:
            raised.append(error.message)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert began.wait(PATIENCE_S)
    loop.close()
    thread.join(PATIENCE_S)
    assert raised == ["it was cancelled"]


def test_it_can_be_closed_twice_and_used_again(loop):
    async def answer():
        return 42

    loop.close()
    assert loop.run(answer(), threading.Event()) == 42
    loop.close()
    assert loop.run(answer(), threading.Event()) == 42
