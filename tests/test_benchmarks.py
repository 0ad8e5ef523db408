"""The benchmarks load, and their work can be done: what it costs is measured by hand and in CI, not here."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tests.benchmarks.growth import ROWS
from tests.each import check_rows

NAMES = [path.stem for path in sorted((Path(__file__).parent / "benchmarks").glob("[a-z]*.py"))]


@check_rows("name", NAMES)
def test_a_benchmark_loads(name):
    assert import_module(f"tests.benchmarks.{name}").__doc__


def test_the_work_whose_growth_is_measured_can_be_done():
    for row in ROWS:
        row.prepare(20)()
