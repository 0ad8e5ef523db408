"""The line below the prompt."""

import pytest
from msgspec.structs import replace

from src.cli.chat.status_line import format_status_line
from src.types.events import Completed, TurnStarted
from src.types.messages import Response, Usage


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


def test_another_model_is_not_known_yet(state):
    state.switch_model(state.settings.with_model("other"))
    assert "native" not in format_status_line(state)
