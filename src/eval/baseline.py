"""Whether a model does worse than it did: the best arm of an earlier eval, on the same cases again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from ..errors import ConfigError
from .advice import EvalAdvice
from .arms import Arm
from .outcomes import CaseOutcome, read_results
from .statistics import ALPHA, compute_regression_p


class ArmBaseline(Struct, frozen=True):
    """The best arm, and its outcomes that count."""

    arm: Arm
    outcomes: Sequence[CaseOutcome]


def read_baseline(path: Path, cases: str) -> ArmBaseline:
    """`cases`: their fingerprint, which must be the same. Raises BotError."""
    about, outcomes, values = read_results(path)
    name, changes = values.get("arm"), values.get("changes")
    if not isinstance(name, str) or not isinstance(changes, dict):
        raise ConfigError(f"{path}: this eval did not come to its end.", "Run it to its end first.")
    if about.get("cases") != cases:
        raise ConfigError(f"{path}: this eval had other cases.", "Give the same --own and --data as it had.")
    return ArmBaseline(Arm(name, changes), [each for each in outcomes if each.arm == name and each.counts])


def compare_to_baseline(baseline: ArmBaseline, outcomes: Sequence[CaseOutcome]) -> tuple[bool, EvalAdvice]:
    """Whether it is worse, and what to say. A regression counts once chance is excluded with a probability of 95 %."""
    p = compute_regression_p(_group(baseline.outcomes), _group(outcomes))
    shares = f"{_share(baseline.outcomes)} right before, {_share(outcomes)} now (p = {p:.3f})"
    if p < ALPHA:
        return True, EvalAdvice(f"Worse than the baseline: {shares}.", {})
    return False, EvalAdvice(f"Not significantly worse than the baseline: {shares}.", {})


def _group(outcomes: Sequence[CaseOutcome]) -> Mapping[str, Sequence[bool]]:
    groups: dict[str, list[bool]] = {}
    for each in outcomes:
        groups.setdefault(each.case, []).append(each.passed)
    return groups


def _share(outcomes: Sequence[CaseOutcome]) -> str:
    return f"{sum(each.passed for each in outcomes) / len(outcomes):.0%}" if outcomes else "none"
