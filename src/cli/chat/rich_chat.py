"""A chat on a full terminal. It shows a prompt before it loads the modules that read it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator

from ...app.discovery import ServerTarget
from ..render.colours import ASK_BACKGROUND, DARK, find_colours
from ..tracing.debug import Debug
from .input.multiline import PROMPT


def run_rich_chat(target: ServerTarget, debug: Debug, *, yes: bool, resume: str | None, message: str) -> int:
    """Run a chat. Returns the exit code. Always restores the terminal. Raises BotError."""
    with _restore_terminal():
        colours = find_colours(target.settings.chat.theme, os.environ)
        with _show_early_prompt("" if colours else ASK_BACKGROUND):
            from .full_chat import FullChat  # loads rich and prompt_toolkit

            chat = FullChat(target, debug, colours or DARK, yes=yes)
        return chat.run(resume, message)


@contextlib.contextmanager
def _show_early_prompt(question: str) -> Iterator[None]:
    """Show a prompt until the real one is loaded. Keys are not echoed; the application reads them.

    `question`: to the terminal, whose answer comes among the keys.
    """
    interrupt = signal.signal(signal.SIGINT, signal.SIG_IGN)
    tty.setcbreak(sys.stdin.fileno(), termios.TCSANOW)
    print(question, end="")
    print(PROMPT, end="", flush=True)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, interrupt)
        print("\r\x1b[K", end="", flush=True)


@contextlib.contextmanager
def _restore_terminal() -> Iterator[None]:
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        yield
    finally:
        with contextlib.suppress(termios.error, OSError):  # the terminal is gone
            termios.tcsetattr(terminal, termios.TCSANOW, before)
            print("\x1b[?2004l\x1b[?25h", end="", flush=True)
