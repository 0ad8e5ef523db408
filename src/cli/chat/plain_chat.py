"""A chat whose lines are only appended: with --plain, or where the terminal cannot redraw them."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext, suppress

from ...app.discovery import ServerTarget
from ...security.permissions.approval import Approver
from ..render.plain import PlainScreen
from ..tracing.debug import Debug
from .input.approve import ask_on_stderr, choose_approver
from .loop import make_state, preload_in_background, run_chat
from .notify import Notifier, write_to_terminal
from .slash.table import run_command_at_question
from .state import ChatIO


def run_plain_chat(
    target: ServerTarget, screen: PlainScreen, debug: Debug, *, yes: bool, resume: str | None, message: str
) -> int:
    """Returns the exit code. Raises BotError."""
    with suppress(ImportError):
        import readline  # gives input() arrow keys and a history

        if os.environ.get("TERM") != "dumb":  # it would show the escape sequence
            readline.parse_and_bind("set enable-bracketed-paste on")  # pasted lines are one message
    notifier = Notifier(write_to_terminal(sys.stderr), os.environ, is_on=target.settings.chat.notify)
    watched = notifier.watch_ask(ask_on_stderr)

    def ask(question: str, default: str) -> str:
        screen.was_asked = True
        return watched(question, default)

    def make_approver() -> Approver:
        return choose_approver(yes, target.settings, lambda line: run_command_at_question(state, line), ask, screen.put)

    state = make_state(target, screen, debug, make_approver)
    preload_in_background(state)
    return run_chat(state, ChatIO(notifier.watch_read(input), notifier.watch_turn(nullcontext)), resume, message)
