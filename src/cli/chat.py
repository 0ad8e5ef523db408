"""The chat: a prompt, and what becomes of each line: a command, or a question and its answer."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable

from ..config import Settings
from ..errors import BotError, ConfigError
from ..messages import Notice, UserMessage
from ..security.sanitise import plain
from . import find, start
from .banner import banner
from .command import State
from .commands import run_command
from .debug import Debug
from .render import Screen

PROMPT = "> "
LEAVING = "Ctrl-D or /exit leaves; Ctrl-C stops an answer."


class Chat:
    """One conversation at the terminal.

    `read` gives the next line for a prompt, and raises EOFError or KeyboardInterrupt, as input() does.
    """

    def __init__(self, state: State, read: Callable[[str], str] = input) -> None:
        self.state = state
        self._read = read

    def run(self) -> int:
        """Until the user leaves; the exit code."""
        state = self.state
        while not state.left:
            try:
                line = state.questions.pop(0) if state.questions else self._read(PROMPT).strip()
            except EOFError:
                state.screen.say("")
                return 0
            except KeyboardInterrupt:
                state.screen.say(f"\n{LEAVING}")
                continue
            if line:
                self._take(line)
        return 0

    def _take(self, line: str) -> None:
        """Do what a line asks for; what goes wrong is shown, and the chat goes on."""
        try:
            if line.startswith("/"):
                run_command(self.state, line)
            else:
                self._answer(line)
        except BotError as error:
            self.state.screen.draw(Notice(str(error)))
            self.state.debug.traceback()

    def _answer(self, question: str) -> None:
        state = self.state
        asked = UserMessage("\n\n".join([*state.notes, question]))
        state.conversation.append(asked)
        try:
            self._draw_answer()
            state.notes = []
        except KeyboardInterrupt:
            state.screen.say("(stopped)")
        finally:
            state.session.forget_last(asked)  # where nothing was said to it: it can be asked again
        if state.made_bot and (unkept := state.made_bot.keep()):
            state.screen.draw(Notice(unkept))

    def _draw_answer(self) -> None:
        state = self.state
        events = state.session.follow(state.bot().agent.run(state.conversation))
        try:
            for event in events:
                state.count(event)
                state.debug.trace(event)
                state.screen.draw(event)
        finally:
            events.close()  # an interrupt while drawing ends the turn here and now, not when memory is tidied


def open_chat(settings: Settings, debug: Debug, *, yes: bool, relearn: bool, resume: str | None = None) -> int:
    """`resume`: the session to go on with; "" is the last one.

    Raises BotError where no model is configured and the server cannot be asked for one, or the session is not there.
    """
    screen = Screen(sys.stdout, sys.stderr, thoughts=True, styled=_styled())
    start.warn(settings, screen)
    met = find.meet(settings, screen, _choose, time.sleep)
    if not settings.vllm.model:  # the server has been asked already: it may show this, too
        met = find.with_path(met)
    print(banner(met, yes=yes))
    threading.Thread(target=_load_rooms, daemon=True).start()
    _edit_lines()
    approver = start.approver(yes)
    state = State(
        met.settings,
        screen,
        debug,
        lambda name: start.bot(met.settings, name, approver, relearn=relearn, before_write=before_write),
        met.model,
        start.store(met.settings),
    )

    def before_write(path: str, content: bytes | None) -> None:
        state.session.before_write(path, content)

    if resume is not None:
        from .history import resume_session

        resume_session(state, resume)
    try:
        return Chat(state).run()
    finally:
        state.session.close()


def _choose(names: list[str]) -> str:
    """Which of several models, asked at the terminal."""
    for number, name in enumerate(names, 1):
        print(f"  {number}  {plain(name)}")
    while True:
        try:
            answer = input("Which model? ").strip()
        except EOFError:
            print()
            raise ConfigError("No model was chosen.", "Name one with --model, or set vllm.model.") from None
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]


def _load_rooms() -> None:
    """requests and all that needs it, while the user reads the banner and types."""
    from .. import agent, model  # noqa: F401


def _edit_lines() -> None:
    """Arrow keys and history for input(), where there is readline."""
    with contextlib.suppress(ImportError):
        import readline

        if os.environ.get("TERM") != "dumb":  # it would show the escape that asks for it
            readline.parse_and_bind("set enable-bracketed-paste on")  # lines pasted together are one question


def _styled() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
