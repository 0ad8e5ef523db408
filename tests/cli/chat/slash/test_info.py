import io
from queue import Queue

import pytest
from msgspec.structs import replace

from src.cli.chat.loop import preload_in_background
from src.cli.chat.slash.info import find_last_code, format_status_line
from src.cli.chat.slash.table import run_command
from src.cli.chat.state import AnswerClock, State
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.types.events import Completed, TextDelta, TurnStarted
from src.types.messages import Response, Usage
from tests.each import check_rows


@pytest.fixture
def aside():
    """What the chat tells its user beside the answers."""
    return io.StringIO()


@pytest.fixture
def state(tmp_path, aside):
    screen = PlainScreen(io.StringIO(), aside, thoughts=False, styled=False)
    state = State(Settings(root=tmp_path), screen, Debug(0), lambda _: None, "tiny")
    state.known_path, state.context_length = "native", 16_384
    return state


def test_before_anything_was_counted_the_context_is_a_guess(state):
    assert format_status_line(state).startswith("mode ask  tiny  native calls  context ~")


@pytest.mark.parametrize(
    ("name", "shown"),
    [("/opt/models/Small-Q4.gguf", "Small-Q4.gguf"), ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"), ("/m/", "m")],
)
def test_of_a_model_that_is_named_by_its_path_the_last_part_is_shown(state, name, shown):
    state.model_name = name
    assert format_status_line(state).startswith(f"mode ask  {shown}  native calls")


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (
            None,
            "mode ask  tiny  native calls  context 1,000 of 16,384 (6%)  git main  turn 900 in, 100 out, 50% cached",
        ),
        (100, "mode ask  tiny  native calls  context 1,000 of 16,384 (6%)  git main"),
        (60, "mode ask  tiny  native calls  context 1,000 of 16,384 (6%)"),
        (50, "mode ask  tiny  context 1,000 of 16,384 (6%)"),
        (40, "mode ask  tiny"),
        (10, "mode ask"),
    ],
)
def test_on_a_narrow_terminal_it_says_less(state, columns, line):
    (state.settings.root / ".git").mkdir()
    (state.settings.root / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    state.count_usage(Completed(Response((), usage=Usage(900, 100, 450))))
    assert format_status_line(state, columns) == line


def test_mode_auto_without_a_sandbox_says_that_commands_ask(state):
    state.switch_mode("auto")
    assert format_status_line(state).startswith("mode auto  tiny")
    state.settings = replace(state.settings, security=replace(state.settings.security, sandbox="off"))
    assert format_status_line(state).startswith("mode auto, commands ask  tiny")
    state.switch_mode("ask")
    assert format_status_line(state).startswith("mode ask  tiny")


def test_the_tokens_of_a_turn_are_what_it_added_and_not_the_sum_of_its_prompts(state):
    for event in (
        *(TurnStarted(1), Completed(Response((), usage=Usage(1000, 50)))),
        *(TurnStarted(2), Completed(Response((), usage=Usage(1250, 20)))),  # with 200 of results
    ):
        state.count_usage(event)
    assert format_status_line(state).endswith("turn 1,200 in, 70 out")
    state.count_usage(TurnStarted(1))
    state.count_usage(Completed(Response((), usage=Usage(1300, 10))))
    assert format_status_line(state).endswith("turn 30 in, 10 out")


def test_the_first_estimate_counts_the_tools(state):
    before = state.context_used
    state.estimate_overhead()
    assert state.context_used > before + 500


def test_the_first_estimate_is_drawn_as_soon_as_it_is_known(state):
    drawn: Queue[int] = Queue()
    preload_in_background(state, lambda: drawn.put(state.overhead_tokens))
    assert drawn.get(timeout=60) > 500


def test_the_speed_of_an_answer_is_that_of_its_tokens_and_of_the_time_between_its_events():
    times = iter([10.0, 12.0, 17.0])
    clock = AnswerClock(lambda: next(times))
    for event in (TurnStarted(1), TextDelta("a"), TextDelta("b"), Completed(Response((), usage=Usage(900, 101, 500)))):
        clock.take(event)
    assert (clock.prefill, clock.decode) == (200.0, 20.0)


def test_a_prompt_of_which_all_but_a_few_tokens_were_cached_tells_no_speed_of_reading():
    times = iter([10.0, 10.5, 15.5])
    clock = AnswerClock(lambda: next(times))
    for event in (TurnStarted(1), TextDelta("a"), Completed(Response((), usage=Usage(991, 101, 990)))):
        clock.take(event)
    assert (clock.prefill, clock.decode) == (0.0, 20.0)


def test_an_answer_that_came_whole_tells_no_speed():
    clock = AnswerClock(lambda: 1.0)
    for event in (TurnStarted(1), TextDelta("a"), Completed(Response((), usage=Usage(900, 101)))):
        clock.take(event)
    assert (clock.prefill, clock.decode) == (0.0, 0.0)


def test_tokens_stay_spent_with_another_model(state, aside):
    state.count_usage(Completed(Response((), usage=Usage(900, 100))))
    state.switch_model(state.settings.with_model("other"))
    run_command(state, "/tokens")
    assert "900 in, 100 out in this chat" in aside.getvalue()


def test_another_model_is_not_known_yet(state):
    state.switch_model(state.settings.with_model("other"))
    assert "native" not in format_status_line(state)


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
