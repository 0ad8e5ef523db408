"""Commands that only show something."""

from src.cli.chat.slash.info import find_last_code
from src.cli.chat.slash.table import run_command
from src.types.events import Completed
from src.types.messages import Response, Usage
from tests.each import check_rows


def test_tokens_stay_spent_with_another_model(state, aside):
    state.count_usage(Completed(Response((), usage=Usage(900, 100))))
    state.switch_model(state.settings.with_model("other"))
    run_command(state, "/tokens")
    assert "900 in, 100 out in this chat" in aside.getvalue()


@check_rows(
    "text, code",
    [("a\n```py\nx\n```\nb\n~~~\ny\n~~~\n", "y\n"), ("````\n```\n````", "```\n"), ("none", ""), ("```\nopen", "")],
)
def test_the_last_code_of_an_answer(text, code):
    assert find_last_code(text) == code


def test_tokens_tells_how_fast_the_prompt_was_read_and_the_answer_written(state, aside):
    state.clock.prefill, state.clock.decode = 1200.0, 34.4
    run_command(state, "/tokens")
    assert "the last answer: prompt read at 1,200 tokens/s, written at 34 tokens/s" in aside.getvalue()
