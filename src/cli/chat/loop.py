"""The chat loop: read a line, then run a command or answer a question."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

from msgspec.structs import replace

from ... import app
from ...app.discovery import ServerTarget
from ...app.factory import Factory
from ...errors import BotError
from ...security.permissions.approval import Approver
from ...security.text.sanitize import sanitize
from ...types.events import Notice
from ...types.messages import UserMessage
from ..mentions import read_mentions
from ..tracing.debug import Debug
from .input.approve import find_turn_limit
from .input.multiline import PROMPT, is_open, start_next_line, strip_quotes
from .resume import resume_session
from .slash.table import find_command, run_command
from .state import ChatIO, Display, State

CONTINUATION_PROMPT = ". "
EXIT_HINT = "Press Ctrl-C again, Ctrl-D or type /exit to leave."
PLAN_HINT = "  Mode plan changes nothing. If this is the plan, /plan accepts it, edits it or sends it back."
EXIT_CONFIRM_S = 5.0  # a second Ctrl-C within this time leaves


class Chat:
    """One conversation at the terminal."""

    def __init__(self, state: State, io: ChatIO) -> None:
        self.state = state
        self._io = io
        self._has_hinted = False

    def run(self) -> int:
        """Run until the user leaves. Returns the exit code."""
        state = self.state
        hinted = -EXIT_CONFIRM_S
        while not state.should_exit:
            try:
                line = self._get_line()
            except EOFError:
                state.screen.say("")
                return 0
            except KeyboardInterrupt:
                if time.monotonic() - hinted < EXIT_CONFIRM_S:
                    return 0
                state.screen.say(f"\n{EXIT_HINT}")
                hinted = time.monotonic()
                continue
            hinted = -EXIT_CONFIRM_S
            if line:
                self._handle_line(line)
        return 0

    def _get_line(self) -> str:
        """Returns a queued message, or reads one at the prompt."""
        state = self.state
        if not state.queue:
            with self._watch_jobs():
                return self._read_message()
        line = strip_quotes(state.queue.pop(0))
        state.screen.say(f"{PROMPT}{sanitize(line)}")
        return line

    @contextmanager
    def _watch_jobs(self) -> Iterator[None]:
        """Show the end of each background command: before the prompt, and at once where lines can be drawn above it."""
        jobs = self.state.workplace.jobs if self.state.workplace else None
        if jobs and self.state.screen.draws_above:
            jobs.on_end = lambda: _show_ended_jobs(self.state)
        _show_ended_jobs(self.state)
        try:
            yield
        finally:
            if jobs:
                jobs.on_end = lambda: None

    def _read_message(self) -> str:
        text = self._io.read(PROMPT)
        while is_open(text):
            text = start_next_line(text) + self._io.read(CONTINUATION_PROMPT)
        return strip_quotes(text)

    def _handle_line(self, line: str) -> None:
        """Run a command or answer a question. Errors are shown, and the chat continues."""
        state = self.state
        try:
            if line.startswith("!"):
                from .input.programs import run_user_command  # start-up is measured

                with self._io.suspend():
                    run_user_command(state, line[1:].strip())
            elif not line.startswith("/"):
                self._answer_question(line)
            elif not find_command(line.split(" ")[0]) and (text := state.skills.expand(line)):
                self._answer_question(text, typed=line)
            elif "/" in line.split()[0][1:]:
                self._answer_question(line)  # a path, which may be that of an image dropped on the terminal
            else:
                run_command(state, line, self._io)
        except KeyboardInterrupt:
            state.screen.say("(stopped)")
        except BotError as error:
            state.screen.draw(Notice(str(error)))
            state.debug.print_traceback()

    def _answer_question(self, question: str, typed: str = "") -> None:
        """`typed`: what the user typed for it, where that is not the question itself."""
        state = self.state
        message = self._make_message(question, typed)
        try:
            self._run_turn(message)
        except KeyboardInterrupt:
            state.screen.say("(stopped)")
        finally:
            if any(each is message for each in state.conversation):
                state.unanswered, state.asked_notes, state.notes = "", state.notes, []
            else:  # it got no answer, and can be asked again
                state.unanswered = typed or question
        if state.mode == "plan" and state.last_answer and not self._has_hinted:
            state.screen.say(PLAN_HINT)
            self._has_hinted = True
        if state.runtime and (failure := state.runtime.save_server_facts()):
            state.screen.draw(Notice(failure))

    def _make_message(self, question: str, typed: str) -> UserMessage:
        """The question with what it mentions, and with the notes for the model above it."""
        state = self.state
        _show_ended_jobs(state)
        ended = state.workplace.jobs.take_ended() if state.workplace else ()
        state.notes += [*state.session.notes, *(f"[{job.describe_end()}]" for job in ended)]
        state.session.notes = []
        settings, is_denied = state.settings, state.factory.is_unreadable
        mentions = read_mentions(question, settings.root, is_denied, settings.added, dropped=True)
        mentions = replace(mentions, typed=typed or question)
        for note in mentions.notes:
            state.screen.say(f"  {note}")
        if mentions.images and state.ensure_runtime().model.path.text_only:
            state.screen.say("  (the model accepts only text, so it gets a note in place of each image)")
        return mentions.make_message("".join(f"{note}\n\n" for note in state.notes))

    def _run_turn(self, message: UserMessage) -> None:
        state = self.state
        with self._io.turn():
            runtime = state.ensure_runtime()
            about, events = runtime.describe(state.session), runtime.answer(state.session, message)
            # An interrupt while drawing ends the turn now, and not at garbage collection.
            with state.debug.observe(about) as observe, closing(events):
                for event in events:
                    observe(event)
                    state.count_usage(event)
                    state.screen.draw(event)
            state.context_length = runtime.model.context_length


def make_state(target: ServerTarget, screen: Display, debug: Debug, approver: Callable[[], Approver]) -> State:
    """The state of a new chat. `approver` is called when the runtime is made."""

    def make(name: str) -> app.runtime.Runtime:
        asked = approver()
        state.workplace = state.workplace or app.runtime.make_workplace(state.settings)
        workplace = state.workplace
        runtime = Factory(state.settings).make_runtime(name, asked, lambda: state.session, workplace=workplace)
        runtime.agent.set_turn_limit(*find_turn_limit(asked, state.settings))
        runtime.agent.watch_output(state.screen.show_output)
        return runtime

    state = State(target.settings, screen, debug, make, target.model, Factory(target.settings).make_store())
    state.context_length, state.known_path = target.context, target.path.mode if target.path else ""
    return state


def run_chat(state: State, io: ChatIO, resume: str | None, message: str = "") -> int:
    """Run a chat and close its session. Returns the exit code. Raises BotError.

    `resume`: the session to continue; "" is the last one. `message`: the first one.
    """
    if message:
        state.queue.append(message)
    try:
        if resume is not None:
            resume_session(state, resume)
        return Chat(state, io).run()
    finally:
        if state.workplace and (ended := state.workplace.jobs.close()):
            numbers = ", ".join(str(job.number) for job in ended)
            state.screen.say(f"Ended with the chat: background job{'s' * (len(ended) > 1)} {numbers}.")
        state.session.close()


def _show_ended_jobs(state: State) -> None:
    for job in state.workplace.jobs.take_unshown() if state.workplace else ():
        state.screen.draw(Notice(job.summarize_end()))


def preload_in_background(state: State, show_estimate: Callable[[], None] = lambda: None) -> None:
    """Load what the first answer needs while the user reads and types, and estimate what its tools take."""

    def load() -> None:
        from ...agent import loop  # noqa: F401
        from ...app import connect  # noqa: F401

        state.estimate_overhead()
        show_estimate()

    threading.Thread(target=load, daemon=True).start()
