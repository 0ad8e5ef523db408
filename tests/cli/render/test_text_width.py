from src.cli.render.text_width import measure_width, truncate
from tests.each import check_rows


@check_rows("text, columns", [("abc", 3), ("日本", 4), ("\x1b[1ma\x1b[0m", 1), ("e\u0301", 1), ("", 0)])
def test_width(text, columns):
    assert measure_width(text) == columns


@check_rows(
    "text, columns, shown",
    [("abc", 3, "abc"), ("abcdef", 5, "ab..."), ("日本語日本語", 8, "日本..."), ("a\tb", 9, "a    b")],
)
def test_cut(text, columns, shown):
    assert truncate(text, columns) == shown


def test_what_is_cut_ends_its_colours():
    assert truncate("\x1b[31mabcdef", 5) == "\x1b[31mab...\x1b[0m"
