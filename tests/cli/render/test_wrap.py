import pytest

from src.cli.render.wrap import cut_at_word, wrap_line, wrap_text


@pytest.mark.parametrize(
    ("line", "pieces"),
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


@pytest.mark.parametrize(
    ("text", "columns", "cut"),
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
