"""What came of a batch, in words and as a page."""

from src.batch.report import render_text, write_page
from src.batch.results import CheckResult, Row

ROWS = [
    Row("a", "h", "answered", checks=(CheckResult("make", 0, ""),), usage={"output_tokens": 5}, seconds=1.0),
    Row("b", "h", "answered", checks=(CheckResult("make", 2, ""),), seconds=3.0),
    Row("<c>", "h", "error", "The server <b>died</b>.\nmore", seconds=9.0),
]


def test_the_table_counts_successes_checks_and_reasons():
    text = render_text(ROWS, 4)
    for line in (
        "tasks                          3 of 4",
        "successful                     1",
        "answered, but a check failed   1",
        "error                          1",
        "       1 of 2      make",
        "       1 error: The server <b>died</b>.",
    ):
        assert line in text


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
