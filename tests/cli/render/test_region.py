"""The region is redrawn in place, and lines that have scrolled away stay."""

import io

import pyte
import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.cli.render.region import LiveRegion, ScreenLine


class Shown:
    def __init__(self, columns=20, rows=6):
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self.stream = pyte.Stream(self.screen)
        self.out = io.StringIO()
        self.columns = columns
        self.region = LiveRegion(self.out, lambda: self.columns)

    def update(self, above, lines):
        before = len(self.out.getvalue())
        self.region.update(above, [ScreenLine(line, len(line)) for line in lines])
        new = self.out.getvalue()[before:]
        self.stream.feed(new)
        return new

    @property
    def lines(self):
        gone = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        return [line.rstrip() for line in [*gone, *self.screen.display]]

    @property
    def text(self):
        return "\n".join(self.lines).rstrip("\n").split("\n")


def test_lines_change_in_place_below_what_is_finished():
    shown = Shown()
    shown.update([], ["one", "status 1"])
    shown.update(["one is done"], ["two", "status 2"])
    shown.update([], ["two more", "status 3"])
    assert shown.text == ["one is done", "two more", "status 3"]


def test_where_nothing_changed_nothing_is_written():
    shown = Shown()
    shown.update([], ["a", "b"])
    assert shown.update([], ["a", "b"]) == ""


def test_only_what_changed_is_drawn_again():
    shown = Shown()
    shown.update([], ["a long line", "status 1"])
    assert "a long line" not in shown.update([], ["a long line", "status 2"])


def test_it_grows_and_shrinks_and_goes():
    shown = Shown()
    for lines in (["a"], ["a", "b", "c"], ["c"], ["x", "y"], []):
        shown.update([], lines)
        assert shown.text == (lines or [""])


def test_a_change_is_one_write_that_hides_the_cursor():
    new = Shown().update(["x"], ["y"])
    assert new.startswith("\x1b[?2026h\x1b[?25l")
    assert new.endswith("\x1b[?25h\x1b[?2026l")


def test_a_finished_line_longer_than_the_terminal_is_whole():
    shown = Shown()
    shown.update([], ["region"])
    shown.update(["x" * 45], ["region"])
    assert shown.text == ["x" * 20, "x" * 20, "x" * 5, "region"]


LINES = st.lists(st.sampled_from(["", "a", "bb", "status", "x" * 19]), max_size=5)


@given(st.lists(st.tuples(LINES, LINES), max_size=12))
def test_whatever_is_drawn_the_finished_lines_are_there_once_and_in_order(steps):
    shown, finished = Shown(), []
    for number, (above, lines) in enumerate(steps):
        marked = [f"{number}:{line}"[:19] for line in above]
        finished += marked
        shown.update(marked, lines)
    shown.update([], [])
    assert [line for line in shown.text if line] == finished


@pytest.mark.parametrize("rows", [1, 2])
def test_after_it_became_narrower_what_the_terminal_wrapped_is_drawn_over(rows):
    shown = Shown()
    shown.update([], ["x" * 15] * rows)
    shown.columns = 10
    assert f"\x1b[{2 * rows - 1}A" in shown.update([], ["y"])
