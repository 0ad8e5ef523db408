"""Backslashes: what each was meant as."""

import pytest

from src.parsing.decode.escapes import unescape


@pytest.mark.parametrize(
    ("raw", "meant"),
    [
        (r"a\nb\t\"c\"", 'a\nb\t"c"'),
        (r"\u00e9\x41", "éA"),
        (r"\ud83d\ude00", "😀"),
        (r"C:\Users\new\table", r"C:\Users\new\table"),
        (r"C:\\Users\tom", "C:\\Users\tom"),
        (r"\\server\share\x", r"\server\share\x"),
        (r"a\_b\#c", "a_b#c"),
        (r"a\_b \*c\*", "a_b *c*"),
        (r"\d+\.\w", r"\d+\.\w"),
        ("it\\'s", "it's"),
        ("a\\\nb", "ab"),
        ("plain", "plain"),
    ],
)
def test_a_backslash_means_what_it_was_meant_as(raw, meant):
    assert unescape(raw, {}) == meant


def test_liberties_are_noted_and_legal_escapes_are_none():
    notes = {}
    unescape(r"a\nb", notes)
    assert not notes
    unescape(r"\d", notes)
    unescape("a\nb", notes)
    assert list(notes) == ["backslashes", "raw newlines"]
