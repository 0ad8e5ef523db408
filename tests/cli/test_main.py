"""What all commands share: signals and the exit codes that they lead to."""

import os
import signal

import pytest

from src.cli.main import exit_on_signals


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
