"""Dependencies of tools, such as a database: created once per call or run, and closed at its end.

    DATABASE = DependencyKey("database", open_database, cached="run")

`create` takes the ToolContext, if it has a parameter without a default. It is a function, which may be async, or a
generator that yields the value once; the code after its yield runs at the end of the call or run, also of one that is
cancelled. A Scope holds the values; parallel calls that ask for the same key get the same value. It records which
dependency needs which, so that a circle is an error and not a deadlock.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

from ...errors import ToolError
from .result import attempt

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
TEARDOWN_TIMEOUT_S = 5.0  # for the code after an async yield
Factory = Callable[..., Any]  # of a value, an awaitable of one, or a generator that yields one
Overrides = Mapping[Any, Factory]  # a factory, its DependencyKey or the key's id -> its replacement


Lifetime = Literal["call", "run"]


class DependencyKey(Generic[T]):
    """The key for `ctx.get(key)` and `await ctx.resolve(key)`.

    `create` makes the value for each call, or once for a run. `overrides` replace it: they name it, the key, or the id.
    """

    @overload
    def __init__(self, id: str, create: Callable[..., AsyncIterator[T]], cached: Lifetime = "call") -> None: ...
    @overload
    def __init__(self, id: str, create: Callable[..., Iterator[T]], cached: Lifetime = "call") -> None: ...
    @overload
    def __init__(self, id: str, create: Callable[..., Awaitable[T]], cached: Lifetime = "call") -> None: ...
    @overload
    def __init__(self, id: str, create: Callable[..., T], cached: Lifetime = "call") -> None: ...
    def __init__(self, id: str, create: Factory, cached: Lifetime = "call") -> None:
        if not callable(create):
            raise TypeError(f"DependencyKey({id!r}): expected a function that makes the value, got {create!r}")
        if cached not in ("call", "run"):
            raise ValueError(f"DependencyKey({id!r}): cached is call or run, and not {cached!r}")
        self.id = id
        self.create = create
        self.cached = cached

    def find_factory(self, overrides: Overrides) -> Factory:
        """The function that makes the value, or its replacement."""
        return next((overrides[each] for each in (self, self.create, self.id) if each in overrides), self.create)


class Scope:
    """The values created for a call, or for a run. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, Future[Any]] = {}
        self._needs: dict[str, set[str]] = {}
        self._generators: list[object] = []  # sync and async
        self._is_closed = False

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

    def settle(self, key_id: str, returned: object, value: object) -> bool:
        """Set the value; `returned` is what the factory returned, perhaps a generator to close later.

        False if the scope was closed in the meantime, as that of a cancelled run is: then the caller ends `returned`.
        """
        with self._lock:
            if self._is_closed:
                return False
            if is_generator(returned):
                self._generators.append(returned)
            self._values[key_id].set_result(value)
        return True

    def fail(self, key_id: str, error: BaseException) -> None:
        """Raise the error in callers that wait; a later one tries again."""
        with self._lock:
            self._values.pop(key_id).set_exception(error)

    def close(self, finish_async: Callable[[Any], None]) -> list[Exception]:
        """Run the code after each yield, the last created first; returns what that raised."""
        failed: list[Exception] = []
        for generator in self._end():
            attempt(partial(finish_generator, generator, finish_async), failed.append)
        return failed

    async def close_async(self) -> list[Exception]:
        """As close, in an event loop."""
        import asyncio

        failed: list[Exception] = []
        for generator in self._end():
            (error,) = await asyncio.gather(finish_in_loop(generator), return_exceptions=True)
            if isinstance(error, Exception):
                failed.append(error)
        return failed

    def _end(self) -> list[object]:
        """The generators to finish, in this order; from now on there are no more."""
        with self._lock:
            self._is_closed = True
            ended, self._generators = self._generators[::-1], []
        return ended

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


def check_overrides(overrides: Overrides) -> None:
    """Raises TypeError for a replacement that is not a function."""
    for replaced, factory in overrides.items():
        if not callable(factory):
            name = getattr(replaced, "id", None) or getattr(replaced, "__name__", replaced)
            raise TypeError(f"overrides: the replacement of {name} is a function that makes it: lambda: {factory!r}")


def call_factory(create: Factory, ctx: object) -> Any:
    """Call the factory, with the context if it has a parameter that needs a value."""
    try:
        parameters = inspect.signature(create).parameters.values()
    except ValueError:  # a class written in C
        return create()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(each.default is each.empty and each.kind in positional for each in parameters):
        return create(ctx)
    return create()


def is_async(returned: object) -> bool:
    return inspect.isawaitable(returned) or inspect.isasyncgen(returned)


def is_generator(returned: object) -> bool:
    return inspect.isgenerator(returned) or inspect.isasyncgen(returned)


def finish_generator(generator: Any, finish_async: Callable[[Any], None]) -> None:
    """Run the code after its yield."""
    if inspect.isasyncgen(generator):
        finish_async(generator)
    else:
        _finish_sync(generator)


async def finish_in_loop(generator: Any) -> None:
    """As finish_generator, in an event loop."""
    import asyncio

    if inspect.isasyncgen(generator):
        await asyncio.wait_for(finish_async_generator(generator), TEARDOWN_TIMEOUT_S)
    else:
        _finish_sync(generator)


def _finish_sync(generator: Any) -> None:
    for _ in generator:
        generator.close()


async def finish_async_generator(generator: Any) -> None:
    async for _ in generator:
        await generator.aclose()
