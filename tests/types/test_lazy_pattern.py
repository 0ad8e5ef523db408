"""Patterns that are compiled when they are first used."""

import re

import pytest

from src.types.lazy_pattern import LazyPattern


def test_it_matches_as_a_compiled_pattern_does():
    pattern, compiled = LazyPattern(r"a(b+)", re.IGNORECASE), re.compile(r"a(b+)", re.IGNORECASE)
    text = "xABBab"
    assert pattern.search(text).span(1) == compiled.search(text).span(1)
    assert pattern.match(text, 1).group() == "ABB"
    assert pattern.fullmatch(text) is None
    assert pattern.findall(text) == compiled.findall(text)
    assert [each.start() for each in pattern.finditer(text)] == [1, 4]
    assert pattern.split(text) == compiled.split(text)
    assert (pattern.sub("-", text), pattern.subn("-", text)) == ("x--", ("x--", 2))


def test_it_is_compiled_at_the_first_use():
    pattern = LazyPattern("(")
    with pytest.raises(re.error):
        pattern.match("a")


def test_it_has_no_other_attributes():
    with pytest.raises(AttributeError):
        LazyPattern("a").groups  # noqa: B018
