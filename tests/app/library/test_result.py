"""What came of a question."""

from src.app.library.result import RunRecord


def test_without_an_answer_it_is_not_complete():
    result = RunRecord().make_result()
    assert (result.text, result.stop_reason, result.is_complete) == ("", "stuck", False)
