"""How far an eval is: estimated from what its search has done so far, which does not depend on it."""

from __future__ import annotations

from msgspec import Struct

from .arms import Arm
from .search import Search


class ProgressEstimate(Struct, frozen=True):
    """`arm`: the one that is asked now; `requests`: so far, of so many `expected` in all."""

    arm: str
    requests: int
    expected: int
    seconds_left: float


def estimate_progress(search: Search, arm: Arm) -> ProgressEstimate:
    """By the time that a request has taken so far. The requests are the plan's, unless its samples take fewer."""
    turns = sum(len(case.turns) for case, _ in search.samples)
    expected = max(search.requests, min(search.plan.requests, count_all_requests(search) + turns))
    seconds = sum(each.seconds for outcomes in search.outcomes.values() for each in outcomes.values())
    seconds_left = seconds / max(search.requests, 1) * (expected - search.requests)
    return ProgressEstimate(arm.name, search.requests, expected, seconds_left)


def count_all_requests(search: Search) -> int:
    """What the same arms would take on all cases of the plan, without stopping early."""
    turns = sum(len(case.turns) for case, _ in search.samples[: search.plan.pairs])
    return turns * len([each for each in search.standings.values() if each.verdict != "refused"])
