from src.cli.render.colours import DARK, NONE
from src.cli.render.diff import count_changes, draw_file_diff, draw_preview

DIFF = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same\n"


def test_a_preview_colours_lines_by_their_sign():
    lines = draw_preview(DIFF, DARK)
    painted = ["\x1b[36m@@ -1 +1 @@\x1b[0m", "\x1b[31m-old\x1b[0m", "\x1b[32m+new\x1b[0m", " same"]
    assert lines[2:] == [f"    | {line}" for line in painted]


def test_the_rest_of_a_long_line_of_a_preview_has_its_colour():
    assert draw_preview("+one two three", DARK, 16) == ["    | \x1b[32m+one two \x1b[0m", "    : \x1b[32mthree\x1b[0m"]


def test_a_preview_reveals_what_a_terminal_would_obey():
    assert draw_preview("+new\x1b[2J\n", NONE) == ["    | +new\\x1b[2J"]


def test_a_file_diff_reveals_what_a_terminal_would_obey():
    assert draw_file_diff("a", b"old\n", b"\x1b[2Jnew\n")[-2:] == ["-old", "+\\x1b[2Jnew"]


def test_a_file_forges_no_lines_of_its_diff():
    forged = "y = 2 # \r-import audit\x0c--- a/other.py\u2028@@ -9 +9 @@\n"
    shown = "+y = 2 # \\r-import audit\\x0c--- a/other.py\\u2028@@ -9 +9 @@"
    lines = draw_file_diff("a", b"x = 1\n", f"x = 1\n{forged}".encode(), DARK)
    assert lines[3:] == [" x = 1", f"\x1b[32m{shown}\x1b[0m"]


def test_a_file_diff_has_blanks_for_tabs():
    assert draw_file_diff("a", b"old\n", b"\tnew\n")[-1] == "+   new"


def test_a_new_file_differs_from_none():
    assert draw_file_diff("a", None, b"new\n")[:2] == ["--- /dev/null", "+++ b/a"]


def test_a_file_diff_has_the_colours_of_the_screen():
    assert draw_file_diff("a", b"old\n", b"new\n", DARK)[-2:] == ["\x1b[31m-old\x1b[0m", "\x1b[32m+new\x1b[0m"]


def test_a_file_that_is_not_text_has_no_diff():
    assert draw_file_diff("a", b"\xff", b"\xfe") == ["  a: changed, and not a text file"]
    assert draw_file_diff("a", b"\xff", b"\xff") == []


def test_changes_are_counted_without_the_head_of_the_diff():
    assert count_changes(["Changed a: 1"], DIFF) == "changed +1 -1 lines"
    assert count_changes(["Created a: 2 characters"], "") == ""
