"""Replacing a piece of a text in three modes, with a helpful error if it does not occur."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools.fs.replace import replace_text
from tests.each import check_rows

REPLACED = [
    ("in a line", "one two three", "two", "2", "one 2 three", 1),
    ("whole lines", "a\nb\nc\n", "b\n", "", "a\nc\n", 2),
    ("at the end without a line break", "a\nb", "b", "c", "a\nc", 2),
    ("by itself", "a\nb\n", "b", "b", "a\nb\n", 2),
    ("what a regular expression would read", "f(x)*", "(x)*", "[\\1]", "f[\\1]", 1),
    ("by what a template would read", "a", "a", r"\g<0> $1 {0} %s", r"\g<0> $1 {0} %s", 1),
    ("LF text in a CRLF file", "a\r\nb\r\nc\r\n", "a\nb", "x\ny", "x\r\ny\r\nc\r\n", 1),
    ("CRLF text in a CRLF file", "a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n", 1),
    ("a line added to a CRLF file", "a\r\nb\r\n", "a", "a\nnew", "a\r\nnew\r\nb\r\n", 1),
    ("nothing but itself where line ends are mixed", "a\r\nb\nc\n", "b\n", "x\n", "a\r\nx\nc\n", 2),
]


@check_rows("text, old, new, changed, line", [row[1:] for row in REPLACED])
def test_the_only_occurrence_is_replaced(text, old, new, changed, line):
    assert replace_text(text, old, new) == (changed, 1, (line,), "exact")


REFUSED = [
    ("a\nb\na\n", "a", "oldText occurs 2 times, at lines 1, 3"),
    ("aaa", "aa", "oldText occurs 2 times, at line 1"),
    ("x\n" * 500, "x", "oldText occurs 500 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, "
     "18, 19, 20, ..."),
    ("alpha\nbeta\n", "betta", 'The nearest line is 2: "beta"'),
    ("alpha\nbeta\n", "zzzz", "No line of it is similar"),
    (
        "def f():\n    return 1\n",
        "def f():\n  return 1",
        'Line 2 is "    return 1", and oldText has "  return 1" there',
    ),
    ("if x:\n\ty()\n", "    y()", 'Line 2 is "\\ty()", and oldText has "    y()" there'),
    ("a\nx\n1\na\nb\nc\n", "a\nb\nd", 'Line 6 is "c", and oldText has "d" there'),
    ("a\nlast", "a\nlast\n", "The text at line 1 differs from it only in the line breaks at its ends"),
    ("a\nb", "a\nb\nc\nd", 'The file ends behind line 2, and oldText goes on with "c"'),
    ("a\nb\n", "\n\n", "nothing but white space"),
    ("", "a", "No line of it is similar"),
    ("".join(f"value_{n} = compute(n={n})\n" for n in range(999)), "value_500 = compte(n=500)",
     'The nearest line is 501: "value_500 = compute(n=500)"'),
    ("x\n" * 99 + "    return first + second\n", "return frist + second", 'The nearest line is 100: "    return first'),
]  # fmt: skip


@check_rows("text, old, said", REFUSED)
def test_what_does_not_occur_once_is_refused_with_what_is_there(text, old, said):
    with pytest.raises(ToolError) as refusal:
        replace_text(text, old, "new", mode="exact")
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("a" * 500_000, "a" * 200_000),
        ("a\n" * 50_000, "a\n" * 5_000 + "b"),
        ("lorem ipsum\n" * 50_000, "lo_em"),
    ],
)
def test_refusing_a_large_file_looks_at_a_bounded_part(text, old):
    with pytest.raises(ToolError) as refusal:
        replace_text(text, old, "new")
    assert len(str(refusal.value)) < 500


def test_the_most_similar_line_of_a_large_file_is_named():
    words = random.Random(1)
    lines = ["".join(words.choices("abcdefghij ", k=160)) for _ in range(5_000)]
    with pytest.raises(ToolError, match="The nearest line is 4000"):
        replace_text("\n".join(lines), lines[3_999][:80] + "#####" + lines[3_999][85:], "new")


# Every occurrence


@pytest.mark.parametrize("mode", ["exact", "auto"])
def test_every_occurrence_is_replaced_where_that_is_asked_for(mode):
    done = replace_text("x\ny x\n" * 1_000, "x", "xx", every=True, mode=mode)
    assert done.text == "xx\ny xx\n" * 1_000
    assert (done.times, done.lines[:3], done.mode) == (2_000, (1, 2, 3), "exact")


def test_of_what_overlaps_every_second_is_replaced_as_anywhere():
    assert replace_text("aaaaa", "aa", "b", every=True).text == "bba"


def test_what_does_not_occur_as_often_as_expected_is_left():
    with pytest.raises(ToolError, match="oldText occurs 2 times, at lines 1, 2; expected_replacements is 3"):
        replace_text("x\nx\n", "x", "y", every=True, expected=3)
    with pytest.raises(ToolError, match="oldText occurs once, at line 1; expected_replacements is 2"):
        replace_text("x\n", "x", "y", expected=2)
    with pytest.raises(ToolError, match="oldText occurs 2 times, at lines 1, 2\n.*replace_all"):
        replace_text("x\nx\n", "x", "y", expected=2)
    assert replace_text("x\nx\n", "x", "y", every=True, expected=2).text == "y\ny\n"


# By lines, blanks at their ends aside

TRIMMED = [
    ("indented less", "if a:\n    b()\n    c()\n", "b()\nc()", "    d()", "if a:\n    d()\n", 2),
    ("indented by tabs", "if a:\n\tb()\n", "if a:\n    b()", "x", "x\n", 1),
    ("blanks at the end", "a  \nb\t\nc\n", "a\nb", "x", "x\nc\n", 1),
    ("a blank line of blanks", "a\n   \nb\n", "a\n\nb\n", "x\n", "x\n", 1),
    ("with its newline", "a\n  b\nc\n", "\tb\n", "x\n", "a\nx\nc\n", 2),
    ("at the end without a newline", "a\n  b", " b\n", "x\n", "a\nx", 2),
    ("in a CRLF file", "a\r\n  b\r\n  c\r\n", "b\nc", "x\ny", "a\r\nx\r\ny\r\n", 2),
    ("CRLF where the line ends are mixed", "a\n  b\r\n  c\r\nd", "b\nc\n", "x\ny\n", "a\nx\r\ny\r\nd", 2),
    ("CRLF behind a line where the line ends are mixed", "a\r\n  b\r\nc\n", "\tb", "y", "a\r\ny\r\nc\n", 2),
    ("the same, with other blanks", "a\r\nb \r\nc\n", "a\n b", "x\ny", "x\r\ny\r\nc\n", 1),
    ("CRLF given for an LF file", "a\nb\nc\n", "a\r\nb", "x\r\ny", "x\ny\nc\n", 1),
]  # fmt: skip


@check_rows("text, old, new, changed, line", [row[1:] for row in TRIMMED])
def test_lines_are_found_with_other_blanks_at_their_ends(text, old, new, changed, line):
    done = replace_text(text, old, new)
    assert (done.text, done.times, done.lines) == (changed, 1, (line,))
    if done.mode != "exact":
        assert replace_text(text, old, new, mode="line_trimmed") == done
        with pytest.raises(ToolError, match="does not occur"):
            replace_text(text, old, new, mode="exact")


def test_a_part_of_a_line_is_no_line():
    with pytest.raises(ToolError):
        replace_text("  one two\n", "one \n", "x", mode="line_trimmed")


def test_lines_that_are_there_twice_are_ambiguous_unless_each_is_meant():
    text = "\ta\n\tb\nc\n  a\n  b\n"
    with pytest.raises(ToolError, match=r"oldText occurs 2 times \(line_trimmed\), at lines 1, 4"):
        replace_text(text, " a\nb", "x")
    assert replace_text(text, " a\nb", "x", every=True) == ("x\nc\nx\n", 2, (1, 4), "line_trimmed")


def test_runs_of_lines_that_overlap_are_replaced_once():
    assert replace_text(" a\n a\n a\n", "a \na ", "x", every=True).text == "x\n a\n"


# By the first and the last line

BLOCK = """def area(shape):
    # the measures
    width = shape.width
    height = shape.height
    return width * height
