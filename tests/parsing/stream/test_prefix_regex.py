"""Patterns and their beginnings."""

import re

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.stream.prefix_regex import (
    MAX_MATCH_CHARS,
    PrefixMatcher,
    any_begun,
    any_of,
    either,
    group,
    maybe,
    repeat,
    sequence,
    some,
    whole_run,
)

PATTERN = sequence(
    either("<a>", "[b]"),
    some(r"\s", 0, 3),
    maybe("x:"),
    group("word", repeat(some("[yz]", 1, 1), 4)),
    "{",
)
MATCHER = PrefixMatcher(PATTERN)


@given(
    st.sampled_from(["<a>", "[b]"]),
    st.text(" \n", max_size=3),
    st.sampled_from(["", "x:"]),
    st.text("yz", min_size=1, max_size=4),
)
def test_each_beginning_of_a_whole_is_begun_and_no_whole(marker, space, label, word):
    whole = marker + space + label + word + "{"
    assert MATCHER.match(whole)["word"] == word
    for end in range(len(whole)):
        assert MATCHER.is_prefix(whole[:end], 0)
        assert not MATCHER.match(whole[:end])


@given(st.text("<a>[b] x:yz{", max_size=8))
def test_what_is_neither_begun_nor_whole_becomes_neither_by_more_text(text):
    if not MATCHER.is_prefix(text, 0) and not MATCHER.match(text):
        assert all(not MATCHER.match(text + more) for more in ("{", "y{", "<a>y{", " y{"))


def test_nothing_longer_than_a_whole_can_be_is_begun():
    assert not MATCHER.is_prefix("<" * (MAX_MATCH_CHARS + 1), 0)


@given(st.lists(st.text("ab", max_size=4), min_size=1, max_size=6), st.text("ab", max_size=5))
def test_any_of_matches_the_longest_text_and_begins_where_one_of_them_does(texts, text):
    tree = PrefixMatcher(any_of(texts))
    match = tree.match(text)
    assert (match[0] if match else None) == max(filter(text.startswith, texts), key=len, default=None)
    assert tree.is_prefix(text, 0) == any(whole.startswith(text) for whole in texts)


def test_whole_runs_one_after_the_other_are_divided_in_one_way_only():
    """Were there more, the space before what does not come would be tried in millions of them."""
    matcher = PrefixMatcher(sequence(repeat(either(whole_run(r"\s", 64), whole_run("[:=]", 16)), 8), "{"))
    assert matcher.match(" : = \n{")
    assert not matcher.match(" " * 64 + "x")
    assert not matcher.is_prefix(" " * 64 + "x", 0)


@given(st.lists(st.text("ab", min_size=1, max_size=4), min_size=1, max_size=6), st.text("ab", max_size=5))
def test_any_begun_matches_a_whole_text_and_one_that_the_input_ends_in(texts, text):
    is_whole_or_begun = any(text.startswith(whole) or whole.startswith(text) for whole in texts)
    assert bool(re.match(any_begun(texts), text)) == is_whole_or_begun
