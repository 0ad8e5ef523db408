"""Globs as expressions, and the words that whatever matches an expression must hold."""

from __future__ import annotations

import fnmatch

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from src.errors import ToolError
from src.tools.fs.globs import is_plain, of_glob, words

GLOBS = [
    ("*.py", ["a.py", "x/a.py", ".py", "x/y/z.py"], ["a.pyc", "a/py", "a.py/x"]),
    ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "x/src/a.py"]),
    ("./src/*.py", ["src/a.py"], ["x/src/a.py"]),
    ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["x/src/a.py"]),
    ("**/test_*.py", ["test_a.py", "x/y/test_a.py"], ["test_a/x.py"]),
    ("**", ["a", "a/b"], []),
    ("src/**", ["src/a", "src/a/b"], ["src", "a/src/b"]),
    ("src/", ["src/a", "src/a/b"], ["src", "x/src"]),
    ("a**b", ["ab", "axb", "x/ab"], ["a/b"]),
    ("**/**/a", ["a", "x/a", "x/y/a"], ["b"]),
    ("?.txt", ["a.txt", "é.txt"], ["ab.txt", "/.txt"]),
    ("[ab].txt", ["a.txt"], ["c.txt", "[ab].txt"]),
    ("[!ab].txt", ["c.txt"], ["a.txt", "/.txt"]),
    ("[^ab].txt", ["c.txt"], ["a.txt"]),
    ("[]x].txt", ["].txt", "x.txt"], ["a.txt"]),
    ("[a-c][[].txt", ["b[.txt"], ["d[.txt"]),
    ("[a&&b].txt", ["&.txt", "a.txt"], ["c.txt"]),
    ("[ab", ["[ab"], ["a"]),
    ("*.{js,ts}", ["a.js", "x/a.ts"], ["a.jsx", "a.{js,ts}"]),
    ("{src,test}/**/*.{c,h{pp,}}", ["src/a.c", "test/x/a.hpp", "src/a.h"], ["lib/a.c", "src/a.hp"]),
    ("{a,b", ["{a,b"], ["a"]),
    ("a+(b).$", ["a+(b).$"], ["aab"]),
    (r"a\*b", ["a*b"], ["axb"]),
    ("*", ["a", ".hidden", "x/a"], []),
]


@pytest.mark.parametrize(("pattern", "fit", "others"), GLOBS, ids=[row[0] for row in GLOBS])
def test_a_glob_fits_paths(pattern, fit, others):
    expression = regex.compile(of_glob(pattern))
    assert [path for path in [*fit, *others] if expression.fullmatch(path)] == fit


@pytest.mark.parametrize("pattern", ["../**/*.txt", "/etc/*", "a/../../b", "~/x", "{a,..}/b", "..", "x/.."])
def test_a_glob_that_leads_out_is_refused(pattern):
    with pytest.raises(ToolError, match="leads outside"):
        of_glob(pattern)


@settings(deadline=None)
@example("[!]", "[!]")
@given(
    st.text(st.sampled_from("ab*?[]!"), min_size=1, max_size=6),
    st.text(st.sampled_from("ab[]!"), min_size=1, max_size=5),
)
def test_without_folders_it_is_the_standard_librarys(pattern, name):
    assert bool(regex.fullmatch(of_glob(pattern), name)) == fnmatch.fnmatchcase(name, pattern)


WORDS = [
    ("def resolve", ("def resolve",)),
    (r"def\s+resolve\(", ("resolve(",)),
    ("foo|barbaz", ("foo", "barbaz")),
    ("foo|b.", ()),
    ("(foo|bar)qux", ("qux",)),
    (r"\d+", ()),
    ("abc?de", ("ab",)),
    ("ab{2,3}cde", ("cde",)),
    ("abc+de", ("ab",)),
    ("^import os$", ("import os",)),
    (r"a\.bc\|", ("a.bc|",)),
    ("[abc]def[^g]", ("def",)),
    (r"\bword\b", ("word",)),
    ("grün", ("gr",)),
    ("(?i)abc", ()),
    ("(?:abc)?def", ("def",)),
    ("abc(?=def)", ()),
    (r"\x41bc", ()),
    ("[]a[]bc", ()),
    ("[[:alpha:]]bc", ()),
    ("(?:foo){e<=1}barbar", ("barbar",)),
    ("", ()),
]


@pytest.mark.parametrize(("pattern", "found"), WORDS, ids=[row[0] for row in WORDS])
def test_the_words_are_what_every_match_holds(pattern, found):
    assert words(pattern, ignore_case=False) == found


def test_without_case_letters_that_have_a_third_form_are_not_looked_for():
    assert words("first|Link", ignore_case=True) == ()
    assert words("abcdkefg", ignore_case=True) == ("abcd",)


PIECES = st.sampled_from(
    ["a", "b", "k", "é", ".", "a*", "b+", "a?", "a{2}", "(", ")", "(?:", "|", "[ab]", "[^a]", "^", "$", r"\.", r"\w", r"\b", "ab", "]", "[", "\\", "{", "}", "a{e<=1}", "i", "-", "(?i)", "(?=", r"\1"]
)  # fmt: skip


@settings(deadline=None, max_examples=300)
@given(
    st.lists(PIECES, max_size=8).map("".join),
    st.lists(st.text(st.sampled_from("abkKKiIİé.-{}]["), max_size=12), min_size=5, max_size=20),
    st.booleans(),
)
def test_what_matches_holds_one_of_the_words(pattern, lines, ignore_case):
    try:
        expression = regex.compile(pattern, regex.IGNORECASE if ignore_case else 0)
    except regex.error:
        return
    found = words(pattern, ignore_case=ignore_case)
    for line in lines:
        if found and expression.search(line):
            text = line.encode().lower() if ignore_case else line.encode()
            assert any((word.lower() if ignore_case else word).encode() in text for word in found)


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


@pytest.mark.parametrize("pattern", [*PLAIN, *NOT_PLAIN])
def test_a_plain_pattern_is_told_from_others(pattern):
    assert is_plain(pattern) == (pattern in PLAIN)


@settings(deadline=None, max_examples=300)
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
