"""Where a tool runs and what it may ask for, handed to each function that has a ToolContext parameter.

Whoever runs the loop makes one a session; `for_run` gives one for an answer, `for_call` one for a call, each
with what it creates and ends (dependencies.py) and with a cancellation of its own.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from inspect import isasyncgen, isawaitable, iscoroutine, isgenerator
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, TypeVar, Union

from ...errors import ToolError
from ...types.sandbox import Sandbox
from ..process.async_loop import AsyncLoop
from .dependencies import DependencyKey, Factory, Scope, called, finish, is_async
from .output_store import Outputs

T = TypeVar("T")
END_TIMEOUT = 5.0  # seconds that what stands behind an async yield may take


# Told of a file right before a tool replaces or makes it: its path relative to the workspace, every link
# resolved, and what stood there (None: nothing). What it raises keeps the file from being written.
BeforeWrite = Callable[[str, Union[bytes, None]], None]


def _not_recorded(path: str, before: bytes | None) -> None:
    """Nobody wants to take writes back."""


class Clock(NamedTuple):
    """The time, so that a test can stand in for it."""

    now: Callable[[], float] = time.time  # seconds since 1970
    monotonic: Callable[[], float] = time.monotonic  # seconds since any moment, never backwards


class Run:
    """One answer of the agent: what its calls share."""

    def __init__(self) -> None:
        self.scope = Scope()
        self.background = AsyncLoop()
        self.summary: str | None = None


@dataclass(frozen=True)
class ToolContext:
    """What a tool may know of where it runs.

    `cancelled` is set when the user interrupts: a tool that takes long looks at it and raises, or waits on it
    instead of sleeping. `overrides` are factories that stand in for those of a DependencyKey, by its id.
    """

    workspace: Path  # no file tool reaches out of it
    max_file_bytes: int = 10_000_000
    protected: tuple[Path, ...] = ()  # never written by a tool, whether they exist or not
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # for commands, less its secrets
    exec_timeout: float = 120.0  # seconds
    exec_max_output: int = 30_000  # characters
    outputs: Outputs | None = None  # where whole outputs stay; None: nowhere, and what is cut off is gone
    before_write: BeforeWrite = _not_recorded
    sandbox: Sandbox | None = None  # where commands run; None: nowhere of their own
    todos: list[tuple[str, str]] = field(default_factory=list, repr=False)  # content and status, of todo_write
    logger: logging.Logger = field(default=logging.getLogger("vllm_bot.tools"), repr=False)
    clock: Clock = field(default=Clock(), repr=False)
    overrides: Mapping[str, Factory] = field(default_factory=dict, repr=False)
    cancelled: Event = field(default_factory=Event, repr=False)
    _run: Run | None = field(default=None, repr=False)
    _call: Scope | None = field(default=None, repr=False)
    _creating: str = field(default="", repr=False)

    @contextmanager
    def for_run(self, cancelled: Event | None = None) -> Iterator[ToolContext]:
        """The context of one answer; at its end, what was created for it is ended, too."""
        run = Run()
        ctx = replace(self, cancelled=cancelled or Event(), _run=run)
        try:
            yield ctx
        finally:
            for error in run.scope.close(ctx._finish):
                self.logger.warning("a dependency could not be ended: %s", error)
            run.background.close()

    @contextmanager
    def for_call(self) -> Iterator[ToolContext]:
        """The context of one call. Raises what the end of a dependency raises: the call then did not succeed."""
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

    def raise_if_cancelled(self) -> None:
        """Raises ToolError once the user has interrupted; for tools that work long without waiting."""
        if self.cancelled.is_set():
            raise ToolError("it was cancelled")

    def end_run(self, summary: str) -> None:
        """Let the answer end with `summary` once this turn's calls are answered. Raises ToolError outside a run."""
        self._running.summary = summary

    @property
    def summary(self) -> str | None:
        """What a tool ended the run with, if one did."""
        return self._running.summary

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine returns, run in the loop that the run's async tools share."""
        return self._running.background.run(work, self.cancelled)

    def get(self, key: DependencyKey[T]) -> T:
        """The dependency, created where this is the first to ask. Inside async code only one that is not async."""
        scope, within = self._place(key)
        future, is_mine = scope.claim(key.id, self._creating)
        here = self._running.background.is_current_thread()
        if not is_mine:
            if here and not future.done():
                raise _ask_async(key)
            return _typed(key, future.result())
        try:
            made = called(self._factory(key), within)
            if not is_async(made):
                value = next(made) if isgenerator(made) else made
            elif here:
                if iscoroutine(made):
                    made.close()  # else it would be said never to have been awaited
                raise _ask_async(key)
            else:
                value = self.wait_for(_awaited(made))
            scope.settle(key.id, made, value)
        except BaseException as error:
            scope.fail(key.id, error)
            raise
        return _typed(key, value)

    async def resolve(self, key: DependencyKey[T]) -> T:
        """The dependency, created where this is the first to ask, whichever kind its factory is."""
        import asyncio

        scope, within = self._place(key)
        future, is_mine = scope.claim(key.id, self._creating)
        if not is_mine:
            return _typed(key, await asyncio.shield(asyncio.wrap_future(future)))  # not ours to cancel
        try:
            made = called(self._factory(key), within)
            value = await _awaited(made)
            scope.settle(key.id, made, value)
        except BaseException as error:
            scope.fail(key.id, error)
            raise
        return _typed(key, value)

    @property
    def _running(self) -> Run:
        if self._run is None:
            raise ToolError("this context is not that of a call")
        return self._run

    def _factory(self, key: DependencyKey[Any]) -> Factory:
        return self.overrides.get(key.id, key.create)

    def _place(self, key: DependencyKey[Any]) -> tuple[Scope, ToolContext]:
        """Where the value is kept, and what its factory is given."""
        if key.cached == "run":
            return self._running.scope, replace(self, _call=None, _creating=key.id)
        if self._call is None:
            raise ToolError(f"{key.id} is cached for a call, and {self._creating or 'a run'} lives longer than that")
        return self._call, replace(self, _creating=key.id)

    def _finish(self, generator: Any) -> None:
        self._running.background.run(finish(generator), Event(), END_TIMEOUT)


async def _awaited(made: Any) -> Any:
    if isasyncgen(made):
        return await made.__anext__()
    if isawaitable(made):
        return await made
    return next(made) if isgenerator(made) else made


def _typed(_: DependencyKey[T], value: Any) -> T:
    result: T = value
    return result


def _ask_async(key: DependencyKey[Any]) -> ToolError:
    return ToolError(f"{key.id} is created by async code; ask for it with `await ctx.resolve(...)`")
