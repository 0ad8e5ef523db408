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


def test_it_can_be_closed_twice_and_used_again(loop):
    async def answer():
        return 42

    loop.close()
    assert loop.run(answer(), threading.Event()) == 42
    loop.close()
    assert loop.run(answer(), threading.Event()) == 42
