"""The model's turn inside the agent's loop: effects go on to the driver, events are seen on their way."""

from __future__ import annotations

from concurrent.futures import Future
from typing import TypeVar

from ..security.permissions.hooks import Hooks
from ..types.effects import Aside, Await

T = TypeVar("T")


def await_hooks(hooks: Hooks, told: Future[T]) -> Aside[T]:
    """What hooks say. If the wait for it is ended, their programs are ended, too."""
    try:
        result: T = yield Await(told)
        return result
    finally:
        if not told.done():
            hooks.end()


def wait_for(value: T | Future[T]) -> Aside[T]:
    """The value, or the result of the future."""
    if not isinstance(value, Future):
        return value
    result: T = yield Await(value)
    return result
