"""Call a user who looks elsewhere: when the chat asks, answers or fails, and the user has not typed for ten seconds.

A desktop notification where the terminal is known to have them, else its bell.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TextIO

from ...errors import BotError

ABSENCE_S = 10.0  # since the user's last line
BELL = "\x07"
# https://iterm2.com/documentation-escape-codes.html, https://sw.kovidgoyal.net/kitty/desktop-notifications/
OSC_9, OSC_99, OSC_777 = "\x1b]9;{text}\x1b\\", "\x1b]99;;{text}\x1b\\", "\x1b]777;notify;vLLM Bot;{text}\x1b\\"
BY_PROGRAM = {"iTerm.app": OSC_9, "WezTerm": OSC_9, "ghostty": OSC_9}  # TERM_PROGRAM
BY_TERM = {
    "xterm-kitty": OSC_99,
    "xterm-ghostty": OSC_9,
    "foot": OSC_777,
    "rxvt-unicode": OSC_777,
}  # TERM begins with it


class Notifier:
    """`write`: to the terminal. `environment` tells which terminal it is."""

    def __init__(
        self,
        write: Callable[[str], object],
        environment: Mapping[str, str],
        *,
        is_on: bool = True,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._form = choose_form(environment)
        self._is_on = is_on
        self._now = now
        self._attended = now()

    def watch_read(self, read: Callable[[str], str]) -> Callable[[str], str]:
        """`read`; the user is there when it returns."""

        def read_line(prompt: str) -> str:
            line = read(prompt)
            self._attended = self._now()
            return line

        return read_line

    def watch_ask(self, ask: Callable[[str, str], str]) -> Callable[[str, str], str]:
        """`ask`, with a notification before it."""

        def ask_user(question: str, default: str = "") -> str:
            self._notify("a call waits for your answer")
            reply = ask(question, default)
            self._attended = self._now()
            return reply

        return ask_user

    def watch_turn(
        self, turn: Callable[[], AbstractContextManager[None]]
    ) -> Callable[[], AbstractContextManager[None]]:
        """`turn`, with a notification after it, also where it fails, unless the user interrupts it."""

        @contextlib.contextmanager
        def run_turn() -> Iterator[None]:
            try:
                with turn():
                    yield
            except BotError:
                self._notify("the question got no answer")
                raise
            self._notify("the answer is there")

        return run_turn

    def _notify(self, text: str) -> None:
        if self._is_on and self._now() - self._attended > ABSENCE_S:
            self._write(self._form.format(text=text))


def choose_form(environment: Mapping[str, str]) -> str:
    """How this terminal shows a notification. tmux and GNU screen pass on only the bell, whatever TERM says in them."""
    term = environment.get("TERM", "")
    if environment.keys() & {"TMUX", "STY"} or term.startswith(("screen", "tmux")):
        return BELL
    by_term = (form for name, form in BY_TERM.items() if term.startswith(name))
    return BY_PROGRAM.get(environment.get("TERM_PROGRAM", "")) or next(by_term, BELL)


def write_to_terminal(stream: TextIO) -> Callable[[str], object]:
    """Write to the stream if it is a terminal, and not at all else."""

    def write(text: str) -> None:
        if stream.isatty():
            stream.write(text)
            stream.flush()

    return write
