"""The steps of a turn, seen on their way: effects go on to the driver, events to whoever asked."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Literal, TypeVar, overload

from ..errors import BotError
from ..types.effects import EFFECTS, Aside, Turn
from ..types.events import ModelEvent

T = TypeVar("T")


@overload
def watch(turn: Turn[T], see: Callable[[ModelEvent], object]) -> Turn[T]: ...


@overload
def watch(turn: Turn[T], see: Callable[[ModelEvent], object], *, is_shown: Literal[False]) -> Aside[T]: ...


def watch(turn: Turn[T], see: Callable[[ModelEvent], object], *, is_shown: bool = True) -> Generator[Any, Any, T]:
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
