"""Replacing a piece of a text: exactly once, literally, and with an error that helps where it cannot be."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools.edits import replace_once

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


@pytest.mark.parametrize(
    ("text", "old", "new", "changed", "line"), [row[1:] for row in REPLACED], ids=[r[0] for r in REPLACED]
)
def test_the_only_occurrence_is_replaced(text, old, new, changed, line):
    assert replace_once(text, old, new) == (changed, line)


REFUSED = [
    ("a\nb\na\n", "a", "oldText occurs 2 times, at lines 1, 3"),
    ("aaa", "aa", "oldText occurs 2 times, at lines 1"),
    ("x\n" * 50, "x", "oldText occurs 50 times, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."),
    ("x\n" * 500, "x", "oldText occurs 100 times or more, at lines 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ..."),
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
    ("a\nb\n", "\n\n", "nothing but white space"),
    ("", "a", "No line of it is similar"),
    ("".join(f"value_{n} = compute(n={n})\n" for n in range(999)), "value_500 = compte(n=500)",
     'The nearest line is 501: "value_500 = compute(n=500)"'),
    ("x\n" * 99 + "    return first + second\n", "return frist + second", 'The nearest line is 100: "    return first'),
]  # fmt: skip


@pytest.mark.parametrize(("text", "old", "said"), REFUSED, ids=[row[2][:60] for row in REFUSED])
def test_what_does_not_occur_once_is_refused_with_what_is_there(text, old, said):
    with pytest.raises(ToolError) as refusal:
        replace_once(text, old, "new")
    assert said in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("a" * 5_000_000, "a" * 2_000_000),
        ("a\n" * 200_000, "a\n" * 20_000 + "b"),
        ("lorem ipsum\n" * 200_000, "lo_em"),
    ],
)
def test_refusing_a_large_file_looks_at_a_bounded_part(text, old):
    with pytest.raises(ToolError) as refusal:
        replace_once(text, old, "new")
    assert len(str(refusal.value)) < 500


def test_looking_for_a_similar_line_takes_no_seconds():
    """It took 6.5 s of such a file; in time of the processor, since others may be at work."""
    words = random.Random(1)
    lines = ["".join(words.choices("abcdefghij ", k=160)) for _ in range(5_000)]
    begun = time.process_time()
    with pytest.raises(ToolError, match="The nearest line is 4000"):
        replace_once("\n".join(lines), lines[3_999][:80] + "#####" + lines[3_999][85:], "new")
    assert time.process_time() - begun < 0.5


TEXT = st.text(st.sampled_from("ab \n"), max_size=30)


@settings(deadline=None)
@given(TEXT, TEXT, TEXT, TEXT)
def test_what_stands_around_the_piece_stays_as_it_was(before, old, after, new):
    text = before + old + after
    assume(old and text.count(old) == 1 and text.find(old, text.find(old) + 1) < 0)
    assert replace_once(text, old, new) == (before + new + after, before.count("\n") + 1)
    crlf = text.replace("\n", "\r\n")
    assert replace_once(crlf, old, new)[0] == (before + new + after).replace("\n", "\r\n") or "\n" not in text


@settings(deadline=None)
@given(TEXT, TEXT.filter(bool))
def test_it_replaces_or_refuses_and_never_fails_otherwise(text, old):
    try:
        changed, _ = replace_once(text, old, "X")
    except ToolError:
        return
    assert changed.count("X") == 1
