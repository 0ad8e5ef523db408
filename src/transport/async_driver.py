"""As driver.py, on asyncio: performs the effects of a turn on one AsyncClient.

A task that is cancelled raises Cancelled inside the turn, and then CancelledError, as tasks do.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, TypeVar, Union

from ..errors import BotError, Cancelled
from ..types.effects import EFFECTS, Aside, Await, Effect, Fetch, Read, Release, Reply, Sleep
from .async_http import AsyncClient, AsyncReply
from .deadlines import CANCELLED
from .driver import naming_server

T = TypeVar("T")
E = TypeVar("E")  # an event


async def do_nothing() -> None:
    """Nothing runs besides the turn."""


class AsyncCancellation:
    """Lets another task, or thread, end what a run waits for: a block `with` it raises Cancelled from then on.

    `end_calls` ends the calls that the run has started; it is awaited before the run itself is closed.
    """

    def __init__(self, end_calls: Callable[[], Awaitable[None]] = do_nothing) -> None:
        self.end_calls = end_calls
        self.is_set = False
        self._task: asyncio.Task[Any] | None = None  # that is in the block, and is not interrupted yet
        self._cancels_before = 0  # of that task, by others

    def cancel(self) -> None:
        """Where it is cancelled already, nothing happens."""
        self.is_set = True
        if task := self._task:
            task.get_loop().call_soon_threadsafe(self._interrupt)

    def _interrupt(self) -> None:
        """Cancel the task if it still is in the block: whatever it awaits later is not ours. Runs in its event loop."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def __enter__(self) -> None:
        """Raises Cancelled."""
        self._task = task = asyncio.current_task()
        if self.is_set:  # read once the task is known: a cancel of another thread is seen here, or sees the task
            self._task = None
            raise Cancelled(CANCELLED)
        if sys.version_info >= (3, 11) and task:
            self._cancels_before = task.cancelling()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raises Cancelled where `cancel` ended the block. A task that others cancel, too, goes on as cancelled."""
        was_interrupted, self._task = self._task is None, None
        if not was_interrupted:
            return
        task = asyncio.current_task()
        if sys.version_info >= (3, 11) and task and task.uncancel() > self._cancels_before:
            return
        if isinstance(error, asyncio.CancelledError):
            raise Cancelled(CANCELLED) from None


async def drive_async(
    turn: Generator[Union[Effect, E], Any, object], client: AsyncClient, cancellation: AsyncCancellation | None = None
) -> AsyncGenerator[E, None]:
    """The events of a turn, or of an agent's run. Raises what it raises."""
    answers, cancellation = _AsyncAnswers(client), cancellation or AsyncCancellation()
    try:
        with naming_server(client.base_url), suppress(StopIteration):
            step = next(turn)
            while True:
                if cancellation.is_set:
                    await cancellation.end_calls()
                    step = turn.throw(Cancelled(CANCELLED))
                elif isinstance(step, EFFECTS):
                    try:
                        with cancellation:
                            work = answers.read() if isinstance(step, Read) else answers.perform(step)
                            answer = await work
                    except BotError as error:
                        if cancellation.is_set:
                            await cancellation.end_calls()
                        step = turn.throw(error)
                    except asyncio.CancelledError:
                        answers.abandon()
                        await cancellation.end_calls()
                        with suppress(Cancelled, StopIteration):
                            turn.throw(Cancelled(CANCELLED))
                        raise
                    else:
                        step = turn.send(answer)
                else:
                    yield step
                    step = next(turn)
    finally:
        answers.abandon()
        await cancellation.end_calls()
        turn.close()


async def run_async(aside: Aside[T], client: AsyncClient) -> T:
    """The result of a generator that gives no events. Raises what it raises."""
    results: list[T] = []

    def keep() -> Aside[None]:
        results.append((yield from aside))

    async for _ in drive_async(keep(), client):
        pass
    return results[0]


class _AsyncAnswers:
    """Performs effects. At most one answer is open."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._reply: AsyncReply | None = None

    async def perform(self, effect: Effect) -> Any:
        """Raises ClientError."""
        if isinstance(effect, Await):
            if not effect.keeps_answer:
                self.abandon()
            return await wait_for(effect.future)
        if self._reply is not None:
            if isinstance(effect, Read):  # of a refusal, whose API key may span chunks
                return await self._reply.read_all() or None
            if isinstance(effect, Release):
                reply, self._reply = self._reply, None
                return await reply.release()
            self.abandon()
        if isinstance(effect, Sleep):
            return await self._client.sleep(effect.seconds)
        if isinstance(effect, (Read, Release)):
            return None  # no answer is open
        if isinstance(effect, Fetch):
            self._reply = asked = await self._client.open(effect.method, effect.path, effect.body, within=effect.within)
            body = await asked.read_all()
            await self.perform(Release())
            return Reply(asked.head, body)
        self._reply = await self._client.open(effect.method, effect.path, effect.body)
        return self._reply.head

    def read(self) -> Awaitable[bytes | None]:
        """As perform(Read()), and quicker where bytes of an answer are read."""
        reply = self._reply
        return self.perform(Read()) if reply is None or reply.head.is_error else reply.read()

    def abandon(self) -> None:
        """End the open answer, if there is one, and its connection."""
        if self._reply is not None:
            self._reply.close()
            self._reply = None


async def wait_for(future: Future[T]) -> T:
    """Its result. Whoever waits is cancelled alone: others may wait for it too."""
    if not future.done():
        waiter = asyncio.wrap_future(future)
        waiter.add_done_callback(lambda done: done.cancelled() or done.exception())  # else asyncio logs an error
        await asyncio.wait([waiter])
    return future.result()
