"""One question: the answer goes to standard output, everything else to standard error, as outlets.py shows it.

A run that reaches one of its limits ends with exit code 3; the answer until then is kept.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from ... import __version__
from ...app.discovery import discover
from ...app.factory import Factory
from ...app.runtime import Runtime
from ...errors import Cancelled, ConfigError, LimitReached, join_names
from ...types.events import Notice
from ...types.messages import Response
from ..chat.input.approve import choose_approver
from ..tracing.debug import Debug
from .outlets import Outlet, dump_value
from .question import Question
from .run_report import RunReport

if TYPE_CHECKING:
    from ...app.library.structured import Form

UNASKED = "Calls did not run, as nobody is there to be asked: start with --yes to let them."
CANCEL_GRACE_S = 2.0  # from the end of the time to SIGTERM


def ask(
    factory: Factory,
    debug: Debug,
    question: Question,
    outlet: Outlet,
    *,
    yes: bool,
    max_tokens: int | None = None,
    timeout: float | None = None,
    resume: str | None = None,
    form: Form | None = None,
) -> int:
    """Returns the exit code. `max_tokens`: that the model writes in all turns; `timeout`: seconds of the run. `resume`:
    the session to continue; "" is the last one. `form`: of the answer.

    Raises BotError.
    """
    report = outlet.report
    report.model = factory.settings.vllm.model
    session, notices = factory.open_session(resume)
    before = session.messages[-1]
    message = question.make_message(session.notes, form)
    notices += question.mentions.notes if question.mentions else ()
    try:
        with _limit_time(timeout, report) as cancelled:
            factory = Factory(factory.settings, factory.sleep, cancelled)
            target = discover(factory, refuse_to_choose, outlet.draw)
            server, workspace = target.settings.vllm.base_url, str(target.settings.root)
            outlet.begin(version=__version__, server=server, model=target.model, workspace=workspace)
            for notice in notices:
                outlet.draw(Notice(notice))
            session.state.meta.setdefault("model", target.model)
            approver = choose_approver(yes, target.settings, show=outlet.put)
            factory = factory.with_settings(target.settings)
            runtime = factory.make_runtime(target.model, approver, lambda: session)
            # A script that names a model wants that one, and no other.
            runtime.model.core.is_name_fixed = target.settings.places.get("vllm.model", "").startswith("command line")
            runtime.restore_todos(session)
            events = runtime.answer(session, message, form)
            with debug.observe(runtime.describe(session)) as observe, closing(events):
                for event in events:
                    observe(event)
                    report.take(event)
                    outlet.draw(event)
                    _limit_tokens(runtime, report, max_tokens)
            if report.is_unasked:
                outlet.draw(Notice(UNASKED))
            if unsaved := runtime.save_server_facts():
                outlet.draw(Notice(unsaved))
    finally:
        session.close()
        report.answer = ""
        last = session.messages[-1]
        # Text before a call is no answer, nor is that of the question before.
        if isinstance(last, Response) and last is not before and not last.requested_calls:
            report.answer = last.text.strip()
    if form and not report.limit:
        dump_value(form, report.answer)
    return report.compute_exit_code()


def _limit_tokens(runtime: Runtime, report: RunReport, max_tokens: int | None) -> None:
    """Limit the next turn to the tokens that are left. Raises LimitReached if there are none."""
    if max_tokens is None:
        return
    tokens_left = max_tokens - report.output_tokens
    if tokens_left > 0:
        runtime.model.max_tokens = min(runtime.model.max_tokens or tokens_left, tokens_left)
    elif report.wants_tools:
        report.hit_limit = "--max-tokens"
        raise LimitReached(f"The model wrote {report.output_tokens:,} tokens.", "The limit is --max-tokens.")


@contextmanager
def _limit_time(seconds: float | None, report: RunReport) -> Iterator[threading.Event | None]:
    """Yields what is set after this time. What has not ended CANCEL_GRACE_S later, such as a tool, is sent SIGTERM.

    Raises LimitReached once the time is over.
    """
    if seconds is None:
        yield None
        return
    cancelled, has_ended, main_thread = threading.Event(), threading.Event(), threading.get_ident()

    def watch() -> None:
        if not has_ended.wait(seconds):
            cancelled.set()
            if not has_ended.wait(CANCEL_GRACE_S) and hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main_thread, signal.SIGTERM)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        try:
            yield cancelled
        finally:  # the signal may still come, and comes within
            has_ended.set()
            watcher.join()
    except (Cancelled, SystemExit) as error:
        if not cancelled.is_set():
            raise
        report.hit_limit = "--timeout"
        raise LimitReached(f"The run took longer than {seconds:g} seconds.", "The limit is --timeout.") from error


def refuse_to_choose(names: list[str]) -> str:
    raise ConfigError(f"The server serves several models: {join_names(names)}.", "Name one with --model.")
