"""Repeats an attempt that failed: how often, and after what wait. A generator of effects; chance is passed in.

An attempt is repeated only while it has shown nothing, so that no text is shown twice and no call runs twice. How
often a failure is worth a retry stands beside its class, in errors.py. A wait that the server asks for (Retry-After)
is kept up to a limit. A server that loads its model has a time limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar, Union

from msgspec import Struct
from msgspec.structs import replace

from ..errors import RequestFailed, ServerLoading
from ..types.effects import Aside, Sleep, Turn
from ..types.events import ModelEvent, Notice

T = TypeVar("T")
ReadinessCheck: TypeAlias = Callable[[], Aside[Union[bool, None]]]

FIRST_WAIT_S = 0.5  # doubles with each attempt
MAX_WAIT_S = 8.0
MAX_LOADING_WAIT_S = 15.0
HEALTH_INTERVAL_S = 2.0  # between two questions whether a server has loaded its model
MAX_RETRY_AFTER_S = 60.0
JITTER = 0.25  # the part of a wait that is random, so that clients do not all return at once


class RetryPolicy(Struct, frozen=True):
    """`retries`: attempts after the first; `load_timeout`: seconds to wait for a model to load."""

    retries: int = 2
    load_timeout: float = 300.0


def with_retries(
    attempt: Callable[[], Turn[T]],
    policy: RetryPolicy,
    jitter: Callable[[], float],
    check_ready: ReadinessCheck | None = None,
    *,
    on_failure: Callable[[], Iterable[ModelEvent]] = tuple,
) -> Turn[T]:
    """The events of the first attempt that shows any, and its result; a Notice comes before each wait.

    `jitter` gives a number from 0 to 1; `check_ready` tells whether a server that was loading can serve by now, None
    if it does not say. The events of `on_failure` come before all else that follows a failure. Raises what the last
    attempt raised.
    """
    made, loading = 1, 0.0
    while True:
        try:
            return (yield from attempt())
        except RequestFailed as error:
            failure = error
        yield from on_failure()
        if failure.was_shown:
            raise failure
        problem = failure.message.rstrip(".")
        if isinstance(failure, ServerLoading):
            seconds, plan = _plan_loading_wait(failure, loading, policy, jitter())
            yield Notice(f"{problem}; {plan}.")
            loading += yield from _wait_until_ready(seconds, check_ready)
        else:
            seconds, plan = _plan_retry(failure, made, policy, jitter())
            yield Notice(f"{problem}; {plan}.")
            made += 1
            yield Sleep(seconds)


def _wait_until_ready(seconds: float, check_ready: ReadinessCheck | None) -> Aside[float]:
    """Wait at most so long; a server that says that it is not ready is asked in between. Returns the seconds waited."""
    if check_ready is None or (yield from check_ready()) is not False:  # it does not say, or a proxy answers for itself
        yield Sleep(seconds)
        return seconds
    waited = 0.0
    while waited < seconds:
        span = min(HEALTH_INTERVAL_S, seconds - waited)
        yield Sleep(span)
        waited += span
        if (yield from check_ready()):
            break
    return waited


def _plan_retry(error: RequestFailed, made: int, policy: RetryPolicy, jitter: float) -> tuple[float, str]:
    """The seconds before attempt `made` + 1, and what the user is told. Raises the error if there is to be none."""
    allowed = min(error.max_retries, policy.retries)
    asked = error.retry_after or 0.0
    if asked > MAX_RETRY_AFTER_S:
        span = f"{asked:.0f} seconds"
        if asked >= 120:
            span = f"{asked / 60:.0f} minutes"
        error.hint = f"It asks to try again in {span}."
        raise error
    if made > allowed:
        raise error
    seconds = asked or min(MAX_WAIT_S, FIRST_WAIT_S * 2.0 ** min(made - 1, 10)) * (1 - JITTER * jitter)
    return seconds, f"trying again in {seconds:.1f} s (attempt {made + 1} of {allowed + 1})"


def _plan_loading_wait(error: ServerLoading, waited: float, policy: RetryPolicy, jitter: float) -> tuple[float, str]:
    """As _plan_retry."""
    seconds_left = policy.load_timeout - waited
    if seconds_left <= 0 or not policy.retries:
        return _plan_retry(error, 1, replace(policy, retries=0), jitter)
    # Half of the time waited so far: few notices, and the wait is at most half as long again as it had to be.
    seconds = error.retry_after or max(1.0, waited / 2) * (1 - JITTER * jitter)
    seconds = min(seconds, MAX_LOADING_WAIT_S, seconds_left)
    return seconds, f"asking again in {seconds:.1f} s, for {seconds_left:.0f} s in all"
