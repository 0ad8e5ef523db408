"""Where a tool runs and what it may ask for; passed to each function with a ToolContext parameter.

A session has one context. `for_run` derives one for an answer, with a cancellation of its own; `for_call` derives one
for a call. Each closes at its end what was created for it (dependencies.py).
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from pathlib import Path
from threading import Event, Lock
from typing import Any, NamedTuple, Protocol, TypeVar, Union, cast

from ...errors import ToolError
from ...types.messages import ToolCall
from ...types.process import StartedProcess
from ...types.sandbox import Access, Grant, Sandbox
from ..process.async_loop import AsyncLoop, CurrentLoop
from ..process.jobs import Jobs
from .dependencies import (
    TEARDOWN_TIMEOUT_S,
    DependencyKey,
    Factory,
    Overrides,
    Scope,
    call_factory,
    check_overrides,
    finish_async_generator,
    is_async,
)
from .output_store import Outputs

T = TypeVar("T")


# Called before a tool replaces or creates a file, with its path relative to the workspace, links resolved, and its old
# content (None: no file). The file is not written if it raises.
BeforeWrite = Callable[[str, Union[bytes, None]], None]


# Entered around a call, with whether the call can change nothing but files.
WatchFiles = Callable[[bool], AbstractContextManager[None]]
OnProcess = Callable[[StartedProcess], None]  # called for a command, perhaps by several threads
OnOutput = Callable[[str, str], None]  # called with a call's id and what its command prints, perhaps by several threads


@dataclass
class CommandReport:
    """What the loop learns of a command that failed; `widest_access`, what a call can name, is for the command.

    `explanation`: what its access does not include, "" if that cannot be why it failed. `named_none`: the call named
    no access, it was run with read, and more access may cure it.
    """

    widest_access: Access = "network"
    exit_code: int = 0
    explanation: str = ""
    named_none: bool = False


class RunTask(Protocol):
    """Runs a subagent to its end, in the thread of its call; returns its report. Raises ToolError if there is none."""

    def __call__(self, prompt: str, ctx: ToolContext, *, may_change: bool, server: str) -> str: ...


class Inbox:
    """What calls in threads of their own tell the loop that waits for them: events, and questions for the user."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._items: list[Any] = []
        self._arrival: Future[None] = Future()

    def put(self, item: object) -> None:
        self.wake(item)

    def wake(self, *items: object) -> None:
        """Have the loop look at the inbox, and at what it waits for."""
        with self._lock:
            self._items += items
            arrival, self._arrival = self._arrival, Future()
        arrival.set_result(None)

    def take(self) -> tuple[list[Any], Future[None]]:
        """What has come, and what is settled once there is more."""
        with self._lock:
            items, self._items = self._items, []
            return items, self._arrival


class Clock(NamedTuple):
    """The time; a test may replace it."""

    now: Callable[[], float] = time.time  # seconds since 1970
    monotonic: Callable[[], float] = time.monotonic  # seconds; never goes back


class RunState:
    """What the calls of one answer share."""

    def __init__(self, loop: AsyncLoop | None = None) -> None:
        self.scope = Scope()
        self.jobs = Jobs()
        self.loop = loop or AsyncLoop()
        self.summary: str | None = None


