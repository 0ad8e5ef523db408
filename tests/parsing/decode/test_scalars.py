"""Backslashes in strings, and arithmetic on constants."""

from src.parsing.decode.scalars import eval_constant, unescape
from tests.each import check_rows


@check_rows(
    "raw, meant",
    [
        (r"a\nb\t\"c\"", 'a\nb\t"c"'),
        (r"\u00e9\x41", "éA"),
        (r"\ud83d\ude00", "😀"),
        (r"C:\Users\new\table", r"C:\Users\new\table"),
        (r"C:\\Users\tom", "C:\\Users\tom"),
        (r"\\server\share\x", r"\server\share\x"),
        (r"a\_b\#c", "a_b#c"),
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


@check_rows(
    "source, value", [("2*5", 10), ("3 + 4.5", 7.5), ("-(2**10)", -1024), ("7 // 2", 3), ("3*10**8", 300_000_000)]
)
def test_an_expression_of_constants_comes_to_its_number(source, value):
    assert eval_constant(source) == value


@check_rows(
    "source",
    [
        "a*2",
        "1/0",
        "9**999",
        "9**9**9",
        "(-9)**9**9",
        "10**30",
        "10**40 - 10**40 // 3",
        "2 +",
        "__import__",
        "(" * 70,
        "1" * 81,
        "()",
    ],
)
def test_whatever_else_is_left_alone(source):
    assert eval_constant(source) is None
