"""report.html of an eval: one file that needs no network and runs no script.

The grid is a picture with a row for each arm and a column for each case. Each run that was not clean is below, and
opens to what was sent, what was answered, and what was read of it.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from .advice import EvalAdvice
from .arms import describe_changes
from .cases import Case
from .outcomes import KINDS, CaseOutcome
from .report import KIND_NAMES, ArmRow, list_rows
from .search import Search
from .statistics import estimate_interval

REPORT = "report.html"
CELL, GAP, LABEL = 14, 2, 230  # of the grid, in pixels
STYLE = """
:root { color-scheme: light dark; --clean: #3a9d5d; --format: #d9b63a; --server: #e08a2e; --lost: #c8394b;
  --model: #4d6fc4; --refused: #8a8a8a; --harness: #b9b9b9; font: 15px/1.5 system-ui, sans-serif }
@media (prefers-color-scheme: dark) { :root { --clean: #4fb874; --format: #c9a72f; --server: #d98632; --lost: #e05566;
  --model: #7693e0; --refused: #7a7a7a; --harness: #555 } }
body { max-width: 72rem; margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.3rem } h2 { font-size: 1.05rem; margin: 2rem 0 .4rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #8881; padding: .6rem; font-size: 12px }
pre.headline { font-size: 14px; border-left: 4px solid var(--server) }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .8rem .25rem 0; border-bottom: 1px solid #8884; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums }
svg text { fill: currentColor; font-size: 12px }
.bar { fill: #8883 } .range { fill: var(--clean); opacity: .45 } .mark { fill: currentColor }
.key { display: inline-block; width: .8rem; height: .8rem; margin-right: .4rem; vertical-align: -1px }
summary { cursor: pointer; padding: .2rem 0 } details details { margin-left: 1rem } .note { opacity: .7 }
"""


def write_page(
    folder: Path, search: Search, advice: EvalAdvice, cases: Sequence[Case], about: Mapping[str, object]
) -> Path:
    """The texts of the outcomes are without secrets. Raises OSError."""
    rows = list_rows(search)
    names = [row.name for row in rows if row.runs]
    facts = " · ".join(f"{_escape(name)}: {_escape(value)}" for name, value in about.items())
    parts = [
        f"<h1>Eval of {_escape(about['model'])}</h1><p class=note>{facts}</p>",
        f"<pre class=headline>{_escape(advice.headline)}</pre>",
        "".join(f"<p>{_escape(why)}</p>" for why in advice.why),
        _make_settings(advice),
        f"<h2>Arms</h2><div class=scroll>{_make_table(rows)}</div>",
        "<h2>Cases</h2>",
        f"<p>{_make_key()}</p><div class=scroll>{_draw_grid(search, names, cases)}</div>",
        "<h2>Runs that were not clean</h2>",
        _make_failures(search, [row.name for row in rows]),
    ]
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Eval</title>'
    )
    page = (
        f'<!doctype html><html lang="en"><head>{head}<style>{STYLE}</style></head><body>{"".join(parts)}</body></html>'
    )
    path = folder / REPORT
    path.write_text(page, encoding="utf-8", errors="replace")
    return path


def _make_settings(advice: EvalAdvice) -> str:
    if not advice.settings:
        return ""
    return f"<h2>Recommended settings</h2><pre>{_escape(chr(10).join(describe_changes(advice.settings)))}</pre>"


def _make_table(rows: Sequence[ArmRow]) -> str:
    head = "".join(f"<th{kind}>{name}</th>" for name, kind in _HEAD)
    return f"<table><tr>{head}</tr>{''.join(map(_make_line, rows))}</table>"


_NUMBER = " class=n"
_HEAD = (
    ("arm", ""),
    ("right", _NUMBER),
    ("95 % interval", ""),
    ("clean", _NUMBER),
    ("runs", _NUMBER),
    ("s/run", _NUMBER),
    ("tokens/run", _NUMBER),
    ("cached", _NUMBER),
    ("verdict", ""),
)


def _make_line(row: ArmRow) -> str:
    if not row.runs:
        return f"<tr><td>{_escape(row.name)}</td><td colspan=7></td><td>{_escape(row.verdict)}</td></tr>"
    cached = "" if row.cached is None else f"{row.cached:.0%}"
    numbers = (f"{row.clean / row.runs:.0%}", f"{row.runs:,}", f"{row.seconds:,.2f}", f"{row.tokens:,.0f}", cached)
    cells = "".join(f"<td class=n>{each}</td>" for each in numbers)
    bar = _draw_interval(row)
    return (
        f"<tr><td>{_escape(row.name)}</td><td class=n>{row.share:.0%}</td><td>{bar}</td>{cells}"
        f"<td>{_escape(row.verdict)}</td></tr>"
    )


def _draw_interval(row: ArmRow) -> str:
    low, high = estimate_interval(row.passed, row.runs)
    title = f"{row.passed} of {row.runs}: {low:.0%} to {high:.0%}"
    at, width, mark = (f"{120 * each:.1f}" for each in (low, high - low, row.share))
    return (
        f'<svg width="120" height="14" role="img" aria-label="{title}"><title>{title}</title>'
        '<rect class="bar" y="5" width="120" height="4"/>'
        f'<rect class="range" x="{at}" y="3" width="{width}" height="8"/>'
        f'<rect class="mark" x="{mark}" y="1" width="2" height="12"/></svg>'
    )


def _make_key() -> str:
    names = {"clean": "right, and nothing was in the way", **KIND_NAMES}
    return "<br>".join(
        f'<span class=key style="background:var(--{kind})"></span><b>{kind}</b> {_escape(text)}'
        for kind, text in names.items()
    )


def _draw_grid(search: Search, names: Sequence[str], cases: Sequence[Case]) -> str:
    """A square for each case under each arm: the worst of its runs."""
    step = CELL + GAP
    squares = []
    for y, name in enumerate(names):
        squares.append(f'<text x="0" y="{y * step + 11}">{_escape(name)}</text>')
        for x, case in enumerate(cases):
            runs = [each for each in search.outcomes[name].values() if each.case == case.id]
            if runs:
                squares.append(_draw_square(LABEL + x * step, y * step, runs))
    width, height = LABEL + len(cases) * step, max(len(names), 1) * step
    return f'<svg width="{width}" height="{height}" role="img" aria-label="cases by arm">{"".join(squares)}</svg>'


def _draw_square(x: int, y: int, runs: Sequence[CaseOutcome]) -> str:
    worst = max(runs, key=_rank)
    right = sum(each.passed for each in runs)
    title = f"{worst.arm}, {worst.case}: {right} of {len(runs)} right"
    if worst.why:
        title += f"; {worst.why}"
    square = (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" rx="2" fill="var(--{worst.kind or "clean"})">'
        f"<title>{_escape(title[:300])}</title></rect>"
    )
    if not worst.kind:
        return square
    return f'<a href="#{_name(worst)}">{square}</a>'


def _rank(outcome: CaseOutcome) -> int:
    """The higher, the worse."""
    order = ("", "harness", "format", "server", "refused", "model", "lost")
    return order.index(outcome.kind)


def _make_failures(search: Search, names: Sequence[str]) -> str:
    outcomes = [each for name in names for each in search.outcomes.get(name, {}).values() if each.kind]
    if not outcomes:
        return "<p>None.</p>"
    parts = []
    for kind in KINDS:
        shown = [_make_failure(each) for each in outcomes if each.kind == kind]
        if shown:
            parts.append(f"<h3>{kind}: {len(shown)}</h3>{''.join(shown)}")
    return "".join(parts)


def _make_failure(outcome: CaseOutcome) -> str:
    summary = f"{outcome.case} · {outcome.arm} · seed {outcome.seed}"
    notices = "".join(f"<p class=note>{_escape(notice)}</p>" for notice in outcome.notices)
    exchanges = "".join(
        _make_text(f"request {number}, {each.path}", _indent(each.request))
        + _make_text(f"raw answer {number}, HTTP {each.status}", each.answer)
        for number, each in enumerate(outcome.exchanges, 1)
    )
    read = "".join(
        _make_text(f"what was read of answer {number}", json.dumps(each, indent=1, ensure_ascii=False))
        for number, each in enumerate(outcome.read, 1)
    )
    return (
        f'<details id="{_name(outcome)}"><summary><b>{_escape(summary)}</b> {_escape(outcome.why[:300])}</summary>'
        f"{notices}{exchanges}{read}</details>"
    )


def _make_text(title: str, text: str) -> str:
    return f"<details><summary>{_escape(title)}</summary><pre>{_escape(text)}</pre></details>"


def _indent(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except ValueError:  # it is cut, or no JSON
        return text


def _name(outcome: CaseOutcome) -> str:
    """The anchor of a run."""
    return "".join(char if char.isalnum() else "-" for char in f"run-{outcome.arm}-{outcome.case}-{outcome.seed}")


def _escape(text: object) -> str:
    return html.escape(str(text))
