"""Where a tool runs and what it may ask for; passed to each function with a ToolContext parameter.

A session has one context. `for_run` derives one for an answer, with a cancellation of its own; `for_call` derives one
for a call. Each closes at its end what was created for it (dependencies.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from pathlib import Path
from threading import Event
from typing import Any, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from ...errors import ToolError
from ...types.messages import ToolCall
from ..process.async_loop import CurrentLoop
from .dependencies import (
    TEARDOWN_TIMEOUT_S,
    DependencyKey,
    Overrides,
    Scope,
    call_factory,
    check_overrides,
    finish_async_generator,
    finish_generator,
    finish_in_loop,
    is_async,
    is_generator,
)
from .wiring import RunState, Wiring

T = TypeVar("T")


class Clock(Struct, frozen=True):
    """The time; a test may replace it."""

    now: Callable[[], float] = time.time  # seconds since 1970
    monotonic: Callable[[], float] = time.monotonic  # seconds; never goes back


class ToolContext(Struct, frozen=True, weakref=True):
    """What a tool may know of where it runs.

    `cancelled` is set when the user interrupts: a long tool checks it and raises, or waits on it instead of sleeping.
    `overrides` replace factories of dependencies: `{open_database: lambda: double}`. `wiring` is the program's own.
    """

    workspace: Path  # file tools stay inside it
    environment: Mapping[str, str] = {}  # of commands
    call: ToolCall | None = None  # the one that runs; None: there is none, as in a test
    logger: logging.Logger = logging.getLogger("vllm_bot.tools")
    clock: Clock = Clock()
    overrides: Overrides = {}
    cancelled: Event = field(default_factory=Event)
    wiring: Wiring = field(default_factory=Wiring)

    def __post_init__(self) -> None:
        check_overrides(self.overrides)

    def __repr__(self) -> str:
        return f"ToolContext(workspace={self.workspace!r}, call={self.call!r})"

    def rewire(self, **changes: Any) -> ToolContext:
        """The same context with these changes of its wiring."""
        return replace(self, wiring=replace(self.wiring, **changes))

    @contextmanager
    def for_run(self, cancelled: Event | None = None) -> Iterator[ToolContext]:
        """The context of one answer; at its end, what was created for it is closed."""
        run = RunState()
        try:
            with replace(self, cancelled=cancelled or Event()).rewire(run=run)._closing(run) as ctx:
                yield ctx
        finally:
            run.loop.close()

    @contextmanager
    def for_subagent(self) -> Iterator[ToolContext]:
        """The context of a subagent's run inside this one: its dependencies, jobs and to-dos are its own."""
        run = RunState(self.wiring.running.loop)
        own = self.rewire(todos=[], chat_jobs=None, inbox=None, run_task=None, run=run, call_scope=None)
        with replace(own, call=None)._closing(run) as ctx:
            yield ctx

    @contextmanager
    def _closing(self, run: RunState) -> Iterator[ToolContext]:
        try:
            yield self
        finally:
            run.jobs.close()
            for error in run.scope.close(self._finish):
                self.logger.warning("a dependency could not be ended: %s", error)

    @contextmanager
    def for_call(self) -> Iterator[ToolContext]:
        """The context of one call. Raises what closing a dependency raises, so that the call fails."""
        if self.wiring.run is None:
            with self.for_run() as within, within.for_call() as ctx:
                yield ctx
            return
        scope = Scope()
        ctx = self.rewire(call_scope=scope)
        try:
            yield ctx
        finally:
            failed = scope.close(ctx._finish)
        if failed:
            raise failed[0]

    @asynccontextmanager
    async def for_async_run(self, cancelled: Event) -> AsyncIterator[ToolContext]:
        """As for_run, in the event loop of the caller's program, which async tools then share."""
        from asyncio import to_thread

        run = RunState(CurrentLoop())
        try:
            yield replace(self, cancelled=cancelled).rewire(run=run)
        finally:
            if run.jobs.running:
                await to_thread(run.jobs.close)
            for error in await run.scope.close_async():
                self.logger.warning("a dependency could not be ended: %s", error)

    @asynccontextmanager
    async def for_async_call(self) -> AsyncIterator[ToolContext]:
        """As for_call, in the event loop of an async run."""
        scope = Scope()
        try:
            yield self.rewire(call_scope=scope)
        finally:
            failed = await scope.close_async()
        if failed:
            raise failed[0]

    def raise_if_cancelled(self) -> None:
        """Raises ToolError if the user has interrupted; for tools that work long without waiting."""
        if self.cancelled.is_set():
            raise ToolError("it was cancelled")

    def end_run(self, summary: str) -> None:
        """End the answer with `summary` after the calls of this turn. Raises ToolError outside a run."""
        self.wiring.running.summary = summary

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop that the async tools of the run share."""
        return self.wiring.running.loop.run(work, self.cancelled)

    def get(self, key: DependencyKey[T]) -> T:
        """The dependency, created if this is the first request. In async code its factory must not be async."""
        scope, within = self._scope_for(key)
        future, is_mine = scope.claim(key.id, self.wiring.creating)
        is_async_code = self.wiring.running.loop.is_current_thread()
        if not is_mine:
            if is_async_code and not future.done():
                raise _require_async(key)
            return cast(T, future.result())
        try:
            returned = call_factory(key.find_factory(self.overrides), within)
            if not is_async(returned):
                value = _take_value(returned)
            elif is_async_code:
                if iscoroutine(returned):
                    returned.close()  # else Python warns that it was never awaited
                raise _require_async(key)
            else:
                value = self.wait_for(_wait_for_value(returned))
            if not scope.settle(key.id, returned, value):
                if is_generator(returned):
                    finish_generator(returned, self._finish)
                raise _created_late(key)
        except BaseException as error:
            scope.fail(key.id, error)
            raise
        return cast(T, value)

    async def resolve(self, key: DependencyKey[T]) -> T:
        """The dependency, created if this is the first request, by a factory of any kind."""
        import asyncio

        scope, within = self._scope_for(key)
        future, is_mine = scope.claim(key.id, self.wiring.creating)
        if not is_mine:
            return cast(T, await asyncio.shield(asyncio.wrap_future(future)))  # not ours to cancel
        try:
            returned = call_factory(key.find_factory(self.overrides), within)
            value = await _wait_for_value(returned)
            if not scope.settle(key.id, returned, value):
                if is_generator(returned):
                    await finish_in_loop(returned)
                raise _created_late(key)
        except BaseException as error:
            scope.fail(key.id, error)
            raise
        return cast(T, value)

    def _scope_for(self, key: DependencyKey[Any]) -> tuple[Scope, ToolContext]:
        """The scope of the value, and the context for its factory."""
        if key.cached == "run":
            return self.wiring.running.scope, self.rewire(call_scope=None, creating=key.id)
        scope, maker = self.wiring.call_scope, self.wiring.creating or "a run"
        if scope is None:
            raise ToolError(f"{key.id} is cached for a call, and {maker} lives longer than that")
        return scope, self.rewire(creating=key.id)

    def _finish(self, generator: Any) -> None:
        self.wiring.running.loop.run(finish_async_generator(generator), Event(), TEARDOWN_TIMEOUT_S)


async def _wait_for_value(returned: Any) -> Any:
    if isasyncgen(returned):
        return await returned.__anext__()
    if isawaitable(returned):
        return await returned
    return _take_value(returned)


def _take_value(returned: Any) -> Any:
    """What a factory that is not async gave: itself, or what its generator yields."""
    if isgenerator(returned):
        return next(returned)
    return returned


def _created_late(key: DependencyKey[Any]) -> ToolError:
    return ToolError(f"{key.id} was created after the end of what it belongs to")


def _require_async(key: DependencyKey[Any]) -> ToolError:
    return ToolError(f"{key.id} is created by async code; ask for it with `await ctx.resolve(...)`")
