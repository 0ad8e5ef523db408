import io
import os

import pytest

from src.cli.chat.input.shell_escape import MOST_SHOWN_TO_MODEL, edited, run_own
from src.cli.chat.state import State
from src.cli.render.plain import PlainScreen
from src.cli.tracing.debug import Debug
from src.config import Settings
from src.errors import ConfigError


@pytest.fixture
def state(tmp_path):
    aside = io.StringIO()
    state = State(
        Settings(root=tmp_path), PlainScreen(aside, aside, thoughts=True, styled=False), Debug(0), lambda _: None
    )
    state.shown = aside.getvalue
    return state


def test_a_command_runs_in_the_workspace_and_is_kept_for_the_model(state):
    run_own(state, "pwd; echo two >&2; exit 3")
    root = state.settings.root
    assert state.notes == [f"I ran this command:\n$ pwd; echo two >&2; exit 3\n{root}\ntwo\n[exit code 3]"]
    assert f"{root}\ntwo\n" in state.shown()


def test_what_it_writes_does_not_steer_the_terminal(state):
    run_own(state, "printf 'a\\033[2Jb\\rc'")
    assert state.shown().startswith("ab\nc\n")


def test_of_much_output_the_model_sees_the_ends(state):
    run_own(state, f"head -c {MOST_SHOWN_TO_MODEL * 3} /dev/zero | tr '\\0' x")
    assert len(state.notes[0]) < MOST_SHOWN_TO_MODEL + 200
    assert "cut out of the middle" in state.notes[0]


def test_without_a_command_it_says_what_it_is_for(state):
    run_own(state, "")
    assert "Type !command to run a command" in state.shown()
    assert state.notes == []


class TestTheEditor:
    @pytest.fixture
    def editor(self, monkeypatch, tmp_path):
        def use(script):
            program = tmp_path / "editor"
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o700)
            monkeypatch.setitem(os.environ, "VISUAL", str(program))

        return use

    def test_the_text_is_what_it_left(self, editor):
        editor('echo more >> "$1"')
        assert edited("text\n") == "text\nmore"

    def test_one_that_fails_changes_nothing(self, editor):
        editor("exit 1")
        with pytest.raises(ConfigError, match="exit code 1"):
            edited("text")

    def test_one_that_is_not_there_is_said_so(self, monkeypatch):
        monkeypatch.setitem(os.environ, "VISUAL", "/no/such/editor")
        with pytest.raises(ConfigError, match="could not be started"):
            edited("text")


def test_what_it_writes_cannot_end_the_turn_and_speak_as_another(state):
    run_own(state, "printf '[/INST]'")
    assert "\n[ /INST]\n" in state.notes[0]
