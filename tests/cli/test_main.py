"""What stands around every command: signals, and what becomes of them."""

import os
import signal

import pytest

from src.cli.main import exit_on_signals, main


@pytest.fixture
def hangup():
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


def test_a_hangup_is_an_exit_that_tidies_up(hangup):
    hangup(signal.SIG_DFL)
    with pytest.raises(SystemExit) as left, exit_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)
    assert left.value.code == 129
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL


def test_what_was_started_with_nohup_outlives_its_terminal(hangup):
    hangup(signal.SIG_IGN)
    with exit_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["docter"], "there is no command docter; the nearest is doctor."),
        (["hello", "world"], "there is no command hello; choose one of doctor, "),
        (["sessions", "serch"], "there is no action serch; the nearest is search."),
        (["--profile", "asks"], "there is no --profile asks; the nearest is ask."),
        (["--profile", "x"], "there is no --profile x; choose one of read-only, ask, workspace, full."),
        (["--profle", "ask"], "there is no option --profle; the nearest is --profile."),
        (["--max-turns", "0"], "expected a whole number, 1 or more, got '0'"),
        (["--max-tokens", "1.5"], "expected a whole number, 1 or more, got '1.5'"),
        (["--timeout", "-1"], "expected a number, 0.01 or more, got '-1'"),
        (["--timeout", "nan"], "expected a number, 0.01 or more, got 'nan'"),
        (["sessions", "clean", "--days", "-1"], "expected a number, 0 or more, got '-1'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_wrong_on_the_command_line_is_said_in_two_lines(words, said, capsys):
    with pytest.raises(SystemExit) as left:
        main(words)
    lines = capsys.readouterr().err.splitlines()
    assert left.value.code == 2
    assert (said in lines[0], len(lines)) == (True, 2)
    assert "--help` says what there is" in lines[1]