"""
NEARLY = BLOCK.replace("# the measures\n    width = shape.width", "width = shape.the_width")


def test_a_block_is_found_by_its_first_and_last_line_and_what_is_most_like_between():
    other = BLOCK.replace("shape.width", "load()").replace("shape.height", "save()").replace("# the measures", "pass")
    done = replace_text(other + BLOCK, NEARLY, "gone\n")
    assert done == (other + "gone\n", 1, (6,), "block_anchor")
    assert replace_text(other + BLOCK, NEARLY, "gone\n", mode="block_anchor") == done


def test_blocks_equally_alike_are_ambiguous_unless_each_is_meant():
    with pytest.raises(ToolError, match=r"oldText occurs 2 times \(block_anchor\), at lines 1, 6"):
        replace_text(BLOCK * 2, NEARLY, "gone\n")
    assert replace_text(BLOCK * 2, NEARLY, "gone\n", every=True).text == "gone\n" * 2


@check_rows("old", [
    "def area(shape):\n    ...\n    return width * height\n",  # what stands between is nothing like it
    "def area(shape):\n    return width * height\n",  # nothing stands between
    "def area(shape):\n    width = shape.width\n    return width\n",  # the last line is another
    "\n    width = shape.the_width\n    height = shape.height\n\n",  # blank lines are no anchors
])  # fmt: skip
def test_a_block_that_is_not_alike_is_not_replaced(old):
    with pytest.raises(ToolError, match="does not occur"):
        replace_text(BLOCK, old, "gone\n")


# Any text

TEXT = st.text(st.sampled_from("ab \n"), max_size=30)


@given(TEXT, TEXT, TEXT, TEXT)
def test_the_text_around_the_replacement_is_unchanged(before, old, after, new):
    text = before + old + after
    assume(old and text.count(old) == 1 and text.find(old, text.find(old) + 1) < 0)
    assert replace_text(text, old, new) == (before + new + after, 1, (before.count("\n") + 1,), "exact")
    crlf = text.replace("\n", "\r\n")
    assert replace_text(crlf, old, new).text == (before + new + after).replace("\n", "\r\n") or "\n" not in text


@given(TEXT, TEXT.filter(bool), st.booleans(), st.sampled_from(["auto", "exact", "line_trimmed", "block_anchor"]))
def test_it_replaces_or_refuses_and_never_fails_otherwise(text, old, every, mode):
    try:
        done = replace_text(text, old, "X", every=every, mode=mode)
    except ToolError:
        return
    assert done.text.count("X") == done.times == len(done.lines) >= 1
    assert done.text.endswith("\n") == text.endswith("\n") or old.endswith("\n") or text.endswith(old)


@pytest.mark.parametrize("count", [1, 12])
def test_of_tables_with_the_same_ends_only_a_single_one_is_taken_for_what_is_meant(count):
    table = "\n".join(f"1, 0, 0, 1, 1, 0, {row % 7}" for row in range(100))
    old = "BEGIN\n" + "\n".join(f"0, 1, 0, 0, 1, 1, 1, 0, {row % 3}" for row in range(80)) + "\nEND\n"
    text = f"BEGIN\n{table}\nEND\n" * count
    if count == 1:
        assert replace_text(text, old, "x\n").text == "x\n"
    else:
        with pytest.raises(ToolError, match="oldText does not occur in the file"):
            replace_text(text, old, "x\n")
