"""Waiting for what another process or thread does. A bound only ends what hangs: no test says how long a thing takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

PATIENCE_S = 180.0  # then it hangs, on however busy a machine
POLL_S = 0.005
CLOCK_FACTORS = 1, 10, 60


def wait_until(condition: Callable[[], object], what: str) -> None:
    """`what` is said of a condition that does not come true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        threading.Event().wait(POLL_S)


def try_clocks(check: Callable[[float], None]) -> None:
    """Pass if `check` passes with the clocks of a test as they are, or so many times as long.

    A short clock that must run out keeps a test quick, but on a busy machine it runs out before what it is about.
    """
    *first, last = CLOCK_FACTORS
    for factor in first:
        with suppress(AssertionError):
            return check(factor)
    return check(last)
