"""How long an answer may take, whatever the server does. No socket here; the current time is passed in.

There are four clocks: connect, first token, idle and total. The first runs until the first line of the body, since
vLLM sends the headers before it has read the prompt. After that the idle clock runs, restarted by each complete line
or kilobyte, so that a trickle of single bytes does not keep it alive. Comments (": keep-alive") are lines too. The
total is never restarted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..errors import Timeout

LEAST_PROGRESS = 1024  # bytes that count as progress without a line end


class Clocks(NamedTuple):
    """Limits in seconds."""

    connect: float = 5.0
    first_token: float = 600.0
    idle: float = 300.0
    total: float = 3600.0


class Stopwatch:
    """The clocks of one request after the other. `now` gives seconds from any fixed point.

    `cancelled`: whether nobody waits for the answer any more.
    """

    cancelled: Callable[[], bool] = staticmethod(lambda: False)

    def __init__(self, limits: Clocks, now: Callable[[], float]) -> None:
        self.limits = limits
        self._now = now
        self.start()

    def start(self) -> None:
        self._deadline = self._now() + self.limits.first_token
        self._end = self._now() + self.limits.total
        self._begun = False
        self._trickled = 0

    def left(self) -> float:
        """Seconds that may be waited for the next byte.

        Raises TimeoutError where there are none, and what Ctrl-C raises where it was cancelled.
        """
        if self.cancelled():
            raise KeyboardInterrupt
        left = min(self._deadline, self._end) - self._now()
        if left <= 0:
            raise TimeoutError
        return left

    def received(self, data: bytes) -> None:
        """Bytes of the body have arrived."""
        self._trickled += len(data)
        if b"\n" in data or self._trickled >= LEAST_PROGRESS:
            self._deadline = self._now() + self.limits.idle
            self._begun = True
            self._trickled = 0

    def hurry(self, seconds: float) -> None:
        """Allow at most this long from now on."""
        self._end = min(self._end, self._now() + seconds)

    def overdue(self, base_url: str) -> Timeout:
        """The error for the clock that ran out, naming its setting."""
        limits = self.limits
        if self._now() >= self._end:
            return Timeout(
                f"{base_url} did not finish within {limits.total:g} seconds.",
                "The limit is vllm.total_timeout.",
            )
        if self._begun:
            return Timeout(
                f"{base_url} fell silent: nothing for {limits.idle:g} seconds.",
                "The limit is vllm.timeout.",
            )
        return Timeout(
            f"{base_url} sent nothing for {limits.first_token:g} seconds.",
            "A long prompt on a busy server needs more: the limit is vllm.first_token_timeout.",
        )
