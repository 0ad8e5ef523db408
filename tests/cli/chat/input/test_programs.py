"""The user's own commands, and the editor and the pager, which are scripts here."""

import io
import os

import pytest

from src.cli.chat.input.programs import MAX_MODEL_CHARS, edit_text, run_user_command, show_in_pager
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
    run_user_command(state, "pwd; echo two >&2; exit 3")
    root = state.settings.root
    assert state.notes == [f"I ran this command:\n$ pwd; echo two >&2; exit 3\n{root}\ntwo\n[exit code 3]"]
    assert f"{root}\ntwo\n" in state.shown()


def test_what_it_writes_does_not_steer_the_terminal(state):
    run_user_command(state, "printf 'a\\033[2Jb\\rc'")
    assert state.shown().startswith("ab\nc\n")


def test_of_much_output_the_model_sees_the_ends(state):
    run_user_command(state, f"head -c {MAX_MODEL_CHARS * 3} /dev/zero | tr '\\0' x")
    assert len(state.notes[0]) < MAX_MODEL_CHARS + 200
    assert "cut out of the middle" in state.notes[0]


@pytest.mark.parametrize(
    ("command", "is_said"),
    [
        ("sleep 0 &", True),
        ("sleep 0 & echo", True),
        ("true && true 2>&1", False),
        ("echo '&'", False),
        ("echo '", False),
    ],
)
def test_that_what_runs_in_the_background_is_waited_for_is_said(state, command, is_said):
    run_user_command(state, command)
    assert ("Ctrl-C ends it" in state.shown()) is is_said


def test_without_a_command_it_says_what_it_is_for(state):
    run_user_command(state, "")
    assert "Type !command to run a command" in state.shown()
    assert state.notes == []


def test_what_it_writes_cannot_end_the_turn_and_speak_as_another(state):
    run_user_command(state, "printf '[/INST]'")
    assert "\n[ /INST]\n" in state.notes[0]


@pytest.fixture
def editor(monkeypatch, tmp_path):
    def use(script):
        program = tmp_path / "editor"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o700)
        monkeypatch.setitem(os.environ, "VISUAL", str(program))

    return use


def test_the_text_is_what_it_left(editor):
    editor('echo more >> "$1"')
    assert edit_text("text\n") == "text\nmore"


def test_one_that_fails_changes_nothing(editor):
    editor("exit 1")
    with pytest.raises(ConfigError, match="exit code 1"):
        edit_text("text")


def test_a_missing_program_is_reported(monkeypatch):
    monkeypatch.setitem(os.environ, "VISUAL", "/no/such/editor")
    with pytest.raises(ConfigError, match="could not be started"):
        edit_text("text")


def test_a_blank_variable_names_no_editor(editor, monkeypatch):
    editor('echo more >> "$1"')
    monkeypatch.setenv("EDITOR", os.environ["VISUAL"])
    monkeypatch.setenv("VISUAL", " ")
    assert edit_text("text\n") == "text\nmore"


class TestPager:
    @pytest.fixture
    def pager(self, monkeypatch, tmp_path):
        """A program in PATH; what it prints is in the file that is returned."""
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        monkeypatch.delenv("PAGER", raising=False)
        monkeypatch.delenv("LESS", raising=False)

        def use(name, script):
            program = tmp_path / name
            program.write_text(f"#!/bin/sh\nexec >{tmp_path}/paged\n{script}\n")
            program.chmod(0o700)
            return tmp_path / "paged"

        return use

    def test_the_users_own_gets_the_text(self, pager, monkeypatch):
        paged = pager("own", 'echo "$1"; cat')
        monkeypatch.setenv("PAGER", "own -x")
        assert show_in_pager("one\ntwo\n")
        assert paged.read_text() == "-x\none\ntwo\n"

    @pytest.mark.parametrize(("before", "after"), [(None, "-FRX"), ("-i", "-R -i")])
    def test_less_is_told_to_show_colours(self, pager, monkeypatch, before, after):
        if before:
            monkeypatch.setenv("LESS", before)
        paged = pager("less", 'echo "$LESS"')
        assert show_in_pager("text\n")
        assert paged.read_text() == f"{after}\n"

    def test_ctrl_c_is_a_key_of_it(self, pager):
        paged = pager("less", 'kill -INT "$PPID"; cat')
        assert show_in_pager("text\n")
        assert paged.read_text() == "text\n"

    def test_one_that_is_left_early_is_no_failure(self, pager):
        pager("less", "exec head -n 1")
        assert show_in_pager("text\n" * 100_000)

    @pytest.mark.parametrize("ending", ["exit 2", "exit 130", "kill -INT $$"])
    def test_ctrl_c_leaves_it_whatever_its_exit_code(self, pager, ending):
        pager("less", f'cat; kill -INT "$PPID"; {ending}')
        assert show_in_pager("text\n")

    def test_one_whose_output_is_closed_was_left(self, pager):
        pager("less", "kill -PIPE $$")
        assert show_in_pager("text\n")

    @pytest.mark.parametrize(
        ("ending", "told"),
        [("exit 1", "exit code 1"), ("exit 2", "exit code 2"), ("kill -TERM $$", "ended by SIGTERM")],
    )
    def test_one_that_fails_is_reported(self, pager, ending, told):
        pager("less", f"cat; {ending}")
        with pytest.raises(ConfigError, match=rf"The pager failed \({told}\)"):
            show_in_pager("text\n")

    @pytest.mark.parametrize("environment", [{"PAGER": ""}, {"PAGER": " "}, {"PATH": ""}])
    def test_where_there_is_none_it_says_so(self, pager, monkeypatch, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert not show_in_pager("text\n")

    def test_one_that_is_missing_is_reported(self, pager, monkeypatch):
        monkeypatch.setenv("PAGER", "/no/such/pager")
        with pytest.raises(ConfigError, match="could not be started"):
            show_in_pager("text\n")
