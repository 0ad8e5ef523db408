"""What came of a batch: a table for the terminal, and one HTML page that needs no network."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from .results import SUCCESS, Row

REPORT = "report.html"
BAR = '<div class="rest"><div class="bar" style="width:{share:.0%}"></div></div>'
MAX_REASON_CHARS = 200
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 2rem; width: 100% }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: left; vertical-align: top }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.bar { background: #2a7; height: .6rem } .rest { background: #eee }
.bad { color: #b22 }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd } td, th { border-color: #444 } }
"""


def summarize(rows: Sequence[Row], total: int) -> list[tuple[str, str]]:
    """Label and value of each line of the summary."""
    statuses = dict(count_statuses(rows))
    answered, successful = statuses.pop(SUCCESS, 0), sum(row.is_success for row in rows)
    seconds = [row.seconds for row in rows]
    duration = "-"
    if seconds:
        duration = f"{median(seconds):,.1f} (median), {max(seconds):,.1f} (longest)"
    return [
        ("tasks", f"{len(rows):,} of {total:,}"),
        ("successful", f"{successful:,}"),
        ("answered, but a check failed", f"{answered - successful:,}"),
        *((status, f"{count:,}") for status, count in statuses.items()),
        ("tokens", f"{sum(row.tokens for row in rows):,}"),
        ("calls", f"{sum(row.calls for row in rows):,}, {sum(row.repairs for row in rows):,} repaired"),
        ("seconds a task", duration),
    ]


def count_statuses(rows: Sequence[Row]) -> list[tuple[str, int]]:
    return Counter(row.status for row in rows).most_common()


def count_checks(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """Command, how often it passed, how often it ran."""
    ran: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for row in rows:
        for check in row.checks:
            ran[check.command] += 1
            passed[check.command] += check.exit_code == 0
    return [(command, passed[command], count) for command, count in ran.most_common()]


def count_reasons(rows: Sequence[Row]) -> list[tuple[str, str, int]]:
    """Status, the first line of the reason, and how many rows have both."""
    counts = Counter((row.status, row.reason.partition("\n")[0][:MAX_REASON_CHARS]) for row in rows if row.reason)
    return [(status, reason, count) for (status, reason), count in counts.most_common()]


def render_text(rows: Sequence[Row], total: int) -> str:
    lines = [f"{label:30} {value}" for label, value in summarize(rows, total)]
    if checks := count_checks(rows):
        lines += ["", "checks", *(f"  {passed:>6,} of {ran:<6,} {command}" for command, passed, ran in checks)]
    if reasons := count_reasons(rows):
        lines += ["", "reasons", *(f"  {count:>6,} {status}: {reason}" for status, reason, count in reasons)]
    return "\n".join(lines)


def write_page(folder: Path, rows: Sequence[Row], total: int, clean: Callable[[str], str]) -> Path:
    """The page; `clean` removes secrets and escape sequences. Raises OSError."""

    def show(text: object) -> str:
        return html.escape(clean(str(text)))

    parts = [
        "<h1>Batch</h1>",
        _make_table((), [(show(label), show(value)) for label, value in summarize(rows, total)]),
        "<h2>Checks</h2>",
        _make_table(
            ("command", "passed", ""),
            [(show(name), f"{ok:,} of {ran:,}", BAR.format(share=ok / ran)) for name, ok, ran in count_checks(rows)],
        ),
        "<h2>Failures by reason</h2>",
        _make_table(
            ("status", "reason", "tasks"),
            [(show(status), show(why), f"{count:,}") for status, why, count in count_reasons(rows)],
        ),
        "<h2>Tasks</h2>",
        _make_table(
            ("id", "status", "checks", "tokens", "calls", "repairs", "seconds", "path"),
            [
                (
                    show(row.id),
                    show(row.status) if row.is_success else f'<span class="bad">{show(row.status)}</span>',
                    f"{sum(check.exit_code == 0 for check in row.checks)} of {len(row.checks)}",
                    f"{row.tokens:,}",
                    f"{row.calls:,}",
                    f"{row.repairs:,}",
                    f"{row.seconds:,.1f}",
                    show(row.path),
                )
                for row in rows
            ],
        ),
    ]
    head = f'<meta charset="utf-8"><title>Batch</title><style>{STYLE}</style>'
    page = f'<!doctype html><html lang="en">{head}{"".join(parts)}</html>'
    path = folder / REPORT
    path.write_text(page, encoding="utf-8", errors="replace")
    return path


def _make_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return "<p>None.</p>"
    top = ""
    if head:
        top = "<tr>" + "".join(f"<th>{each}</th>" for each in head) + "</tr>"
    body = "".join("<tr>" + "".join(f"<td>{each}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table>{top}{body}</table>"
