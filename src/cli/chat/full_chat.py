"""The parts of a chat on a full terminal. rich_chat.py loads them behind its early prompt."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ...app.discovery import ServerTarget
from ...errors import ConfigError
from ...security.permissions.approval import AutoApprover
from ...types.events import Notice
from ..render.colours import Colours
from ..render.live import LiveScreen
from ..tracing.debug import Debug
from .input.application import ChatApplication
from .input.approve import TerminalApprover, edit_in_editor
from .input.picker import pick_row
from .input.programs import show_in_pager
from .input.terminal import fills_screen, get_size
from .loop import make_state, preload_in_background, run_chat
from .notify import Notifier
from .slash.table import run_command_at_question
from .state import ChatIO

if TYPE_CHECKING:
    from ..render.markdown import MarkdownRenderer


class FullChat:
    """The screen, the application that reads keys, and who is asked about calls."""

    def __init__(self, target: ServerTarget, debug: Debug, colours: Colours, *, yes: bool) -> None:
        self._live = live = make_live_screen()
        live.choose_colours(colours)
        debug.show = live.put
        self._state = state = make_state(target, live, debug, lambda: AutoApprover(asking) if yes else asking)
        self._application = application = ChatApplication(state, live, target.settings.state)
        state.pick, state.page = self._pick, self._page
        self._notifier = Notifier(application.write, os.environ, is_on=target.settings.chat.notify)
        asking = TerminalApprover(
            self._notifier.watch_ask(application.ask),
            live.put,
            find_colours=lambda: live.colours,
            edit=self._edit,
            remember=state.factory.rule_memory.save,
            run_command=lambda line: run_command_at_question(state, line),
            get_size=get_size,
        )
        application.show_question_again = asking.show_again
        application.find_answer_for = asking.find_answer_for

    def run(self, resume: str | None, message: str) -> int:
        """Returns the exit code. Raises BotError."""
        preload_in_background(self._state, lambda: self._live.refresh())  # which the application sets below
        with self._application.run():
            read = self._notifier.watch_read(self._application.read)
            turn = self._notifier.watch_turn(self._application.turn)
            return run_chat(self._state, ChatIO(read, turn, self._application.suspend), resume, message)

    def _pick(self, title: str, search: Callable[[str], Sequence[tuple[str, str]]]) -> str | None:
        with self._application.suspend():
            return pick_row(title, search)

    def _page(self, lines: Sequence[str]) -> bool:
        if not fills_screen(lines):
            return False
        try:
            with self._application.suspend():
                return show_in_pager("\n".join(lines) + "\n")
        except ConfigError as error:
            self._state.screen.put("\n".join(lines))
            self._state.screen.draw(Notice(str(error)))  # below the lines, where it is seen
            return True

    def _edit(self, text: str, name: str) -> str:
        with self._application.suspend():
            return edit_in_editor(text, name)


def make_live_screen() -> LiveScreen:
    return LiveScreen(get_size, _make_renderer)


def _make_renderer(colours: Colours) -> MarkdownRenderer:
    from rich.console import Console  # behind the prompt

    from ..render.markdown import MarkdownRenderer

    return MarkdownRenderer(Console(file=sys.stdout).color_system, colours)
