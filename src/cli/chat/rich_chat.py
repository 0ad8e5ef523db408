"""A chat on a full terminal. It shows a prompt before it loads the modules that read it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...app.discovery import ServerTarget
from ..render.colours import ASK_BACKGROUND, DARK, Colours, find_colours
from ..tracing.debug import Debug
from .input.multiline import PROMPT
from .notify import Notifier

if TYPE_CHECKING:
    from ..render.live import LiveScreen
    from ..render.markdown import MarkdownRenderer


def run_rich_chat(target: ServerTarget, debug: Debug, *, yes: bool, resume: str | None, message: str) -> int:
    """Run a chat. Returns the exit code. Always restores the terminal. Raises BotError."""
    with _restore_terminal():
        settings, colours = target.settings.chat, find_colours(target.settings.chat.theme, os.environ)
        with _show_early_prompt("" if colours else ASK_BACKGROUND):
            from ...security.permissions.approval import AutoApprover
            from .input.application import ChatApplication
            from .input.approve import TerminalApprover, edit_in_editor
            from .input.terminal import get_size
            from .loop import make_state, preload_in_background, run_chat
            from .slash.table import run_command_at_question
            from .state import ChatIO

            live = make_live_screen()
            live.choose_colours(colours or DARK)
            state = make_state(target, live, debug, lambda: approver)
            debug.show = live.put
            application = ChatApplication(state, live, target.settings.state)

            def pick(title: str, search: Callable[[str], Sequence[tuple[str, str]]]) -> str | None:
                from .input.picker import pick_row  # start-up is measured

                with application.suspend():
                    return pick_row(title, search)

            state.pick = pick

            def edit(text: str, name: str) -> str:
                with application.suspend():
                    return edit_in_editor(text, name)

            notifier = Notifier(application.write, os.environ, is_on=settings.notify)
            asking = TerminalApprover(
                notifier.watch_ask(application.ask),
                live.put,
                find_colours=lambda: live.colours,
                edit=edit,
                remember=state.factory.rule_memory.save,
                run_command=lambda line: run_command_at_question(state, line),
                get_size=get_size,
            )
            application.show_question_again = asking.show_again
            approver = AutoApprover(asking) if yes else asking
        preload_in_background()
        with application.run():
            read, turn = notifier.watch_read(application.read), notifier.watch_turn(application.turn)
            return run_chat(state, ChatIO(read, turn, application.suspend), resume, message)


def make_live_screen() -> LiveScreen:
    from ..render.live import LiveScreen
    from .input.terminal import get_size

    return LiveScreen(get_size, _make_renderer)


def _make_renderer(colours: Colours) -> MarkdownRenderer:
    from rich.console import Console

    from ..render.markdown import MarkdownRenderer

    return MarkdownRenderer(Console(file=sys.stdout).color_system, colours)


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
