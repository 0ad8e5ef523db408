"""What came of a batch, in words and as a page."""

from src.batch.report import render_text, write_page
from src.batch.results import CheckResult, Row

PASSED, FAILED = CheckResult("make", 0, ""), CheckResult("make", 2, "")
USAGE = {"input_tokens": 1000, "output_tokens": 5}
ROWS = [
    Row("a", "h", "answered", checks=(PASSED,), usage=USAGE, calls=3, repairs=1, seconds=1.0),
    Row("b", "h", "answered", checks=(FAILED,), usage={"output_tokens": 5}, calls=2, seconds=3.0),
    Row("<c>", "h", "error", "The server <b>died</b>.\nmore", seconds=9.0),
]


def test_the_table_counts_successes_checks_and_reasons():
    assert render_text(ROWS, 4).splitlines() == [
        "tasks                          3 of 4",
        "successful                     1",
        "answered, but a check failed   1",
        "error                          1",
        "tokens                         1,010",
        "calls                          5, 1 repaired",
        "seconds a task                 3.0 (median), 9.0 (longest)",
        "",
        "checks",
        "       1 of 2      make",
        "",
        "reasons",
        "       1 error: The server <b>died</b>.",
    ]


def test_the_table_of_no_rows_has_no_times():
    assert render_text([], 4).splitlines()[-1] == "seconds a task                 -"


def test_the_page_shows_what_a_model_or_server_wrote_as_text(tmp_path):
    page = write_page(tmp_path, ROWS, 4, str).read_text()
    assert "&lt;c&gt;" in page
    assert "<b>died" not in page


def test_the_page_needs_no_network(tmp_path):
    page = write_page(tmp_path, ROWS, 4, str).read_text()
    assert "http" not in page
    assert "<script" not in page


def test_secrets_are_removed(tmp_path):
    page = write_page(tmp_path, ROWS, 4, lambda text: text.replace("died", "[secret]")).read_text()
    assert "died" not in page
