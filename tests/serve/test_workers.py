"""What becomes of worker processes. The processes themselves: tests/cli/commands/test_serve.py."""

from __future__ import annotations

import signal

import pytest

from src.serve import workers
from src.serve.workers import describe_exit, make_hangup_handler


@pytest.mark.parametrize(("code", "words"), [(1, "exit code 1"), (-9, "SIGKILL"), (-60, "signal 60")])
def test_how_a_process_ended(code, words):
    assert describe_exit(code) == words


@pytest.mark.parametrize(
    ("had_terminal", "has_terminal", "ignored", "done"),
    [
        (True, True, False, "reload"),  # by kill -HUP
        (True, False, False, "stop"),  # its window was closed
        (True, False, True, "reload"),  # the same under nohup
        (False, False, False, "reload"),  # a service
    ],
)
def test_sighup_reloads_unless_the_terminal_has_gone(monkeypatch, had_terminal, has_terminal, ignored, done):
    old = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    monkeypatch.setattr(workers, "has_terminal", lambda: had_terminal)
    did = []
    try:
        handle = make_hangup_handler(lambda: did.append("reload"), lambda: did.append("stop"))
    finally:
        signal.signal(signal.SIGHUP, old)
    monkeypatch.setattr(workers, "has_terminal", lambda: has_terminal)
    handle()
    assert did == [done]
