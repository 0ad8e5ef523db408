"""The table of slash commands: each row is whole, and a line finds its row."""

import importlib
import inspect
import io
from contextlib import contextmanager

import pytest

from src.cli.chat.slash.table import (
    COMMANDS,
    HELP_KEYS,
    SlashCommand,
    find_command,
    format_help,
    run_command,
    suggest_command,
)
from src.cli.chat.state import ChatIO, State
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.config.settings import CALL_PATHS
from tests.each import check_rows


@check_rows("command", COMMANDS)
def test_each_row_is_whole(command):
    assert command.name.startswith("/") and command.name.islower()
    assert command.help and not command.help.endswith(".")
    assert all(alias.startswith("/") for alias in command.aliases)
    module = importlib.import_module(f"src.cli.chat.slash.{command.module}")
    run = getattr(module, f"run_{command.name[1:]}")
    assert "state" in inspect.signature(run).parameters


def test_each_function_of_a_command_has_a_row():
    rows = {(command.module, command.name[1:]) for command in COMMANDS}
    for module in ("control", "history", "info"):
        names = dir(importlib.import_module(f"src.cli.chat.slash.{module}"))
        made = [name.partition("_")[2] for name in names if name.startswith(("run_", "complete_"))]
        assert {(module, name) for name in made if name != "user_command"} <= rows


def test_no_two_rows_share_a_name():
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    assert len(names) == len(set(names))


def test_a_row_is_found_by_name_and_alias_in_any_case():
    assert find_command("/EXIT") is find_command("/quit")
    assert find_command("/nothing") is None


@check_rows("typed, meant", [("/exti", "/exit"), ("/modell", "/model"), ("/xyzzy", ""), ("/", "")])
def test_the_nearest_name(typed, meant):
    assert suggest_command(typed) == meant


def test_help_has_a_line_for_each():
    assert len(format_help()) == len(COMMANDS) + 1 + len(HELP_KEYS)


@check_rows(
    "name, values", [("/debug", ["off", "on", "bodies"]), ("/copy", ["code"]), ("/undo", []), ("/path", CALL_PATHS)]
)
def test_what_may_stand_behind_a_name_is_completed(name, values, state):
    assert list(find_command(name).complete(state)) == list(values)


def test_usage_shows_what_may_stand_behind_the_name():
    assert SlashCommand("/x", "y", "info", "[NAME]").usage == "/x [NAME]"


@pytest.mark.parametrize(("line", "around"), [("/panel", "turn"), ("/edit", "suspend"), ("/help", "")])
def test_what_asks_models_is_drawn_as_a_turn_and_the_editor_has_the_terminal(line, around, monkeypatch):
    monkeypatch.setenv("VISUAL", "true")
    entered = []

    def enter(name):
        @contextmanager
        def run():
            entered.append(name)
            yield

        return run

    screen = PlainScreen(io.StringIO(), io.StringIO(), thoughts=False, styled=False)
    state = State(Settings(), screen, Debug(0), lambda _: None, "tiny")
    run_command(state, line, ChatIO(turn=enter("turn"), suspend=enter("suspend")))
    assert "".join(entered) == around
