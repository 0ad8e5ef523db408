"""Dependencies of tools, such as a database: created once per call or run, and closed at its end.

    DATABASE = DependencyKey("database", open_database, cached="run")

`create` takes the ToolContext, or nothing. It is a function, which may be async, or a generator that yields the value
once; the code after its yield runs at the end of the call or run. A Scope holds the values; parallel calls that ask for
the same key get the same value. It records which dependency needs which, so that a circle is an error and not a
deadlock.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ...errors import ToolError
from .result import attempt

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
TEARDOWN_TIMEOUT_S = 5.0  # for the code after an async yield
Factory = Callable[..., Any]  # of a value, an awaitable of one, or a generator that yields one


@dataclass(frozen=True, eq=False)
class DependencyKey(Generic[T]):
    """The key for `ctx.get(key)` and `await ctx.resolve(key)`; overrides name it by its `id`."""

    id: str
    create: Callable[..., T | Awaitable[T] | Generator[T, None, None] | AsyncGenerator[T, None]]
    cached: Literal["call", "run"] = "call"


class Scope:
    """The values created for a call, or for a run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, Future[Any]] = {}
        self._needs: dict[str, set[str]] = {}
        self._generators: list[object] = []  # sync and async

    def claim(self, key_id: str, needed_by: str) -> tuple[Future[Any], bool]:
        """The future of the value, and whether the caller has to create it.

        `needed_by` is the dependency that the caller is creating, if any. Raises ToolError if that needs itself.
        """
        from concurrent.futures import Future

        with self._lock:
            if needed_by:
                self._needs.setdefault(needed_by, set()).add(key_id)
                if path := self._find_path(key_id, needed_by):
                    raise ToolError(f"dependencies need each other in a circle: {' -> '.join([needed_by, *path])}")
            if key_id in self._values:
                return self._values[key_id], False
            self._values[key_id] = Future()
            return self._values[key_id], True

    def settle(self, key_id: str, returned: object, value: object) -> None:
        """Set the value; `returned` is what the factory returned, perhaps a generator to close later."""
        with self._lock:
            if inspect.isgenerator(returned) or inspect.isasyncgen(returned):
                self._generators.append(returned)
            self._values[key_id].set_result(value)

    def fail(self, key_id: str, error: BaseException) -> None:
        """Raise the error in callers that wait; a later one tries again."""
        with self._lock:
            self._values.pop(key_id).set_exception(error)

    def close(self, finish_async: Callable[[Any], None]) -> list[Exception]:
        """Run the code after each yield, the last created first; returns what that raised."""
        failed: list[Exception] = []

        def end(generator: Any) -> None:
            finish_async(generator) if inspect.isasyncgen(generator) else _finish_sync(generator)

        while self._generators:
            attempt(partial(end, self._generators.pop()), failed.append)
        return failed

    async def close_async(self) -> list[Exception]:
        """As close, in an event loop."""
        import asyncio

        failed: list[Exception] = []
        while self._generators:
            generator: Any = self._generators.pop()
            if inspect.isasyncgen(generator):
                ending = asyncio.wait_for(finish_async_generator(generator), TEARDOWN_TIMEOUT_S)
                (error,) = await asyncio.gather(ending, return_exceptions=True)
                failed += [error] if isinstance(error, Exception) else []
            else:
                attempt(partial(_finish_sync, generator), failed.append)
        return failed

    def _find_path(self, start: str, goal: str) -> list[str]:
        """The chain of needs from `start` to `goal`; empty if there is none."""
        if start == goal:
            return [goal]
        paths: list[list[str]] = [[start]]
        seen = {start}
        for path in paths:
            for following in self._needs.get(path[-1], set()) - seen:
                if following == goal:
                    return [*path, goal]
                seen.add(following)
                paths.append([*path, following])
        return []


def call_factory(create: Factory, ctx: object) -> Any:
    """Call the factory, with the context if it takes one."""
    return create(ctx) if inspect.signature(create).parameters else create()


def is_async(returned: object) -> bool:
    return inspect.isawaitable(returned) or inspect.isasyncgen(returned)


def _finish_sync(generator: Any) -> None:
    for _ in generator:
        generator.close()


async def finish_async_generator(generator: Any) -> None:
    async for _ in generator:
        await generator.aclose()
