"""How many tasks run at once on each server: additive increase, multiplicative decrease (Chiu and Jain, 1989).

A server that lets requests wait (`vllm:num_requests_waiting`), or refuses one with 429 or 503, gets fewer tasks; one
that does not gets one more at each look, up to the number of jobs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..app.endpoint import fill_client
from ..config import Settings
from ..errors import BotError
from ..transport import Client

WAITING = re.compile(rb"^vllm:num_requests_waiting(?:\{[^}]*\})? ([0-9.e+]+)", re.MULTILINE)
METRICS_TIMEOUT_S = 5.0
LOOK_INTERVAL_S = 1.0  # between two looks at the servers' load
DECREASE = 0.75
MAX_WAITING_SHARE = 0.1  # of the tasks that run there: a few wait for a moment on every busy server


class LoadedServer:
    """A server, the tasks that run on it, and how many may."""

    def __init__(self, address: str, jobs: int) -> None:
        self.address = address
        self.limit = float(jobs)
        self.active = 0

    @property
    def room(self) -> float:
        return 1 - self.active / self.limit


class LoadControl:
    """Spreads at most `jobs` tasks over the servers."""

    def __init__(self, addresses: Sequence[str], jobs: int) -> None:
        self._jobs = jobs
        self.replicas = {address: LoadedServer(address, jobs) for address in addresses}

    def acquire(self) -> str | None:
        """The server with the most room, which now runs one task more; None if there is no room."""
        if sum(each.active for each in self.replicas.values()) >= self._jobs:
            return None
        best = max(self.replicas.values(), key=lambda each: each.room)
        if best.active + 1 > best.limit:
            return None
        best.active += 1
        return best.address

    def release(self, address: str, *, is_overload: bool = False) -> None:
        """A task ended there."""
        replica = self.replicas[address]
        replica.active -= 1
        if is_overload:
            self._decrease(replica)

    def note_waiting(self, address: str, waiting: float) -> None:
        """So many requests wait on this server."""
        replica = self.replicas[address]
        if waiting > 1 + MAX_WAITING_SHARE * replica.active:
            self._decrease(replica)
        else:
            replica.limit = min(replica.limit + 1, float(self._jobs))

    @staticmethod
    def _decrease(replica: LoadedServer) -> None:
        replica.limit = max(1.0, min(replica.limit, replica.active + 1.0) * DECREASE)


def fetch_waiting(settings: Settings) -> float | None:
    """How many requests wait on the server of these settings; None if it does not say."""
    opened = fill_client(Client, settings, METRICS_TIMEOUT_S)
    try:
        with opened as client, client.open("GET", "/metrics", within=METRICS_TIMEOUT_S) as reply:
            if reply.head.status != 200:
                return None
            counts = WAITING.findall(reply.read())
    except BotError:
        return None
    if not counts:
        return None
    return sum(map(float, counts))
