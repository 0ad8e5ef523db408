"""A unified diff as git writes it, in bounded time."""

from __future__ import annotations

import difflib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.tools.fs.diff import make_diff
from tests.each import check_rows

NUMBERED = "".join(f"{number}\n" for number in range(1, 21))

DIFFS = [
    ("nothing changed", "a\n", "a\n", ""),
    ("a new file", None, "a\n", "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"),
    ("a new and empty file", None, "", "--- /dev/null\n+++ b/f\n"),
    ("a deleted file", "a\n", None, "--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n"),
    ("emptied", "a\nb\n", "", "--- a/f\n+++ b/f\n@@ -1,2 +0,0 @@\n-a\n-b\n"),
    ("a line", "a\nb\nc\n", "a\nx\nc\n", "--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"),
    (
        "what stands around",
        NUMBERED,
        NUMBERED.replace("10\n", ""),
        "--- a/f\n+++ b/f\n@@ -7,7 +7,6 @@\n 7\n 8\n 9\n-10\n 11\n 12\n 13\n",
    ),
    (
        "the final newline",
        "a\nb",
        "a\nb\n",
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b\n",
    ),
    ("CRLF", "a\r\nb\r\n", "a\r\nx\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+x\n"),
]


@check_rows("before, after, diff", [row[1:] for row in DIFFS])
def test_a_diff_is_written_as_git_writes_it(before, after, diff):
    assert make_diff("f", before, after) == diff


def test_changes_far_apart_have_their_own_hunks():
    diff = make_diff("f", NUMBERED, NUMBERED.replace("2\n", "x\n", 1).replace("18\n", "y\n"))
    assert re.findall(r"^@@ .*", diff, re.MULTILINE) == ["@@ -1,5 +1,5 @@", "@@ -15,6 +15,6 @@"]


LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


@given(LINES, LINES)
def test_it_is_what_the_standard_library_writes_where_it_compares_everything(old, new):
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    assert applied(before, make_diff("f", before, after)) == after
    if old and new and old[0] != new[0] and old[-1] != new[-1]:  # nothing was passed over
        theirs = difflib.unified_diff(old, new, "a/f", "b/f", lineterm="")
        assert make_diff("f", before, after).splitlines() == list(theirs)


@pytest.mark.parametrize(("step", "longer"), [(3, 0), (1, 0), (7, 1)], ids=["some", "every", "and one more"])
def test_a_large_diff_applies_completely(step, longer):
    before = "".join(f"line {number}\n" for number in range(4_000))
    changed = [f"line {number}{'!' * (not number % step)}\n" for number in range(4_000)] + ["more\n"] * longer
    diff = make_diff("f", before, "".join(changed))
    assert applied(before, diff) == "".join(changed)


def test_lines_that_repeat_too_often_are_not_compared():
    before, after = "a\n" * 999 + "b\n", "a\nb\n" * 499
    diff = make_diff("f", before, after)
    assert applied(before, diff) == after
    assert diff.count("\n-") > 900


def applied(before: str, diff: str) -> str:
    """What a diff makes of a text; fails where it does not fit."""
    old, new, at = before.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True)[2:]:
        if head := re.match(r"@@ -(\d+)(,0)?", line):
            start = int(head[1]) - (0 if head[2] else 1)
            new += old[at:start]
            at = start
        elif line[0] in " -":
            assert old[at] == line[1:]
            at += 1
            new += [line[1:]] if line[0] == " " else []
        else:
            new.append(line[1:])
    return "".join(new + old[at:])
