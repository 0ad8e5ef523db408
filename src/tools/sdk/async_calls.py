"""As calls.py, inside a program's own event loop: coroutine functions run as its tasks, other functions in threads."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar, cast

from ...types.messages import ToolCall, ToolResult
from .calls import CANCEL_GRACE_S, CallRunner, is_coroutine_function, start_threads
from .context import ToolContext
from .result import attempt

T = TypeVar("T")


class AsyncCallRunner(CallRunner):
    """Runs calls for one run at a time; `end` ends what it has started."""

    _tasks: set[asyncio.Task[Any]]

    def run(self, call: ToolCall, ctx: ToolContext) -> Future[ToolResult]:
        return self.start([call], ctx, 1)[0]

    def start(self, calls: Sequence[ToolCall], ctx: ToolContext, max_parallel: int) -> Sequence[Future[ToolResult]]:
        slots = asyncio.Semaphore(max_parallel)
        return [self.spawn(self._run_in_slot(call, ctx, slots)) for call in calls]

    def wait_for_end(self, futures: Collection[Future[ToolResult]]) -> None:
        """Nothing is waited for here: `end` has done that, and this would block the event loop."""

    def spawn(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine as a task of this run."""
        task, future = asyncio.get_running_loop().create_task(work), Future[T]()
        self._tasks = {*getattr(self, "_tasks", ()), task}
        task.add_done_callback(partial(self._settle, future))
        return future

    async def call(self, function: Callable[..., T | Awaitable[T]], *arguments: object) -> T:
        """Call a function of the program: in a thread, if it is no coroutine function, as it may block."""
        if is_coroutine_function(function):
            value = function(*arguments)
        else:
            value = await _run_in_thread(partial(function, *arguments))
        return (await value) if inspect.isawaitable(value) else value

    async def end(self) -> None:
        """Cancel what still runs, and wait for it a moment."""
        if tasks := getattr(self, "_tasks", None):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.5 * CANCEL_GRACE_S)  # a thread has its grace within its task
            self._tasks = set()  # one that goes on is not waited for again

    async def _run_in_slot(self, call: ToolCall, ctx: ToolContext, slots: asyncio.Semaphore) -> ToolResult:
        async with slots:
            if self.registry.is_coroutine(call.name):
                return await self.registry.run_async(call, ctx)
            (started,) = start_threads(lambda each: self.registry.run(each, ctx), [call], 1)
            return await _wait_with_grace(started)

    def _settle(self, future: Future[T], task: asyncio.Task[T]) -> None:
        self._tasks = self._tasks - {task}
        if task.cancelled():
            future.cancel()
        elif error := task.exception():
            future.set_exception(error)
        else:
            future.set_result(task.result())


async def _run_in_thread(function: Callable[[], T]) -> T:
    failed: list[Exception] = []

    def note(error: Exception) -> None:
        failed.append(error)

    (future,) = start_threads(lambda _: attempt(function, note), [None], 1)
    value = await asyncio.wrap_future(future)
    if failed:
        raise failed[0]
    return cast(T, value)


async def _wait_with_grace(started: Future[T]) -> T:
    """Its result. What runs in a thread cannot be cancelled: if it ends within the grace, its result counts."""
    waiter = asyncio.wrap_future(started)
    try:
        return await asyncio.shield(waiter)
    except asyncio.CancelledError:
        await asyncio.wait([waiter], timeout=CANCEL_GRACE_S)
        if waiter.done() and not waiter.cancelled():
            return waiter.result()
        raise
