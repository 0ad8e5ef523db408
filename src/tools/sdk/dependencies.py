"""What a tool needs and does not make itself: created once a call or once a run, and ended with it.

    DATABASE = DependencyKey("database", open_database, cached="run")

`create` takes the ToolContext, or nothing. It may be a plain function, `async`, or a generator that yields
the value once: what stands behind its yield runs at the end of the call or run. A Scope holds what was
created; parallel calls that ask for the same thing get the same one. Who needs whom is noted, so that a
circle is an error instead of a wait for ever.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ...errors import ToolError

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")
Factory = Callable[..., Any]  # of a value, an awaitable of one, or a generator that yields one


@dataclass(frozen=True, eq=False)
class DependencyKey(Generic[T]):
    """Asked for with `ctx.get(key)` or `await ctx.resolve(key)`; `id` is what overrides name it by."""

    id: str
    create: Callable[..., T | Awaitable[T] | Generator[T, None, None] | AsyncGenerator[T, None]]
    cached: Literal["call", "run"] = "call"


def attempt(work: Callable[[], R], otherwise: Callable[[Exception], R]) -> R:
    """Anyone's code, run so that it cannot break the loop: what it raises goes to `otherwise`."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - a tool is anyone's code; this is the one place where it is called
        return otherwise(error)


class Scope:
    """What was created for a call, or for a run. Safe among threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, Future[Any]] = {}
        self._needs: dict[str, set[str]] = {}
        self._ends: list[object] = []  # generators, of both kinds

    def claim(self, wanted: str, creating: str) -> tuple[Future[Any], bool]:
        """Where the value is or will be, and whether the caller is the one to create it.

        `creating` is what the caller creates itself meanwhile, if anything; ToolError where that needs itself.
        """
        from concurrent.futures import Future

        with self._lock:
            if creating:
                self._needs.setdefault(creating, set()).add(wanted)
                if path := self._path(wanted, creating):
                    raise ToolError(f"dependencies need each other in a circle: {' -> '.join([creating, *path])}")
            if wanted in self._values:
                return self._values[wanted], False
            self._values[wanted] = Future()
            return self._values[wanted], True

    def settle(self, wanted: str, made: object, value: object) -> None:
        """`made` is what the factory gave, and `value` what came of it."""
        with self._lock:
            if inspect.isgenerator(made) or inspect.isasyncgen(made):
                self._ends.append(made)
            self._values[wanted].set_result(value)

    def fail(self, wanted: str, error: BaseException) -> None:
        """Whoever waits gets the error; who asks later tries anew."""
        with self._lock:
            self._values.pop(wanted).set_exception(error)

    def close(self, finish_async: Callable[[Any], None]) -> list[Exception]:
        """Run what stands behind each yield, the last created first; what that raised."""
        failed: list[Exception] = []

        def end(generator: Any) -> None:
            finish_async(generator) if inspect.isasyncgen(generator) else _finish(generator)

        while self._ends:
            attempt(partial(end, self._ends.pop()), failed.append)
        return failed

    def _path(self, start: str, goal: str) -> list[str]:
        """From `start` to `goal` by what needs what; empty where no way leads there."""
        if start == goal:
            return [goal]
        ways: list[list[str]] = [[start]]
        seen = {start}
        for way in ways:
            for following in self._needs.get(way[-1], set()) - seen:
                if following == goal:
                    return [*way, goal]
                seen.add(following)
                ways.append([*way, following])
        return []


def called(create: Factory, ctx: object) -> Any:
    """What the factory gives, with the context where it takes one."""
    return create(ctx) if inspect.signature(create).parameters else create()


def is_async(made: object) -> bool:
    return inspect.isawaitable(made) or inspect.isasyncgen(made)


def _finish(generator: Any) -> None:
    for _ in generator:
        generator.close()


async def finish(generator: Any) -> None:
    async for _ in generator:
        await generator.aclose()
