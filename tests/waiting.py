"""Waiting for what another process or thread does. A bound only ends what hangs: no test says how long a thing takes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

PATIENCE_S = 180.0  # then it hangs, on however busy a machine
POLL_S = 0.005


def wait_until(condition: Callable[[], object], what: str) -> None:
    """`what` is said of a condition that does not come true."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, what
        threading.Event().wait(POLL_S)
