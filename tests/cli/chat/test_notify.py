"""When a user who looks elsewhere is called, and how."""

import contextlib
import io

import pytest

from src.cli.chat.notify import BELL, Notifier, choose_form, write_to_terminal
from src.errors import BotError
from tests.each import check_rows


class Calls:
    """A notifier whose clock the test sets."""

    def __init__(self, **options):
        self.now, self.written = 0.0, []
        self.notifier = Notifier(self.written.append, {"TERM_PROGRAM": "WezTerm"}, now=lambda: self.now, **options)

    def work(self, seconds):
        with self.notifier.watch_turn(contextlib.nullcontext)():
            self.now += seconds


def test_an_answer_after_more_than_ten_seconds_calls_the_user():
    calls = Calls()
    calls.work(10)
    assert calls.written == []
    calls.work(1)
    assert calls.written == ["\x1b]9;the answer is there\x1b\\"]


def test_the_seconds_count_from_the_last_line_of_the_user():
    calls = Calls()
    calls.now = 20
    calls.notifier.watch_read(lambda prompt: prompt)("> ")
    calls.work(5)
    assert calls.written == []


def test_a_question_calls_the_user_and_its_answer_counts_as_a_line():
    calls = Calls()
    calls.now = 11
    assert calls.notifier.watch_ask(lambda _question, _default: "y")("Run it?") == "y"
    calls.work(1)
    assert calls.written == ["\x1b]9;a call waits for your answer\x1b\\"]


def test_who_stops_an_answer_is_there():
    calls = Calls()
    with pytest.raises(KeyboardInterrupt), calls.notifier.watch_turn(contextlib.nullcontext)():
        calls.now = 60
        raise KeyboardInterrupt
    assert calls.written == []


def test_who_waits_is_called_when_an_answer_fails():
    calls = Calls()
    with pytest.raises(BotError), calls.notifier.watch_turn(contextlib.nullcontext)():
        calls.now = 60
        raise BotError("The connection was cut.")
    assert calls.written == ["\x1b]9;the question got no answer\x1b\\"]


def test_it_is_off_by_a_setting():
    calls = Calls(is_on=False)
    calls.work(60)
    assert calls.written == []


@check_rows(
    "environment, begin",
    [
        ({"TERM": "xterm-kitty"}, "\x1b]99;"),
        ({"TERM": "foot"}, "\x1b]777;notify;"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;"),
        ({"TERM": "xterm-256color"}, BELL),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm"}, BELL),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, BELL),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm", "STY": "1.pts-0.host"}, BELL),
    ],
)
def test_each_terminal_is_told_in_its_own_form(environment, begin):
    assert choose_form(environment).startswith(begin)


def test_nothing_goes_into_a_pipe():
    pipe = io.StringIO()
    write_to_terminal(pipe)(BELL)
    assert pipe.getvalue() == ""
