"""A cancel from elsewhere ends what a run waits for, and nothing that its task waits for afterwards."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from src.errors import Cancelled
from src.transport.async_driver import AsyncCancellation, drive_async
from src.types.effects import Sleep

counts_cancels = pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks count no cancels")


class SleepingClient:
    """Notes what it is asked for, and never ends a sleep."""

    base_url = "http://server.test"

    def __init__(self):
        self.is_asleep = asyncio.Event()

    async def sleep(self, seconds):
        self.is_asleep.set()
        await asyncio.Event().wait()


async def read_all(turn, client, cancellation, events):
    async for event in drive_async(turn, client, cancellation):
        events.append(event)


async def start_sleeping(cancellation):
    """A task that drives a turn which sleeps."""
    client = SleepingClient()
    task = asyncio.create_task(read_all(iter_steps(Sleep(9)), client, cancellation, []))
    await client.is_asleep.wait()
    return task


def iter_steps(*steps):
    yield from steps


def test_a_cancel_while_the_turn_computes_ends_it_before_its_next_wait():
    cancellation, events = AsyncCancellation(), []

    def compute():
        yield "begun"
        cancellation.cancel()
        yield Sleep(9)

    async def run():
        client = SleepingClient()
        with pytest.raises(Cancelled):
            await read_all(compute(), client, cancellation, events)
        return client.is_asleep.is_set()

    assert not asyncio.run(run())
    assert events == ["begun"]


def test_no_event_comes_after_a_cancel():
    cancellation, events = AsyncCancellation(), []

    def compute():
        yield "begun"
        cancellation.cancel()
        yield "late"

    with pytest.raises(Cancelled):
        asyncio.run(read_all(compute(), SleepingClient(), cancellation, events))
    assert events == ["begun"]


def test_the_calls_are_ended_before_the_turn_hears_of_a_cancel():
    order = []

    async def end_calls():
        order.append("calls")

    cancellation = AsyncCancellation(end_calls)

    def compute():
        cancellation.cancel()
        try:
            yield Sleep(9)
        finally:
            order.append("turn")

    with pytest.raises(Cancelled):
        asyncio.run(read_all(compute(), SleepingClient(), cancellation, []))
    assert order[:2] == ["calls", "turn"]


def test_another_thread_ends_a_wait():
    async def run():
        cancellation = AsyncCancellation()
        task = await start_sleeping(cancellation)
        threading.Thread(target=cancellation.cancel).start()
        with pytest.raises(Cancelled):
            await task

    asyncio.run(run())


def test_a_cancel_that_comes_too_late_ends_nothing_of_the_caller():
    async def run():
        cancellation, answer, left = AsyncCancellation(), asyncio.get_running_loop().create_future(), asyncio.Event()

        async def use():
            with cancellation:
                await answer
            left.set()
            await own_wait
            return "its own wait ended"

        own_wait = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(use())
        await asyncio.sleep(0)
        answer.set_result("")  # the task goes on before what cancel asks for
        cancellation.cancel()
        await left.wait()
        await asyncio.sleep(0)
        own_wait.set_result("")
        return await task

    assert asyncio.run(run()) == "its own wait ended"


@counts_cancels
def test_two_cancels_leave_the_task_as_it_was():
    async def use(cancellation):
        with pytest.raises(Cancelled):
            await read_all(iter_steps(Sleep(9)), SleepingClient(), cancellation, [])
        return asyncio.current_task().cancelling()

    async def run():
        cancellation = AsyncCancellation()
        task = asyncio.create_task(use(cancellation))
        await asyncio.sleep(0)
        cancellation.cancel()
        cancellation.cancel()
        return await task

    assert asyncio.run(run()) == 0


@counts_cancels
def test_a_task_that_is_cancelled_as_well_ends_as_cancelled():
    async def run():
        cancellation = AsyncCancellation()
        task = await start_sleeping(cancellation)
        cancellation.cancel()
        asyncio.get_running_loop().call_soon(task.cancel)  # behind what cancel asks for
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
