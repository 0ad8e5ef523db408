"""The statistics of an eval: few plain functions, each with its source.

Two arms are compared on the same cases. Only the cases that one passes and the other does not tell them apart
(McNemar 1947), and they are looked at as they come (Wald's sequential probability ratio test, 1945). A likelihood
ratio that ever reaches 1 / alpha is a mistake with a probability of alpha at most, however often one looks (Ville
1939), so that "better" and "worse" can be said at any time.

"Same" has no such bound: it is a limit with 95 % at each look, and looking often makes its mistakes more frequent.
Each verdict is about two arms and one criterion. Nothing is corrected for several arms, or for the two criteria of
search.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal

from msgspec import Struct

ALPHA = 0.05  # for both directions together
BIASED = 0.9  # the share of the discordant cases that a better arm wins, under the alternative of the test
ONE_SIDED = 0.9  # the confidence of an interval whose one end alone is looked at: an upper limit with 95 %

Verdict = Literal["better", "worse", "same", "open"]


class Pairs(Struct, frozen=True):
    """How an arm did against another in the samples of both, each of which meets a criterion or not.

    `wins`: the arm alone did; `losses`: the other alone; `ties`: both did, or neither.
    """

    ties: int
    wins: int
    losses: int

    @property
    def total(self) -> int:
        return self.ties + self.wins + self.losses


def estimate_interval(passed: int, total: int, confidence: float = 0.95) -> tuple[float, float]:
    """The ends of the interval of a share (Wilson 1927)."""
    if not total:
        return 0.0, 1.0
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share = passed / total
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    half = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    return max(0.0, centre - half), min(1.0, centre + half)


def compare(pairs: Pairs, margin: float) -> Verdict:
    """How an arm does against another. They are the same where it is excluded, for each of them, that it alone passes
    more than `margin` of the cases: then their shares differ by less than that.
    """
    bound = math.log(2 / ALPHA)
    win, loss = math.log(2 * BIASED), math.log(2 * (1 - BIASED))
    if pairs.wins * win + pairs.losses * loss >= bound:
        return "better"
    if pairs.losses * win + pairs.wins * loss >= bound:
        return "worse"
    _, most_alone = estimate_interval(max(pairs.wins, pairs.losses), pairs.total, ONE_SIDED)
    if most_alone < margin:
        return "same"
    return "open"


def tally(ours: Mapping[tuple[str, int], bool], theirs: Mapping[tuple[str, int], bool]) -> Pairs:
    """Of the samples that both have."""
    shared = ours.keys() & theirs.keys()
    wins = sum(ours[each] and not theirs[each] for each in shared)
    losses = sum(theirs[each] and not ours[each] for each in shared)
    return Pairs(len(shared) - wins - losses, wins, losses)


def compute_regression_p(before: Mapping[str, Sequence[bool]], now: Mapping[str, Sequence[bool]]) -> float:
    """The probability that as few cases pass now, if nothing has changed; both by the id of the case.

    Exact and stratified by case (Cochran 1954, Mantel and Haenszel 1959): under the hypothesis that nothing has
    changed, which runs of a case passed is independent of when they ran. A case that only one of both has says
    nothing.
    """
    distribution = {0: 1.0}  # of the number of passes among the new runs
    observed = 0
    for case in before.keys() & now.keys():
        old, new = before[case], now[case]
        passed, runs = sum(old) + sum(new), len(old) + len(new)
        observed += sum(new)
        ways = math.comb(runs, len(new))
        least, most = max(0, passed - len(old)), min(passed, len(new))
        shares = [math.comb(passed, k) * math.comb(runs - passed, len(new) - k) / ways for k in range(least, most + 1)]
        added: dict[int, float] = {}
        for count, weight in distribution.items():
            for k, share in enumerate(shares, least):
                added[count + k] = added.get(count + k, 0.0) + weight * share
        distribution = added
    return min(1.0, math.fsum(weight for count, weight in distribution.items() if count <= observed))
