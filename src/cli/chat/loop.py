"""The chat loop: read a line, then run a command or answer a question."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, NamedTuple

from ...app.discovery import Target
from ...app.factory import Factory
from ...errors import BotError
from ...security.permissions.approval import Approver
from ...security.text.sanitize import sanitize
from ...types.events import Notice
from ...types.messages import UserMessage
from ..tracing.debug import Debug
from .input.mentions import with_mentioned
from .input.multiline import PROMPT, finished, is_open, with_more
from .slash.table import run_command
from .state import Display, State

if TYPE_CHECKING:
    from ...app.runtime import Runtime

GOES_ON = ". "
LEAVING = "Press Ctrl-C again, Ctrl-D or type /exit to leave."
TWICE = 5.0  # seconds in which a second Ctrl-C leaves


class Front(NamedTuple):
    """The terminal, as the chat sees it.

    `read` works like input(); `turn` is entered around each answer, `quiet` around each command without an editor.
    """

    read: Callable[[str], str] = input
    turn: Callable[[], AbstractContextManager[None]] = nullcontext
    quiet: Callable[[], AbstractContextManager[None]] = nullcontext


class Chat:
    """One conversation at the terminal."""

    def __init__(self, state: State, front: Front) -> None:
        self.state = state
        self._front = front

    def run(self) -> int:
        """Run until the user leaves. Returns the exit code."""
        state = self.state
        hinted = -TWICE
        while not state.left:
            try:
                line = self._next()
            except EOFError:
                state.screen.say("")
                return 0
            except KeyboardInterrupt:
                if time.monotonic() - hinted < TWICE:
                    return 0
                state.screen.say(f"\n{LEAVING}")
                hinted = time.monotonic()
                continue
            hinted = -TWICE
            if line:
                self._take(line)
        return 0

    def _next(self) -> str:
        """The next message: a queued one, else one from the prompt."""
        state = self.state
        if not state.questions:
            return self._message()
        line = finished(state.questions.pop(0))
        state.screen.say(f"{PROMPT}{sanitize(line)}")
        return line

    def _message(self) -> str:
        text = self._front.read(PROMPT)
        while is_open(text):
            text = with_more(text) + self._front.read(GOES_ON)
        return finished(text)

    def _take(self, line: str) -> None:
        """Carry out a line. Errors are shown, and the chat continues."""
        try:
            if line.startswith("/"):
                run_command(self.state, line, self._front.quiet)
            elif line.startswith("!"):
                from .input.shell_escape import run_user_command  # start-up is measured

                run_user_command(self.state, line[1:].strip())
            else:
                self._answer(line)
        except KeyboardInterrupt:
            self.state.screen.say("(stopped)")
        except BotError as error:
            self.state.screen.draw(Notice(str(error)))
            self.state.debug.traceback()

    def _answer(self, question: str) -> None:
        state = self.state
        asked = UserMessage("\n\n".join([*state.notes, with_mentioned(question, state.settings.root)]))
        state.conversation.append(asked)
        try:
            self._draw_answer()
            state.notes = []
        except KeyboardInterrupt:
            state.screen.say("(stopped)")
        finally:
            state.session.forget_last(asked)  # if it got no answer, so that it can be asked again
        if state.made_bot and (unkept := state.made_bot.save_server_facts()):
            state.screen.draw(Notice(unkept))

    def _draw_answer(self) -> None:
        state = self.state
        with self._front.turn():
            runtime = state.bot()
            events = state.debug.follow(runtime.answer(state.session), runtime.describe(state.session))
            try:
                for event in events:
                    state.count(event)
                    state.screen.draw(event)
                state.context_length = state.bot().model.context_length
            finally:
                events.close()  # an interrupt while drawing ends the turn now, not at garbage collection


def new_state(target: Target, screen: Display, debug: Debug, approver: Callable[[], Approver]) -> State:
    """A new chat. `approver` is called when the agent is made."""

    def before_write(path: str, content: bytes | None) -> None:
        state.session.before_write(path, content)

    factory = Factory(target.settings)

    def make(name: str) -> Runtime:
        return factory.make_runtime(name, approver(), before_write)

    state = State(target.settings, screen, debug, make, target.model, factory.make_store())
    state.context_length, state.known_path = target.context, target.path.mode if target.path else ""
    return state


def converse(state: State, front: Front, resume: str | None) -> int:
    """Returns the exit code. `resume`: the session to continue; "" is the last one. Raises BotError."""
    try:
        if resume is not None:
            from .slash.history import resume_session

            resume_session(state, resume)
        return Chat(state, front).run()
    finally:
        state.session.close()


def load_behind() -> None:
    """Load what the first answer needs while the user reads and types."""
    threading.Thread(target=_load_rooms, daemon=True).start()


def _load_rooms() -> None:
    """Imports requests and everything that needs it."""
    from ... import model  # noqa: F401
    from ...agent import loop  # noqa: F401
