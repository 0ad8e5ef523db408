from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from src.cli.render.wrap import (
    cut_at_word,
    fold_line,
    mark_text,
    measure_at_most,
    quote_text,
    split_at_columns,
    wrap_line,
    wrap_text,
)
from tests.each import check_rows


@check_rows(
    "line, pieces",
    [
        ("short", ["short"]),
        ("", [""]),
        ("one two three four five six", ["one two three four", "five six"]),
        ("  one two three four five", ["  one two three four", "  five"]),
        ("  name   one two three four", ["  name   one two", "         three four"]),
        ("  name   x/long/er/than/a/line here", ["  name   x/long/er/than/a/line", "         here"]),
        ("  a key          one two three", ["  a key  one two", "      three"]),
        ("\tone two three four", ["    one two three", "    four"]),
        ("far to the right  one two", ["far to the right", "one two"]),
    ],
)
def test_a_line_is_broken_at_blanks_and_goes_on_below_its_last_column(line, pieces):
    assert wrap_line(line, 20) == pieces


def test_each_line_for_itself():
    assert wrap_text("a\n\none two", 5) == "a\n\none\ntwo"


def test_text_is_measured_by_the_function_that_is_passed():
    assert wrap_line("日本 日本", 8, lambda text: 2 * len(text)) == ["日本", "日本"]


@check_rows(
    "text, columns, cut",
    [
        ("two words", 9, "two words"),
        ("two words", 8, "two..."),
        ("tests/security/a.py", 12, "tests/..."),
        ("snake_case", 8, "..."),
        ("日本語です", 4, "日..."),
        ("anything", 2, ".."),
    ],
)
def test_a_text_is_cut_between_words(text, columns, cut):
    assert cut_at_word(text, columns) == cut


@check_rows(
    "text, pieces",
    [
        ("", [""]),
        ("short", ["short"]),
        ("one two three", ["one two ", "three"]),
        ("a long-word-first", ["a long-wor", "d-first"]),
        ("日本語日本語", ["日本語日本", "語"]),
        ("\U0001f600" * 6, ["\U0001f600" * 5, "\U0001f600"]),
    ],
)
def test_a_text_of_others_is_split_into_pieces_that_fit_without_a_loss(text, pieces):
    assert split_at_columns(text, 10) == pieces


def test_what_does_not_fit_of_a_line_stands_behind_a_colon_and_of_a_text_each_line_behind_a_bar():
    assert fold_line("  a: very/long/name", 14) == ["  a: very/long", "    : /name"]
    assert quote_text("one\ntwo three", 14) == ["    | one", "    | two ", "    : three"]
    assert quote_text("one\n", 0) == ["    | one", "    | "]


def test_a_text_can_stand_behind_one_mark():
    assert mark_text("one\n\nabcdefghij", "! ", 8) == ["! one", "!", "! abcdef", "! ghij"]
    assert mark_text("one two three", "! ", 0) == ["! one two three"]


@given(st.text(), st.integers(1, 30))
def test_the_pieces_of_a_split_text_are_the_text(text, columns):
    assert "".join(split_at_columns(text, columns)) == text


@given(st.text(), st.integers(1, 30))
def test_no_line_of_others_is_wider_than_the_terminal_and_none_begins_without_a_mark(text, columns):
    for line in quote_text(text, columns + 8):
        assert line.startswith(("    | ", "    : "))
        assert measure_at_most(line) <= columns + 8
        assert cell_len(line) <= columns + 8