@dataclass(frozen=True)
class ToolContext:
    """What a tool may know of where it runs.

    `cancelled` is set when the user interrupts: a long tool checks it and raises, or waits on it instead of sleeping.
    `overrides` replace factories of dependencies: `{open_database: lambda: double}`.
    """

    workspace: Path  # file tools stay inside it
    max_file_bytes: int = 10_000_000
    protected: tuple[Path, ...] = ()  # paths that no tool writes, whether they exist or not
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # of commands
    exec_timeout: float = 120.0  # seconds
    exec_max_timeout: float = 3600.0  # seconds; the longest that a call may name
    exec_max_output: int = 30_000  # characters
    can_show: Callable[[str, str], bool] = lambda *_: True  # whether a tool that searches may show a file, by its path
    outputs: Outputs | None = None  # where whole outputs are stored; None: nowhere
    before_write: BeforeWrite = lambda *_: None
    on_start: OnProcess = lambda _: None  # called when a command has started
    watch_files: WatchFiles = lambda _: nullcontext()  # for calls that may change files and do not say which
    on_end: OnProcess = lambda _: None  # called when one in the background has ended
    on_output: OnOutput = lambda *_: None
    sandbox: Sandbox | None = None  # None: commands run without one
    chat_jobs: Jobs | None = None  # where commands in the background outlive the answer; None: they end with it
    access: Grant | None = None  # what this call was allowed; None: what it names
    report: CommandReport = field(default_factory=CommandReport, repr=False)
    call: ToolCall | None = None  # the one that runs; None: there is none, as in a test
    inbox: Inbox | None = None  # of the loop that waits for the call; None: it waits for the result alone
    run_task: RunTask | None = None  # None: no subagent can be started
    todos: list[tuple[str, str]] = field(default_factory=list, repr=False)  # content and status, of todo_write
    logger: logging.Logger = field(default=logging.getLogger("vllm_bot.tools"), repr=False)
    clock: Clock = field(default=Clock(), repr=False)
    overrides: Overrides = field(default_factory=dict, repr=False)
    cancelled: Event = field(default_factory=Event, repr=False)
    _run: RunState | None = field(default=None, repr=False)
    _call: Scope | None = field(default=None, repr=False)
    _creating: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        check_overrides(self.overrides)

    @contextmanager
    def for_run(self, cancelled: Event | None = None) -> Iterator[ToolContext]:
        """The context of one answer; at its end, what was created for it is closed."""
        run = RunState()
        try:
            with replace(self, cancelled=cancelled or Event(), _run=run)._closing(run) as ctx:
                yield ctx
        finally:
            run.loop.close()

    @contextmanager
    def for_subagent(self) -> Iterator[ToolContext]:
        """The context of a subagent's run inside this one: its dependencies, jobs and to-dos are its own."""
        run = RunState(self._running.loop)
        ctx = replace(self, todos=[], chat_jobs=None, call=None, inbox=None, run_task=None, _run=run, _call=None)
        with ctx._closing(run):
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
        if self._run is None:
            with self.for_run() as within, within.for_call() as ctx:
                yield ctx
            return
        scope = Scope()
        ctx = replace(self, _call=scope)
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
            yield replace(self, cancelled=cancelled, _run=run)
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
            yield replace(self, _call=scope)
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
        self._running.summary = summary

    @property
    def jobs(self) -> Jobs:
        """The commands in the background, of the chat or of this answer. Raises ToolError outside a run."""
        return self.chat_jobs or self._running.jobs

    @property
    def summary(self) -> str | None:
        """The summary of the tool that ended the run, if one did."""
        return self._running.summary

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop that the async tools of the run share."""
        return self._running.loop.run(work, self.cancelled)

    def get(self, key: DependencyKey[T]) -> T:
        """The dependency, created if this is the first request. In async code its factory must not be async."""
        scope, within = self._scope_for(key)
        future, is_mine = scope.claim(key.id, self._creating)
        is_async_code = self._running.loop.is_current_thread()
        if not is_mine:
            if is_async_code and not future.done():
                raise _require_async(key)
            return cast(T, future.result())
        try:
            returned = call_factory(self._factory(key), within)
            if not is_async(returned):
                value = next(returned) if isgenerator(returned) else returned
            elif is_async_code:
                if iscoroutine(returned):
                    returned.close()  # else Python warns that it was never awaited
                raise _require_async(key)
            else:
                value = self.wait_for(_wait_for_value(returned))
            scope.settle(key.id, returned, value)
        except BaseException as error:
            scope.fail(key.id, error)
            raise
        return cast(T, value)

    async def resolve(self, key: DependencyKey[T]) -> T:
        """The dependency, created if this is the first request, by a factory of any kind."""
        import asyncio

        scope, within = self._scope_for(key)
        future, is_mine = scope.claim(key.id, self._creating)
        if not is_mine:
            return cast(T, await asyncio.shield(asyncio.wrap_future(future)))  # not ours to cancel
        try:
            returned = call_factory(self._factory(key), within)
            value = await _wait_for_value(returned)
            scope.settle(key.id, returned, value)
        except BaseException as error:
            scope.fail(key.id, error)
            raise
        return cast(T, value)

    @property
    def _running(self) -> RunState:
        if self._run is None:
            raise ToolError("this context is not that of a call")
        return self._run

    def _factory(self, key: DependencyKey[Any]) -> Factory:
        return key.find_factory(self.overrides)

    def _scope_for(self, key: DependencyKey[Any]) -> tuple[Scope, ToolContext]:
        """The scope of the value, and the context for its factory."""
        if key.cached == "run":
            return self._running.scope, replace(self, _call=None, _creating=key.id)
        if self._call is None:
            raise ToolError(f"{key.id} is cached for a call, and {self._creating or 'a run'} lives longer than that")
        return self._call, replace(self, _creating=key.id)

    def _finish(self, generator: Any) -> None:
        self._running.loop.run(finish_async_generator(generator), Event(), TEARDOWN_TIMEOUT_S)


async def _wait_for_value(returned: Any) -> Any:
    if isasyncgen(returned):
        return await returned.__anext__()
    if isawaitable(returned):
        return await returned
    return next(returned) if isgenerator(returned) else returned


def _require_async(key: DependencyKey[Any]) -> ToolError:
    return ToolError(f"{key.id} is created by async code; ask for it with `await ctx.resolve(...)`")
