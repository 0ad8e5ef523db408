"""Which lines match, in blocks, whatever their length."""

from __future__ import annotations

import io
import time
import tracemalloc
from contextlib import nullcontext

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools.fs.grep import (
    BLOCK_BYTES,
    FoundLine,
    LineMatcher,
    find_lines,
    is_plain,
    read_blocks,
)
from tests.each import check_rows


def matcher(pattern: str, **kind: bool) -> LineMatcher:
    return LineMatcher(pattern, time.monotonic, **{"literal": False, "ignore_case": False} | kind)


def find(data: bytes, pattern: str, before: int = 0, after: int = 0) -> list[FoundLine]:
    return list(find_lines(read_blocks(io.BytesIO(data)), matcher(pattern), before, after))


@given(
    st.lists(st.sampled_from(["ab", "b", "", "xab"]), max_size=25),
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.integers(1, 9), max_size=20),
    st.sampled_from(["ab", "^b", "$", "b"]),
)
def test_cut_into_any_blocks_the_lines_are_those_a_plain_search_finds(lines, before, after, sizes, pattern):
    parts, rest = [], [f"{line}\n".encode() for line in lines]
    for size in sizes:
        parts.append(b"".join(rest[:size]))
        rest = rest[size:]
    found = list(find_lines(filter(None, [*parts, b"".join(rest)]), matcher(pattern), before, after))
    import re

    hits = {number for number, line in enumerate(lines, 1) if re.search(pattern, line)}
    near = {number for hit in hits for number in range(hit - before, hit + after + 1)}
    assert found == [FoundLine(n, line, n in hits) for n, line in enumerate(lines, 1) if n in near]


@check_rows("size", [BLOCK_BYTES - 3, BLOCK_BYTES, 2 * BLOCK_BYTES - 3, 2 * BLOCK_BYTES, 5 * BLOCK_BYTES])
def test_of_a_line_longer_than_a_block_the_begin_is_looked_at(size):
    data = b"first\n" + b"x" * (BLOCK_BYTES - 10) + b"early" + b"y" * (size - BLOCK_BYTES) + b"late\nlast\n"
    assert [line.number for line in find(data, "first|last")] == [1, 3]
    assert [line.number for line in find(data, "early")] == [2]


def test_the_last_line_needs_no_newline():
    assert find(b"a\nab", "ab") == [FoundLine(2, "ab", True)]
    assert find(b"", "a") == []


def test_a_large_file_is_searched_with_flat_memory():
    class Endless(io.RawIOBase):
        """40 MB of lines, one of which is another."""

        left = 40

        def read(self, size: int = -1) -> bytes:
            self.left -= 1
            return b"needle\n" if self.left == 20 else b"hay hay hay hay\n" * 65_536 if self.left >= 0 else b""

    tracemalloc.start()
    try:
        assert [line.text for line in find_lines(read_blocks(Endless()), matcher("ne+dle"), 0, 0)] == ["needle"]
        assert tracemalloc.get_traced_memory()[1] < 8 * BLOCK_BYTES
    finally:
        tracemalloc.stop()


def test_a_literal_is_taken_as_it_is():
    found = list(find_lines([b"a.b\naxb\n(\n"], matcher("a.b", literal=True), 0, 0))
    assert found == [FoundLine(1, "a.b", True)]
    assert list(find_lines([b"(\n"], matcher("(", literal=True), 0, 0))


def test_a_block_is_not_passed_over_for_a_pattern_whose_meaning_depends_on_the_line():
    assert matcher(r"\Ab").may_match(b"a\nb\n")
    assert find(b"a\nb\n", r"\Ab") == [FoundLine(2, "b", True)]


@pytest.mark.parametrize("lines", [["a" * 100_000 + "b"], ["a" * 20 + "b"] * 1_000])
def test_a_pattern_that_would_run_for_ever_is_stopped(lines):
    for_a_while = LineMatcher("(a|aa)+$", time.monotonic, literal=False, ignore_case=False, timeout_s=0.05)
    with pytest.raises(ToolError, match="the pattern takes more than 0.05 s"):
        for line in lines * 1_000:
            for_a_while.find(line)


@check_rows("pattern", ["(", "[", "a**", "(?P<x", "x" * 3_000, "", "(?R", "\\"])
def test_an_invalid_pattern_is_refused(pattern):
    with pytest.raises(ToolError) as refusal:
        matcher(pattern)
    assert len(str(refusal.value)) < 300


@check_rows(
    "pattern, is_refused",
    [
        ("a{99999999}", True),
        ("((?:a{1000}){1000}){1000}", True),
        ("(?P<name>a{9999}){9999,}?", True),
        ("a{0,99999999}", False),
        (r"\((?:[0-9a-f]{4}-){3}[)(]{12}", False),
        ("x{50000}|y{40000}", False),
    ],
)
def test_a_pattern_that_would_take_all_memory_is_not_compiled(pattern, is_refused):
    with pytest.raises(ToolError, match="repeats too much") if is_refused else nullcontext():
        matcher(pattern)


PIECES = st.sampled_from(
    ["a", "b", "k", "é", ".", "a*", "b+", "a?", "a{2}", "(", ")", "(?:", "|", "[ab]", "[^a]", "^", "$", r"\.", r"\w", r"\b", "ab", "]", "[", "\\", "{", "}", "a{e<=1}", "i", "-", "(?i)", "(?=", r"\1"]
)  # fmt: skip
PLAIN = ["abc", r"\d{7}", r"^\s*def \w+\(", "a|b", "(?:a|b)+?c$", "[^a-z_]x", r"[\w.]+@", "gr.n", "a{2,}b", "", "k*"]
NOT_PLAIN = [
    "(?i)a",
    "(?=a)b",
    "(?<!a)b",
    r"(a)\1",
    "a++",
    "a*+",
    "a{2}+",
    "(?>a)",
    r"a\Z",
    r"\Aa",
    "a{e<=1}",
    "[[:alpha:]]",
    r"\p{L}",
    r"\Ba",
]


@check_rows("pattern", [*PLAIN, *NOT_PLAIN])
def test_a_plain_pattern_is_recognized(pattern):
    assert is_plain(pattern) == (pattern in PLAIN)


@given(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(st.text(st.sampled_from("abk .-{}"), max_size=6), min_size=1, max_size=6),
    st.integers(0, 5),
)
def test_of_a_plain_pattern_a_line_that_matches_makes_the_whole_text_match(pattern, lines, at):
    try:
        expression = regex.compile(pattern)
    except regex.error:
        return
    line = lines[at % len(lines)]
    if is_plain(pattern) and expression.search(line):
        assert regex.search(pattern, "\n".join(lines), regex.MULTILINE)
