"""The table of an eval, on terminals of any width."""

from __future__ import annotations

import pytest

from src.cli.render.wrap import wrap_text
from src.eval.advice import EvalAdvice
from src.eval.report import render_text

from .runs import PATHS, make_search, right, wrong

VERDICTS = ["the best", "not offered: Not found", "no difference to native, 0 to 0"]


@pytest.fixture
def search():
    """The template is refused, and the other paths are equal."""
    found = make_search(
        lambda arm, *at: right(arm, *at) if arm.name != "template" else wrong(arm, *at, "refused", why="Not found")
    )
    found.find_best(PATHS)
    return found


def render(search, columns):
    return wrap_text(render_text(search, EvalAdvice("Nothing to change.", {}), columns), columns).splitlines()


@pytest.mark.parametrize("columns", [0, 120])
def test_a_verdict_stands_behind_the_figures_where_there_is_room(search, columns):
    _, head, *rows = render(search, columns)
    assert [row[head.index("verdict") :] for row in rows[:3]] == VERDICTS


@pytest.mark.parametrize("columns", [70, 79])
def test_it_stands_below_them_in_a_narrow_terminal_and_the_columns_stay(search, columns):
    _, head, _, *rows = render(search, columns)
    assert [row.strip() for row in rows[1:6:2]] == VERDICTS
    ends = [head.index("runs") + len("runs"), head.index("s/run") + len("s/run")]
    assert all(row[end - 1] != " " and row[end] == " " for row in rows[0:5:2] for end in ends)
