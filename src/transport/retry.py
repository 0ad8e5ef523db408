"""Which failures are worth another attempt, how many, and after what wait. Pure: sleep and jitter come in.

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

FIRST_WAIT_S = 0.5  # seconds; doubles with each attempt
MAX_WAIT_S = 8.0
MAX_LOADING_WAIT_S = 15.0
HEALTH_INTERVAL_S = 2.0  # seconds between looks at whether a server has loaded its model
JITTER = 0.25  # the part of a wait that is left to jitter, so that clients do not come back all at once
MAX_RETRY_AFTER_S = 60.0

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


class RetryPolicy(NamedTuple):
    """`retries`: attempts after the first; `load_timeout`: seconds spent waiting for a model to load."""

    retries: int = 2
    load_timeout: float = 300.0


class Wait(NamedTuple):
    seconds: float
    notice: Notice


def with_retries(
    attempt: Callable[[], Iterator[T]],
    policy: RetryPolicy,
    sleep: Callable[[float], None],
    jitter: Callable[[], float],
    ready: Callable[[], bool | None] = lambda: None,
) -> Iterator[T | Notice]:
    """The events of the first attempt that gives any; a Notice goes before each wait.

    `jitter` gives a number from 0 to 1; `ready` whether a server that is loading can serve by now, None where it
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
            wait = _plan_loading_wait(error, loading, policy, jitter()) or _plan_retry(error, made, policy, jitter())
            if wait is None:
                raise
            failed = error
            made += not isinstance(error, ServerLoading)
        yield wait.notice
        if not isinstance(failed, ServerLoading):
            sleep(wait.seconds)
            continue
        loading += _wait_until_ready(wait.seconds, sleep, ready)
    yield first
    yield from events


def _wait_until_ready(seconds: float, sleep: Callable[[float], None], ready: Callable[[], bool | None]) -> float:
    """Wait, at most so long; a server that says that it cannot serve is asked every now and then. What was waited."""
    if ready() is not False:  # it does not say, or it is a proxy that speaks of itself
        sleep(seconds)
        return seconds
    waited = 0.0
    while waited < seconds:
        span = min(HEALTH_INTERVAL_S, seconds - waited)
        sleep(span)
        waited += span
        if ready():
            break
    return waited


def _plan_retry(error: BotError, made: int, policy: RetryPolicy, jitter: float) -> Wait | None:
    """The wait before attempt `made` + 1, or None where there is no point in one."""
    allowed = min(_worth(error), policy.retries)
    asked = error.retry_after if isinstance(error, ServerError) else None
    if (asked or 0) > MAX_RETRY_AFTER_S:
        error.hint = f"It asks to try again in {_format_span(asked or 0)}."
        return None
    if made > allowed:
        return None
    seconds = asked or _backoff(made, MAX_WAIT_S, jitter)
    return Wait(seconds, _build_notice(error, f"trying again in {seconds:.1f} s (attempt {made + 1} of {allowed + 1})"))


def _plan_loading_wait(error: BotError, waited: float, policy: RetryPolicy, jitter: float) -> Wait | None:
    left = policy.load_timeout - waited
    if not isinstance(error, ServerLoading) or left <= 0 or not policy.retries:
        return None
    # Half of what has been waited so far: few lines on the screen, and at most half as long again as need be.
    seconds = error.retry_after or max(1.0, waited / 2) * (1 - JITTER * jitter)
    seconds = min(seconds, MAX_LOADING_WAIT_S, left)
    return Wait(seconds, _build_notice(error, f"asking again in {seconds:.1f} s, for {left:.0f} s in all"))


def _format_span(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"


def _worth(error: BotError) -> int:
    if isinstance(error, ServerError):
        return _ALWAYS if error.status in _PASSING and not isinstance(error, ServerLoading) else _NEVER
    return next((worth for kind, worth in _WORTH if isinstance(error, kind)), _NEVER)


def _backoff(made: int, longest: float, jitter: float) -> float:
    return min(longest, FIRST_WAIT_S * 2.0 ** min(made - 1, 10)) * (1 - JITTER * jitter)


def _build_notice(error: BotError, what: str) -> Notice:
    return Notice(f"{error.message.rstrip('.')}; {what}.")
