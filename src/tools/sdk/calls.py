"""How calls run: one alone in the thread of its caller, several at once in threads of their own, as all of a program.

A daemon thread does not hold up the program's exit when a call hangs, as one of a ThreadPoolExecutor would.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TypeVar

from ...types.messages import ToolCall, ToolResult
from .context import ToolContext
from .registry import Registry

A = TypeVar("A")
R = TypeVar("R")
CANCEL_GRACE_S = 1.0  # that interrupted calls have to end


class CallRunner:
    """Runs the calls of tools in `registry`."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def run(self, call: ToolCall, ctx: ToolContext) -> ToolResult | Future[ToolResult]:
        """Run one call."""
        return self.registry.run(call, ctx)

    def start(self, calls: Sequence[ToolCall], ctx: ToolContext, max_parallel: int) -> Sequence[Future[ToolResult]]:
        """Start the calls, the first ones first, at most `max_parallel` at a time."""
        return start_threads(lambda call: self.registry.run(call, ctx), calls, max_parallel)

    def runs_aside(self, name: str) -> bool:
        """Whether one call of the tool runs in a thread of its own, while its caller listens."""
        return self.registry.runs_aside(name)

    def wait_for_end(self, futures: Collection[Future[ToolResult]]) -> None:
        """Give calls that were interrupted a moment to end."""
        wait(futures, CANCEL_GRACE_S)


class ThreadCallRunner(CallRunner):
    """Runs each call in a thread of its own, so that its caller can leave it. The thread goes on to its end."""

    def runs_aside(self, name: str) -> bool:
        del name
        return True


def start_threads(run: Callable[[A], R], arguments: Sequence[A], max_threads: int) -> list[Future[R]]:
    """Call `run` with each of the arguments, the first ones first, in daemon threads."""
    futures: list[Future[R]] = [Future() for _ in arguments]
    tasks: SimpleQueue[tuple[Future[R], A]] = SimpleQueue()
    for task in zip(futures, arguments, strict=True):
        tasks.put(task)

    def work() -> None:
        while True:
            try:
                future, argument = tasks.get_nowait()
            except Empty:
                return
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(run(argument))
            except (KeyboardInterrupt, SystemExit) as error:  # for the program: raised where the result is waited for
                future.set_exception(error)
            finally:
                if not future.done():  # an error of ours, which must not leave the program waiting
                    future.set_exception(SystemExit(f"{argument} broke its thread"))

    for number in range(min(max_threads, len(arguments))):
        Thread(target=copy_context().run, args=(work,), daemon=True, name=f"call {number}").start()
    return futures


def is_coroutine_function(function: object) -> bool:
    """Whether calling it gives a coroutine, as far as can be told without calling it."""
    if inspect.iscoroutinefunction(function):
        return True
    return callable(function) and inspect.iscoroutinefunction(type(function).__call__)
