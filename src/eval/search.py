"""Which arm is the best: arms are compared with the best so far, sample by sample, until each is decided.

First the call paths, then one other setting at a time on the best path. What is left of the requests measures the best
arm more closely. An arm is better if more of its runs are right; where that is undecided, if more of them are clean:
right, with nothing repaired or recovered. Without a difference the arm that the chat would use anyway stays.

The order is fixed, and each step follows from the outcomes alone: an eval that goes on takes the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from ..errors import BotError
from .arms import Arm
from .cases import Case
from .outcomes import CaseOutcome
from .statistics import Pairs, Verdict, compare, tally

# Samples of an arm before the next one has its turn: a server with one cache keeps the beginning of its prompts.
BLOCK = 4
COST = 3  # requests that an answer takes at most, where a server loses calls
ARM_PATIENCE = 3  # runs of an arm in a row that failed by themselves, after which it is tried no more
NOTHING_SHARED = "no case has a run that counts under both"
Sample = tuple[str, int]  # a case and its seed


class Plan(Struct, frozen=True):
    """How thorough an eval is. `requests`: at most; `samples`: of the best arm, at most; `pairs`: runs of each arm, at
    most, on which two are compared; `margin`: a difference that is of no interest; `patience`: failures of the harness
    in a row after which it is given up.
    """

    name: str
    requests: int
    samples: int
    pairs: int
    margin: float
    patience: int = 5


QUICK = Plan("quick", requests=200, samples=400, pairs=40, margin=0.2)
FULL = Plan("full", requests=4000, samples=400, pairs=400, margin=0.05)


class Standing(Struct, frozen=True):
    """Where an arm stands against the best one when it was decided."""

    arm: Arm
    verdict: Verdict | str  # or "best"; "refused": by the server; "failed": its runs did, which says nothing of it
    against: str = ""
    reason: str = ""
    pairs: Pairs = Pairs(0, 0, 0)


class Search:
    """`run` asks the model. `vary` lists the arms to try once the best path is known: it gets that path, its outcomes,
    and the paths that were beaten.
    """

    def __init__(
        self,
        cases: Sequence[Case],
        plan: Plan,
        run: Callable[[Arm, Case, int], CaseOutcome],
        vary: Callable[[Arm, Sequence[CaseOutcome], Sequence[Arm]], list[Arm]],
        first_seed: int = 0,
    ) -> None:
        self.plan = plan
        self.outcomes: dict[str, dict[Sample, CaseOutcome]] = {}
        self.standings: dict[str, Standing] = {}
        self.requests = 0
        self.compared = 0  # requests until the best arm was found
        self._paths: Sequence[Arm] = ()
        self.samples = [(cases[at % len(cases)], first_seed + at // len(cases)) for at in range(plan.samples)]
        self._run = run
        self._vary = vary
        self._failures = 0

    def find_best(self, paths: Sequence[Arm]) -> Arm | None:
        """The best arm; None if none gave an answer that counts. Its standing is "best"."""
        self._paths = paths
        best = self._compare_all(None, paths)
        if best is None:
            return None
        beaten = [each.arm for each in self.standings.values() if each.verdict == "worse"]
        best = self._compare_all(best, self._vary(best, self.list_outcomes(best), beaten)) or best
        self.compared = self.requests
        self.measure(best)
        self.standings[best.name] = Standing(best, "best")
        return best

    def measure_only(self, arm: Arm) -> Arm | None:
        """As find_best, of this arm alone."""
        self.measure(arm)
        if self._is_refused(arm) or not self.list_outcomes(arm):
            self._set_aside(arm)
            return None
        self.standings[arm.name] = Standing(arm, "best")
        return arm

    def measure(self, arm: Arm) -> None:
        """Run it on as many samples as there are requests for."""
        for at in range(self.plan.samples):
            if not self._try(arm, at):
                break

    def list_outcomes(self, arm: Arm) -> list[CaseOutcome]:
        """Those that say something."""
        return [outcome for outcome in self.outcomes.get(arm.name, {}).values() if outcome.counts]

    def list_all_outcomes(self) -> list[CaseOutcome]:
        """As list_outcomes, of all arms."""
        return [outcome for outcomes in self.outcomes.values() for outcome in outcomes.values() if outcome.counts]

    def list_offered(self) -> list[str]:
        """The paths that the server does not refuse, in the order in which the chat would try them."""
        refused = {name for name, standing in self.standings.items() if standing.verdict == "refused"}
        return [arm.path for arm in self._paths if arm.name not in refused]

    def _compare_all(self, best: Arm | None, arms: Sequence[Arm]) -> Arm | None:
        """The best of them. `best`: the one so far."""
        alive = list(arms)
        while best is None and alive:  # the first that answers
            best = self._start(alive.pop(0))
        if best is None:
            return None
        has_room = True
        for start in range(0, self.plan.pairs, BLOCK):
            if not alive or not has_room:
                break
            has_room = self._run_block(best, alive, range(start, min(start + BLOCK, self.plan.pairs)))
            best, alive = self._decide(*self._replace_failed(best, alive))
        for arm in alive:
            self._leave(arm, best, has_room=has_room)
        return best

    def _run_block(self, best: Arm, alive: list[Arm], block: range) -> bool:
        """Run these samples; an arm that fails or is refused is alive no more. False if there are no requests left."""
        has_room = True
        for arm in (best, *alive):
            has_room = has_room and all(self._is_out(arm) or self._try(arm, at) for at in block)
        for arm in filter(self._is_out, list(alive)):
            self._set_aside(arm, best)
            alive.remove(arm)
        return has_room

    def _replace_failed(self, best: Arm, alive: list[Arm]) -> tuple[Arm, list[Arm]]:
        """The best arm, and the others: another where it is out. What was decided against that one is open again."""
        if not self._is_out(best):
            return best, alive
        decided = [each for each in self.standings.values() if each.against == best.name and each.verdict != "failed"]
        others = [*alive, *(each.arm for each in decided)]
        next_best = next(filter(self.list_outcomes, others), None)
        if next_best is None:
            return best, alive
        for each in decided:
            del self.standings[each.arm.name]
        self._set_aside(best, next_best)
        others.remove(next_best)
        return next_best, others

    def _leave(self, arm: Arm, best: Arm, *, has_room: bool) -> None:
        """Say how an arm stands that no run decides any more. `has_room`: all of the plan's pairs were run."""
        pairs = self.judge(arm, best)[2]
        verdict, reason = "same", ""
        if not has_room:
            verdict, reason = "open", "no requests left"
        elif not pairs.total:
            verdict, reason = "open", NOTHING_SHARED
        self.standings[arm.name] = Standing(arm, verdict, best.name, reason, pairs)

    def _decide(self, best: Arm, alive: list[Arm]) -> tuple[Arm, list[Arm]]:
        """The best now, and the arms that are undecided."""
        for arm in list(alive):
            verdict, reason, pairs = self.judge(arm, best)
            if verdict == "better":
                swapped = Pairs(pairs.ties, pairs.losses, pairs.wins)
                self.standings[best.name] = Standing(best, "worse", arm.name, reason, swapped)
                alive.remove(arm)
                return self._decide(arm, alive)
            if verdict != "open":
                self.standings[arm.name] = Standing(arm, verdict, best.name, reason, pairs)
                alive.remove(arm)
        return best, alive

    def judge(self, arm: Arm, best: Arm) -> tuple[Verdict, str, Pairs]:
        """How the arm does against the best, by what, and the pairs that tell."""
        ours, theirs = self.list_outcomes(arm), self.list_outcomes(best)
        right = tally(_mark_passed(ours), _mark_passed(theirs))
        verdict = compare(right, self.plan.margin)
        if verdict in ("better", "worse"):
            return verdict, "right runs", right
        clean = tally(_mark_clean(ours), _mark_clean(theirs))
        cleaner = compare(clean, self.plan.margin)
        tends = right.wins - right.losses
        if (cleaner == "worse" and tends <= 0) or (cleaner == "better" and tends >= 0):
            return cleaner, "clean runs", clean
        if "open" in (verdict, cleaner):
            return "open", "", right
        return "same", "", right

    def _start(self, arm: Arm) -> Arm | None:
        """The arm, if it answers: runs that failed by themselves are followed by others."""
        self._failures = 0  # the path before may have failed where this one does not
        for at in range(ARM_PATIENCE):
            if not self._try(arm, at) or self.list_outcomes(arm):
                break
        if self._is_refused(arm) or not self.list_outcomes(arm):
            self._set_aside(arm)
            return None
        return arm

    def _is_refused(self, arm: Arm) -> bool:
        """The server refused all of its runs that say something."""
        outcomes = self.list_outcomes(arm)
        return bool(outcomes) and all(each.kind == "refused" for each in outcomes)

    def _is_out(self, arm: Arm) -> bool:
        """The server refuses it, or its last runs failed by themselves."""
        last = list(self.outcomes.get(arm.name, {}).values())[-ARM_PATIENCE:]
        return self._is_refused(arm) or (len(last) == ARM_PATIENCE and not any(each.counts for each in last))

    def _set_aside(self, arm: Arm, best: Arm | None = None) -> None:
        """Say why it is out. `best`: the arm that it was compared with."""
        if self._is_refused(arm):
            self.standings[arm.name] = Standing(arm, "refused", reason=self.list_outcomes(arm)[0].why)
            return
        pairs, against = Pairs(0, 0, 0), ""
        if best:
            pairs, against = self.judge(arm, best)[2], best.name
        why = "there are too few requests for one run"
        if runs := list(self.outcomes.get(arm.name, {}).values()):
            why = runs[-1].why
        self.standings[arm.name] = Standing(arm, "failed", against, why, pairs)

    def _try(self, arm: Arm, at: int) -> bool:
        """Run a sample, unless it was run; False if there are no requests left for it."""
        case, seed = self.samples[at]
        done = self.outcomes.setdefault(arm.name, {})
        if (case.id, seed) in done:
            return True
        if self.requests + COST * len(case.turns) > self.plan.requests:
            return False
        outcome = done[case.id, seed] = self._run(arm, case, seed)
        self.requests += max(outcome.requests, 1)
        if outcome.kind != "harness":
            self._failures = 0
            return True
        self._failures += 1
        if self._failures >= self.plan.patience:
            raise HarnessFailed(outcome.why)
        return True


class HarnessFailed(BotError):
    """The eval itself cannot go on: so many runs in a row failed, and not because of the model."""


def _mark_passed(outcomes: Sequence[CaseOutcome]) -> dict[Sample, bool]:
    return {(each.case, each.seed): each.passed for each in outcomes}


def _mark_clean(outcomes: Sequence[CaseOutcome]) -> dict[Sample, bool]:
    return {(each.case, each.seed): each.is_clean for each in outcomes}
