"""One delegated task: the agent in a folder, with nobody to ask, and a report of what it did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Event as CancelToken

from msgspec import Struct

from ..app.call_title import find_title
from ..app.changes import make_session_diff
from ..app.discovery import find_server
from ..app.factory import Factory
from ..app.library.result import RunRecord
from ..app.permissions import make_policy
from ..app.runtime import Runtime, make_workplace
from ..config import Settings
from ..errors import BotError, Cancelled, describe_error
from ..security.permissions.approval import NoApprover
from ..session.session import Session
from ..types.events import CallDenied, CallStarted, Event
from ..types.messages import UserMessage

MAX_DIFF_CHARS = 40_000  # of a report; clients cut longer ones themselves, anywhere
CUT = "# {count:,} more characters; `vllm-bot --resume {session}` in the folder, then /diff, shows all\n"


class TaskReport(Struct, frozen=True):
    """`outcome` is "done", or says why the model did not come to an end. `denied`: calls that the mode did not let run.

    `diff` is that of all files the task has changed.
    """

    answer: str
    outcome: str
    mode: str
    changed: tuple[str, ...]
    diff: str
    denied: tuple[str, ...]
    notices: tuple[str, ...]
    session: str

    def to_text(self) -> str:
        """For clients that show no structured results."""
        lines = [self.answer or "(no answer)"]
        if self.outcome != "done":
            lines.append(f"Not finished: {self.outcome}")
        lines += [f"Not run in mode {self.mode}: {line}" for line in self.denied]
        lines += [f"Note: {line}" for line in self.notices]
        lines.append(f"Changed files: {', '.join(self.changed) or 'none'}. Saved as session {self.session}.")
        return "\n\n".join([*lines, self.diff] if self.diff else lines)


def find_folder(named: str, roots: Sequence[Path]) -> Path:
    """The folder of a task, below one of the roots; relative to the first. Raises BotError.

    Links are followed first, so that none leads out.
    """
    try:
        folder = (roots[0] / named).resolve()
        is_folder = folder.is_dir()
    except (OSError, ValueError, RuntimeError):  # a name that no file can have, or a loop of links
        raise BotError(f"There is no folder {named!r}.") from None
    if not any(folder.is_relative_to(root) for root in roots):
        raise BotError(f"{named!r} is not below {' or '.join(map(str, roots))}.", "Name a folder below it.")
    if not is_folder:
        raise BotError(f"There is no folder {named!r} below {roots[0]}.")
    return folder


def run_task(settings: Settings, task: str, cancelled: CancelToken, show: Callable[[str], object]) -> TaskReport:
    """Run the task to its end. `show` gets a line for each call. Raises BotError, Cancelled once `cancelled` is set."""
    settings = find_server(settings)
    factory = Factory(settings, cancelled=cancelled)
    session = factory.make_session(settings.vllm.model, factory.make_store(), one_shot=True)
    workplace = make_workplace(settings)
    try:
        runtime = factory.make_runtime(settings.vllm.model, NoApprover(), lambda: session, workplace=workplace)
        with runtime.model:
            run = _converse(runtime, session, task, lambda line: show(factory.clean(line)))
            notices = list(filter(None, [runtime.save_server_facts()]))
        if cancelled.is_set():
            raise Cancelled("The task was cancelled.")
        result = run.record.make_result()
        changed, diff = make_session_diff(session, settings, partial(make_policy(settings, None).can_show, "read"))
        outcome = run.failure or result.ending or "done"
        clean = factory.clean
        return TaskReport(
            answer=clean(result.text),
            outcome=clean(outcome),
            mode=settings.security.mode_in_force,
            changed=tuple(map(clean, changed)),
            diff=_shorten(clean(diff), session.id),
            denied=tuple(map(clean, run.denied)),
            notices=tuple(map(clean, (*result.notices, *notices))),
            session=session.id,
        )
    finally:
        workplace.jobs.close()
        session.close()


def _converse(runtime: Runtime, session: Session, task: str, show: Callable[[str], object]) -> _Run:
    """Put the task to the agent. Raises BotError if it fails with nothing changed; else what was changed is told."""
    run = _Run(RunRecord())
    try:
        with closing(runtime.answer(session, UserMessage(task))) as events:
            for event in events:
                run.add(event, show)
    except Cancelled:
        raise
    except BotError as error:
        if not session.state.writes:
            raise
        run.failure = describe_error(error)
    return run


class _Run(Struct):
    """What happened. `denied`: calls, each with the reason. `failure`: of what ended it, "" if nothing did."""

    record: RunRecord
    denied: list[str] = []
    failure: str = ""

    def add(self, event: Event, show: Callable[[str], object]) -> None:
        self.record.add(event)
        if isinstance(event, CallStarted):
            show(find_title(event.call))
        elif isinstance(event, CallDenied):
            self.denied.append(f"{find_title(event.call)}: {event.reason}")
            show(f"Denied: {find_title(event.call)}")


def _shorten(diff: str, session: str) -> str:
    if len(diff) <= MAX_DIFF_CHARS:
        return diff
    end = diff.rfind("\n", 0, MAX_DIFF_CHARS) + 1 or MAX_DIFF_CHARS
    return diff[:end] + CUT.format(count=len(diff) - end, session=session)
