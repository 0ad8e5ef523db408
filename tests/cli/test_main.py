"""What all commands share: signals and the exit codes that they lead to."""

import io
import os
import signal
import sys
import threading

import pytest

from src.cli import main as main_module
from src.cli.main import _split_message, exit_on_signals, main, make_parser
from tests.each import check_rows
from tests.waiting import PATIENCE_S


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


def test_a_hangup_inside_a_finalizer_which_drops_exceptions_is_an_exit_too(hangup):
    class Answer(io.IOBase):  # of urllib3, whose finalizer asks whether it is closed
        @property
        def closed(self):
            os.kill(os.getpid(), signal.SIGHUP)
            return True

    hangup(signal.SIG_DFL)
    with pytest.raises(SystemExit) as left, exit_on_signals():
        Answer()
        threading.Event().wait(PATIENCE_S)
    assert left.value.code == 129


def test_what_was_started_with_nohup_outlives_its_terminal(hangup):
    hangup(signal.SIG_IGN)
    with exit_on_signals():
        os.kill(os.getpid(), signal.SIGHUP)


@check_rows(
    "words, own, message",
    [
        (["fix", "it"], [], "fix it"),
        (["--resume", "--output", "json", "-p", "x"], ["--resume", "--output", "json", "-p", "x"], ""),
        (["--resume", "name", "--plain", "go"], ["--resume", "name", "--plain"], "go"),
        (["-y", "go", "--", "--on"], ["-y"], "go --on"),
        (["-p", "-"], ["-p", "-"], ""),
    ],
)
def test_words_that_are_no_options_are_the_first_message(words, own, message):
    parser = make_parser()
    assert _split_message(parser, words) == ((own if message else words), message)


def test_ctrl_c_while_the_program_starts_gives_no_traceback(monkeypatch, capsys):
    def interrupt(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(main_module, "make_parser", interrupt)
    assert main(["serve"]) == 130
    assert capsys.readouterr().err == "\n"


@pytest.mark.parametrize(
    ("is_full", "says"), [(False, ""), (True, "vllm-bot: standard output: No space left on device.\n")]
)
def test_output_that_cannot_be_written_ends_with_exit_code_1_and_no_python_message(is_full, says, monkeypatch, capsys):
    reader, writer = os.pipe()
    os.close(reader)
    output = os.fdopen(os.open("/dev/full", os.O_WRONLY) if is_full else writer, "w")
    monkeypatch.setattr(sys, "stdout", output)
    assert main(["config"]) == 1
    output.close()
    assert capsys.readouterr().err == says


def test_with_standard_error_closed_a_message_does_not_go_to_standard_output(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["config", "set"]) == 2
    sys.stderr.close()
    assert capsys.readouterr().out == ""
