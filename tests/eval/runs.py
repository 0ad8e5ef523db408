"""Models whose answers are drawn by chance, and evals on them."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from src.eval.arms import Arm
from src.eval.cases import Case, ExpectedCall, Turn
from src.eval.outcomes import CaseOutcome
from src.eval.search import QUICK, Plan, Search
from src.types.messages import ToolDefinition

TOOL = ToolDefinition("look", "Looks.", {"type": "object", "properties": {"at": {"type": "string"}}})
CASES = [
    Case(f"case {n}", (TOOL,), (Turn(f"Look at {n}.", (ExpectedCall("look", {"at": str(n)}),)),)) for n in range(40)
]
PATHS = [Arm(name, {"vllm.paths": [name]}) for name in ("native", "template", "text")]
Answer = Callable[[Arm, Case, int], CaseOutcome]


def right(arm: Arm, case: Case, seed: int, **fields) -> CaseOutcome:
    return CaseOutcome(arm.name, case.id, seed, passed=True, requests=1, seconds=1.0, **fields)


def wrong(arm: Arm, case: Case, seed: int, kind: str = "model", **fields) -> CaseOutcome:
    return CaseOutcome(arm.name, case.id, seed, passed=False, kind=kind, requests=1, seconds=1.0, **fields)


def draw_difficulties(chance: random.Random, share: float, cases: Sequence[Case] = CASES) -> dict[str, float]:
    """How often each case is passed: most always or never, as with real models; `share` on average."""
    return {case.id: chance.betavariate(share, 1 - share) for case in cases}


def answer_by_chance(seed: int, shares: dict[str, float]) -> Answer:
    """Equally good under every arm."""

    def run(arm: Arm, case: Case, sample: int) -> CaseOutcome:
        luck = random.Random(f"{seed} {arm.name} {case.id} {sample}").random()
        return (right if luck < shares[case.id] else wrong)(arm, case, sample)

    return run


def make_search(run: Answer, plan: Plan = QUICK, vary=lambda *_: [], cases: Sequence[Case] = CASES) -> Search:
    return Search(cases, plan, run, vary)
