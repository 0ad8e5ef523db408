"""Which failures are worth another attempt, how many, and after what wait. Pure: sleep and chance come in.

An attempt is a function that gives events. It is made again only while none of its events has been
handed on, so that nobody sees an answer twice and nothing runs twice. What the server itself asks for
(Retry-After) is obeyed up to a bound; a server that is loading its model has a budget of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

from ..errors import (
    AnswerEmpty,
    BotError,
    ConnectFailed,
    HostUnknown,
    NeverReached,
    ServerError,
    ServerLoading,
    StreamCut,
    Undecodable,
)
from ..types.events import Notice

T = TypeVar("T")

FIRST_WAIT = 0.5  # seconds; doubles with each attempt
LONGEST_WAIT = 8.0
LONGEST_LOADING_WAIT = 15.0
HEALTH_EVERY = 2.0  # seconds between looks at whether a server has loaded its model
JITTER = 0.25  # the part of a wait that is left to chance, so that clients do not come back all at once
LONGEST_RETRY_AFTER = 60.0

_NEVER, _ONCE, _ALWAYS = 0, 1, 1_000_000

# How often a failure is worth another attempt; vllm.retries bounds it too. The first row that fits counts.
_WORTH: tuple[tuple[type[BotError], int], ...] = (
    (HostUnknown, _NEVER),
    (NeverReached, _NEVER),  # whoever starts the program wants to know at once that no server is there
    (ConnectFailed, _ALWAYS),
    (AnswerEmpty, _ONCE),
    (Undecodable, _ONCE),
    (StreamCut, _ALWAYS),
)
# 408 timeout, 425 too early, 429 too many requests, 500 and above: a server or proxy in trouble; 529: overloaded.
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504, 529})


class Patience(NamedTuple):
    """`retries`: attempts after the first; `load_timeout`: seconds spent waiting for a model to load."""

    retries: int = 2
    load_timeout: float = 300.0


class Wait(NamedTuple):
    seconds: float
    notice: Notice


def persist(
    attempt: Callable[[], Iterator[T]],
    patience: Patience,
    sleep: Callable[[float], None],
    chance: Callable[[], float],
    ready: Callable[[], bool | None] = lambda: None,
) -> Iterator[T | Notice]:
    """The events of the first attempt that gives any; a Notice goes before each wait.

    `chance` gives a number from 0 to 1; `ready` whether a server that is loading can serve by now, None where it
    does not say. Raises what the last attempt raised.
    """
    made, loading = 1, 0.0
    while True:
        try:
            events = attempt()
            first = next(events)
            break
        except StopIteration:
            return
        except BotError as error:
            wait = _loading(error, loading, patience, chance()) or _passing(error, made, patience, chance())
            if wait is None:
                raise
            failed = error
            made += not isinstance(error, ServerLoading)
        yield wait.notice
        if not isinstance(failed, ServerLoading):
            sleep(wait.seconds)
            continue
        loading += _until_ready(wait.seconds, sleep, ready)
    yield first
    yield from events


def _until_ready(seconds: float, sleep: Callable[[float], None], ready: Callable[[], bool | None]) -> float:
    """Wait, at most so long; a server that says that it cannot serve is asked every now and then. What was waited."""
    if ready() is not False:  # it does not say, or it is a proxy that speaks of itself
        sleep(seconds)
        return seconds
    waited = 0.0
    while waited < seconds:
        span = min(HEALTH_EVERY, seconds - waited)
        sleep(span)
        waited += span
        if ready():
            break
    return waited


def _passing(error: BotError, made: int, patience: Patience, chance: float) -> Wait | None:
    """The wait before attempt `made` + 1, or None where there is no point in one."""
    allowed = min(_worth(error), patience.retries)
    asked = error.retry_after if isinstance(error, ServerError) else None
    if (asked or 0) > LONGEST_RETRY_AFTER:
        error.hint = f"It asks to try again in {_span(asked or 0)}."
        return None
    if made > allowed:
        return None
    seconds = asked or _backoff(made, LONGEST_WAIT, chance)
    return Wait(seconds, _notice(error, f"trying again in {seconds:.1f} s (attempt {made + 1} of {allowed + 1})"))


def _loading(error: BotError, waited: float, patience: Patience, chance: float) -> Wait | None:
    left = patience.load_timeout - waited
    if not isinstance(error, ServerLoading) or left <= 0 or not patience.retries:
        return None
    # Half of what has been waited so far: few lines on the screen, and at most half as long again as need be.
    seconds = error.retry_after or max(1.0, waited / 2) * (1 - JITTER * chance)
    seconds = min(seconds, LONGEST_LOADING_WAIT, left)
    return Wait(seconds, _notice(error, f"asking again in {seconds:.1f} s, for {left:.0f} s in all"))


def _span(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _worth(error: BotError) -> int:
    if isinstance(error, ServerError):
        return _ALWAYS if error.status in _PASSING and not isinstance(error, ServerLoading) else _NEVER
    return next((worth for kind, worth in _WORTH if isinstance(error, kind)), _NEVER)


def _backoff(made: int, longest: float, chance: float) -> float:
    return min(longest, FIRST_WAIT * 2.0 ** min(made - 1, 10)) * (1 - JITTER * chance)


def _notice(error: BotError, what: str) -> Notice:
    return Notice(f"{error.message.rstrip('.')}; {what}.")
