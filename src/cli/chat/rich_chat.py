"""A chat on a full terminal. It shows a prompt before it loads the modules that read it."""

from __future__ import annotations

import contextlib
import signal
import sys
import termios
from collections.abc import Iterator

from ...app.discovery import ServerTarget
from ..tracing.debug import Debug
from .input.key_reader import disable_echo
from .input.multiline import PROMPT


def run_rich_chat(target: ServerTarget, debug: Debug, *, yes: bool, resume: str | None, message: str) -> int:
    """Run a chat. Returns the exit code. Always restores the terminal. Raises BotError."""
    with _restore_terminal():
        with _show_early_prompt():
            from ...security.permissions.approval import AutoApprover
            from ..render.plain import get_columns
            from .input.approve import TerminalApprover, edit_in_editor
            from .input.terminal import Terminal, make_live_screen
            from .loop import ChatIO, make_state, preload_in_background, run_chat
            from .slash.table import run_command_at_question

            live = make_live_screen()
            state = make_state(target, live, debug, lambda: approver)
            debug.show = live.put
            terminal = Terminal(state, live, target.settings.state)

            def run_command(line: str) -> None:
                run_command_at_question(state, line)
                live.hide()  # what is drawn of the turn, until the question is answered

            asking = TerminalApprover(
                terminal.ask,
                _print,
                coloured=True,
                pause=terminal.pause,
                edit=edit_in_editor,
                remember=state.factory.rule_memory.save,
                run_command=run_command,
                get_width=lambda: get_columns(sys.stdout),
            )
            approver = AutoApprover(asking) if yes else asking
        preload_in_background()
        return run_chat(state, ChatIO(terminal.read, terminal.turn, terminal.no_echo), resume, message)


def _print(text: str) -> None:
    print(text, flush=True)


@contextlib.contextmanager
def _show_early_prompt() -> Iterator[None]:
    """Show a prompt until the real one is loaded. Keys are not echoed; the real prompt reads them."""
    terminal = sys.stdin.fileno()
    before, interrupt = termios.tcgetattr(terminal), signal.signal(signal.SIGINT, signal.SIG_IGN)
    disable_echo(terminal)
    print(PROMPT, end="", flush=True)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
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
