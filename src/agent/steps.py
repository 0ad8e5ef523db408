"""The model's turn inside the agent's loop: effects go on to the driver, events are seen on their way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from ..errors import BotError
from ..types.effects import EFFECTS, Aside, Await, Turn
from ..types.events import ModelEvent

if TYPE_CHECKING:
    from ..security.permissions.hooks import Hooks

T = TypeVar("T")


def watch(turn: Turn[T], see: Callable[[ModelEvent], None], *, is_shown: bool = True) -> Turn[T]:
    """The steps of `turn`, each event of which `see` gets first. `is_shown`: whether the events are given on."""
    try:
        step = next(turn)
        while True:
            answer, is_effect = None, isinstance(step, EFFECTS)
            if not isinstance(step, EFFECTS):
                see(step)
            if is_shown or is_effect:
                try:
                    answer = yield step
                except BotError as error:  # of the effect: it is raised where the turn waits for it
                    step = turn.throw(error)
                    continue
            step = turn.send(answer)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        turn.close()


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
