"""One session of an editor: a journal, the runtime that answers in it, and the turn that runs."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from threading import Event as CancelToken
from threading import Lock
from typing import Literal

from msgspec.structs import replace

from .. import app
from ..app.call_title import find_title
from ..app.factory import Factory
from ..app.runtime import Runtime, Workplace
from ..app.undo import (
    RISKY,
    describe_nothing,
    describe_redone,
    describe_undone,
    list_risky_calls,
    make_reader,
    make_restorer,
    shorten,
)
from ..config import Settings
from ..errors import Cancelled, LimitReached
from ..session.session import Session
from ..session.state import TODO_WRITE
from ..types.ending import AnswerEnding, find_ending
from ..types.events import CallFinished, Completed, Event, LimitHit, ModeChanged, Notice, SubagentStep
from ..types.messages import Response, Usage, UserMessage
from .commands import REDO, UNDO, Command
from .editor import Editor
from .files import make_files
from .permission import EditorApprover
from .updates import Updates, show_plain, show_title, show_todos, show_usage

StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]  # the protocol's
# The protocol has no word for an answer that was cut for another reason, nor for a missing one: a notice tells it.
STOP_REASONS: Mapping[AnswerEnding, StopReason] = {
    "end_turn": "end_turn",
    "no_answer": "end_turn",
    "max_tokens": "max_tokens",
    "repetition": "max_tokens",
    "other": "max_tokens",
    "max_tool_turns": "max_turn_requests",
    "stuck": "max_turn_requests",
}
REFUSALS = ("content_filter", "refusal")  # how providers say that an answer was withheld


class EditorSession:
    """`on_mode` is called when an accepted plan changed the mode, from the turn's thread."""

    def __init__(
        self, settings: Settings, session: Session, editor: Editor, on_mode: Callable[[EditorSession], None]
    ) -> None:
        self.settings = settings
        self.session = session
        self.usage = Usage()  # of the last turn
        self._context_used = 0  # tokens, after the last answer
        self.running: Future[StopReason] | None = None  # the turn, in the event loop
        self.cancels = 0
        self._turn = Lock()  # held while one runs
        self._cancelled = CancelToken()
        self._editor = editor
        self._on_mode = on_mode
        self._runtime: Runtime | None = None
        self._workplace: Workplace | None = None
        self._ends_after_refusal = False
        self._files = make_files(
            editor, session.id, settings.workspace.max_file_bytes, self._cancelled, self._has_commands
        )
        self.updates = Updates(settings.root, self._files, settings.added)
        session.read_files_with(make_reader(settings, self._files))

    @property
    def id(self) -> str:
        return self.session.id

    @property
    def is_saved(self) -> bool:
        """Whether there is something to read again: a journal begins with the first message."""
        return self.session.path is not None and self.session.path.exists()

    @property
    def mode(self) -> str:
        return self.settings.security.mode_in_force

    def switch_mode(self, mode: str) -> None:
        self.settings = replace(self.settings, security=replace(self.settings.security, mode=mode))
        if self._runtime:
            self._runtime.agent.set_mode(mode)

    def switch_model(self, settings: Settings) -> None:
        """Go on with the model and the server of these settings, from the next turn on."""
        self.settings = replace(settings, security=self.settings.security)
        self._runtime = None

    def _has_commands(self) -> bool:
        return self._workplace is not None and self._workplace.jobs.is_busy

    def make_message(self, message: UserMessage) -> UserMessage:
        """The message below what happened since the last one."""
        notes, self.session.notes = self.session.notes, []
        if self._workplace:
            notes += [f"[{job.describe_end()}]" for job in self._workplace.jobs.take_ended()]
        text = "".join(f"{note}\n\n" for note in notes)
        if not text:
            return message
        if message.blocks:
            return UserMessage("", ({"type": "text", "text": text}, *message.blocks), typed=message.title)
        return UserMessage(text + message.text, typed=message.title)

    def run(self, command: Command) -> StopReason:
        """Run one of our own commands in this thread, and show what it did. Raises BotError."""
        with self._turn:
            runtime = self._ensure_runtime()
            todos = list(runtime.todos or ())
            steps = self._undo(command.turns, runtime) if command.name == UNDO else self._redo(command.turns)
            for step in steps:
                self._editor.show(self.id, show_plain(step))
            runtime.restore_todos(self.session)
            if todos != runtime.todos:
                self.show_plan(runtime)
        return "cancelled" if self.is_cancelled else "end_turn"

    def _undo(self, turns: int, runtime: Runtime) -> Iterator[str]:
        restore_file = make_restorer(self.settings, self._files)
        for number in range(turns):
            undone = self.session.undo(restore_file)
            if undone is None:
                yield describe_nothing(UNDO, number)
                return
            yield describe_undone(undone, self.settings.root)
            is_held = runtime.sandbox is not None and runtime.sandbox.is_enforcing
            if risky := list_risky_calls(self.settings, self.session, undone, is_held=is_held):
                yield "\n".join([RISKY, *(f"  {find_title(call)}" for call in risky)])

    def _redo(self, turns: int) -> Iterator[str]:
        restore_file = make_restorer(self.settings, self._files)
        for number in range(turns):
            redone = self.session.redo(restore_file)
            if redone is None:
                yield describe_nothing(REDO, number)
                return
            yield describe_redone(redone, self.settings.root)

    def answer(self, message: UserMessage) -> StopReason:
        """Answer in this thread, and show it in the editor. Returns why it stopped. Raises BotError."""
        with self._turn:
            if not self.is_saved:
                self._editor.show(self.id, show_title(shorten(message.title)))
            try:
                return self._answer(message)
            finally:
                self._editor.show(self.id, *self.updates.end_calls())

    def _answer(self, message: UserMessage) -> StopReason:
        last: Response | None = None
        has_hit_limit = False
        self.usage, self._ends_after_refusal = Usage(), False
        self._context_used = 0
        try:
            runtime = self._ensure_runtime()
            with closing(runtime.answer(self.session, self.make_message(message))) as events:
                for event in events:
                    self._show(event, runtime)
                    if isinstance(event, Completed):
                        last = event.response
                    has_hit_limit |= isinstance(event, LimitHit)
                    if isinstance(event, CallFinished) and self._ends_after_refusal:
                        return "end_turn"  # what to do instead comes with the next prompt
        except Cancelled:
            return "cancelled"
        except LimitReached:
            return "max_turn_requests"
        if self._cancelled.is_set():
            return "cancelled"
        if (size := runtime.model.context_length) and self._context_used:
            self._editor.show(self.id, show_usage(self._context_used, size))
        if failure := runtime.save_server_facts():
            self.show_notices([failure])
        return find_stop_reason(last, has_hit_limit=has_hit_limit)

    def _show(self, event: Event, runtime: Runtime) -> None:
        self._editor.show(self.id, *self.updates.translate(event))
        if isinstance(event, Completed):
            self.usage += event.response.usage
            if usage := event.response.usage:
                self._context_used = usage.input_tokens + usage.output_tokens
        elif isinstance(event, SubagentStep) and isinstance(event.step, Completed):
            self.usage += event.step.response.usage
        elif isinstance(event, CallFinished) and event.call.name == TODO_WRITE:
            self.show_plan(runtime)
        elif isinstance(event, ModeChanged):
            self.switch_mode(event.mode)
            self._on_mode(self)

    def show_notices(self, texts: Iterable[str]) -> None:
        """In a thread."""
        for text in texts:
            self._editor.show(self.id, *self.updates.translate(Notice(text)))

    def show_plan(self, runtime: Runtime) -> None:
        if runtime.todos is not None:
            self._editor.show(self.id, show_todos(runtime.todos))

    def replay(self) -> None:
        """Show the saved conversation, with its to-do list. In a thread."""
        self._editor.show(self.id, *self.updates.replay(self.session.messages))
        if self.session.state.last_todos is not None:
            self.show_plan(self._ensure_runtime())

    def _ensure_runtime(self) -> Runtime:
        """Raises BotError."""
        if self._runtime is None:
            self._runtime = self._make_runtime()
            self._runtime.agent.set_mode(self.mode)
            self._runtime.restore_todos(self.session)
        return self._runtime

    def _make_runtime(self) -> Runtime:
        factory = Factory(self.settings, cancelled=self._cancelled)
        self._workplace = self._workplace or app.runtime.make_workplace(self.settings, self._files)
        save_rule = factory.rule_memory.save
        approver = EditorApprover(self._editor, self.id, self.updates, save_rule, self._await_words)
        runtime = factory.make_runtime(
            self.settings.vllm.model, approver, lambda: self.session, workplace=self._workplace
        )
        limit = self.settings.agent.max_tool_turns if "agent.max_tool_turns" in self.settings.places else None
        runtime.agent.set_turn_limit(limit, lambda _turns: False)
        runtime.agent.watch_output(
            lambda call_id, text: self._editor.show(self.id, *self.updates.add_output(call_id, text))
        )
        return runtime

    def _await_words(self) -> None:
        self._ends_after_refusal = True

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def begin(self) -> None:
        """Before a turn: what was cancelled is over."""
        self._cancelled.clear()

    def cancel(self) -> None:
        """Stop the turn that runs, and the one that waits for its end."""
        self.cancels += 1
        self._cancelled.set()

    def close(self) -> None:
        """Wait for the turn that was cancelled, end what runs in the background, and close the journal."""
        with self._turn:
            if self._workplace:
                self._workplace.jobs.close()
            self.session.close()


def find_stop_reason(last: Response | None, *, has_hit_limit: bool) -> StopReason:
    """For the editor, from the last response. `has_hit_limit`: of turns with calls."""
    ending = find_ending(last, has_hit_limit=has_hit_limit)
    if ending == "other" and last and last.provider_stop_reason in REFUSALS:
        return "refusal"
    return STOP_REASONS[ending]
