"""The table of an eval for the terminal: why to change, the arms with their intervals, and the kinds of failures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from .advice import EvalAdvice
from .arms import describe_changes
from .outcomes import KINDS, CaseOutcome, Kind, count_kinds
from .progress import count_all_requests
from .search import Search, Standing
from .statistics import estimate_interval

KIND_NAMES = {
    "model": "the model made another call, or none",
    "format": "right, once a broken call was repaired",
    "server": "right, once a call was recovered that the server's parser had lost",
    "lost": "a call was written and did not arrive",
    "refused": "the server refused the request",
    "harness": "the run failed; it is not counted",
}

MAX_REASON_CHARS = 60


class ArmRow(NamedTuple):
    """A line of the grid. Shares are from 0 to 1; `verdict` is in words."""

    name: str
    verdict: str
    runs: int
    passed: int
    clean: int
    kinds: Mapping[Kind, int]
    requests: int
    seconds: float
    cached: float | None
    tokens: float

    @property
    def share(self) -> float:
        return self.passed / self.runs if self.runs else 0.0


def list_rows(search: Search) -> list[ArmRow]:
    """The best arm first, then the others in the order in which they were tried."""
    standings = sorted(search.standings.values(), key=lambda each: each.verdict != "best")
    return [_make_row(standing, search.outcomes.get(standing.arm.name, {}).values()) for standing in standings]


def _make_row(standing: Standing, runs: Iterable[CaseOutcome]) -> ArmRow:
    outcomes = [*runs]
    counted: list[CaseOutcome] = []
    kinds: Mapping[Kind, int] = {}
    if standing.verdict != "refused":
        counted = [each for each in outcomes if each.counts]
        kinds = count_kinds(outcomes)
    prompt = sum(each.input_tokens for each in counted)
    return ArmRow(
        standing.arm.name,
        describe_verdict(standing),
        len(counted),
        sum(each.passed for each in counted),
        sum(each.is_clean for each in counted),
        kinds,
        sum(each.requests for each in outcomes),
        _average([each.seconds for each in counted]),
        sum(each.cached_tokens for each in counted) / prompt if prompt else None,
        _average([each.output_tokens for each in counted]),
    )


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def describe_verdict(standing: Standing) -> str:
    pairs = standing.pairs
    if standing.verdict == "worse":
        return f"beaten by {standing.against}, {pairs.losses} to {pairs.wins} ({standing.reason})"
    if standing.verdict == "same":
        return f"no difference to {standing.against}, {pairs.wins} to {pairs.losses}"
    first, *_ = standing.reason.splitlines() or [""]
    if standing.verdict == "refused":
        return f"not offered: {first[:MAX_REASON_CHARS]}"
    if standing.verdict == "failed":
        return f"undecided after {pairs.total} runs: its runs failed: {first[:MAX_REASON_CHARS]}"
    if standing.verdict == "open":
        return f"undecided after {pairs.total} runs: {standing.reason}"
    if standing.verdict == "best":
        return "the best"
    return str(standing.verdict)


def render_text(search: Search, advice: EvalAdvice, columns: int = 0) -> str:
    """What follows the headline, for a terminal of so many columns; 0: for none."""
    rows = list_rows(search)
    lines = [*(f"  {each}" for each in advice.why), "", *_draw_table(rows, columns)]
    lines += ["", *_list_kinds(rows)]
    saving = ""
    if search.compared:
        share = search.compared / count_all_requests(search)
        saving = f"; comparing the arms took {search.compared:,}, {share:.0%} of all cases under all arms"
    lines.append(f"requests: {search.requests:,}{saving}")
    if advice.settings:
        lines += ["recommended settings:", *(f"  {each}" for each in describe_changes(advice.settings))]
    return "\n".join(lines)


def _draw_table(rows: Sequence[ArmRow], columns: int) -> list[str]:
    """A line for each arm. Where one of them does not fit, each verdict stands in a line of its own below."""
    width = max(len(row.name) for row in rows)
    lines = [(f"{'arm':{width}}  right  interval  clean  runs   s/run  cached", "verdict")]
    for row in rows:
        low, high = estimate_interval(row.passed, row.runs)
        cached = "" if row.cached is None else f"{row.cached:.0%}"
        numbers = f"{'':22}"
        if row.runs:
            between, clean = f"{100 * low:.0f}-{high:.0%}", f"{row.clean / row.runs:.0%}"
            numbers = f"{row.share:5.0%}  {between:>8}  {clean:>5}"
        figures = f"{row.name:{width}}  {numbers}  {row.runs:4}  {row.seconds:6.2f}  {cached:>6}"
        lines.append((figures, row.verdict))
    if columns and any(len(figures) + len(verdict) + 2 > columns for figures, verdict in lines):
        return [line for figures, verdict in lines for line in (figures, f"  {verdict}")]
    return [f"{figures}  {verdict}" for figures, verdict in lines]


def _list_kinds(rows: Sequence[ArmRow]) -> list[str]:
    counts = {kind: sum(row.kinds.get(kind, 0) for row in rows) for kind in KINDS}
    return [f"{count:5}  {kind:8} {KIND_NAMES[kind]}" for kind, count in counts.items() if count]
