"""One question: the answer goes to standard output, everything else to standard error.

With --output json or stream-json everything goes to standard output, see json_output.py. A run that reaches one of
its limits ends with exit code 3; the answer until then is kept.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO

from ... import __version__
from ...app.discovery import discover
from ...app.factory import Factory
from ...app.runtime import Runtime
from ...errors import Cancelled, ConfigError, LimitReached, join_names
from ...security.permissions.approval import NO_APPROVER_MESSAGE
from ...security.text.sanitize import ControlRemover, sanitize
from ...types.events import CallDenied, Completed, Event, Notice, TextDelta, TurnStarted
from ...types.messages import Message, Response, Text
from ..chat.input.approve import choose_approver
from ..render.plain import PlainScreen
from ..tracing.debug import Debug
from .json_output import RunReport, format_event, format_line
from .question import Question

if TYPE_CHECKING:
    from ...app.library.structured import Form

CANCEL_GRACE_S = 2.0  # from the end of the time to SIGTERM


class RunLimits(NamedTuple):
    """Limits of one run: tokens the model writes in all turns, and seconds. None is no limit."""

    tokens: int | None = None
    seconds: float | None = None


class Outlet(Protocol):
    """Shows a run and holds its report."""

    report: RunReport

    def begin(self, **fields: str) -> None: ...

    def draw(self, event: Event) -> None: ...

    def put(self, text: str) -> None:
        """Show lines of the program's own, such as a question."""

    def end(self, ended_by: BaseException | None) -> None: ...


@contextmanager
def open_outlet(output: str, model: str = "", *, raw: bool = False, form: Form | None = None) -> Iterator[Outlet]:
    """Shows a run, and its end however it ends. `form`: of the answer, which is then printed alone."""
    began, ended_by = time.monotonic(), None
    with _reserve_stdout() as stdout:
        report = RunReport(model)
        outlet: Outlet
        if output != "text":
            outlet = OUTLETS[output](report, stdout)
        elif form:
            from .schema import SchemaOutlet

            outlet = SchemaOutlet(form, report, stdout)
        else:
            outlet = TextOutlet(report, stdout, raw=raw)
        try:
            yield outlet
        except BaseException as error:
            ended_by = error
            raise
        finally:
            outlet.report.seconds = round(time.monotonic() - began, 3)
            outlet.end(ended_by)


@contextmanager
def _reserve_stdout() -> Iterator[TextIO]:
    """Standard output for the answer alone: what threads and programs of tools print goes to standard error.

    A stream that replaces standard output, as in a test, stays as it is.
    """
    shared = sys.stdout
    if shared is not sys.__stdout__ or not isinstance(shared, io.TextIOWrapper):
        yield shared
        return
    shared.flush()
    descriptor = shared.fileno()
    saved = os.dup(descriptor)
    os.dup2(sys.stderr.fileno() if sys.stderr else os.open(os.devnull, os.O_WRONLY), descriptor)
    own = io.TextIOWrapper(
        io.FileIO(saved, "w", closefd=False),
        encoding=shared.encoding,
        errors=shared.errors,
        line_buffering=shared.line_buffering,
    )
    try:
        yield own
        own.flush()
    finally:
        with suppress(OSError):  # the reader is gone, which the block has said
            own.close()
        with suppress(OSError):  # standard error is gone
            shared.flush()  # what a thread of a tool printed, before the descriptor leads to standard output again
        os.dup2(saved, descriptor)
        os.close(saved)


def ask(
    factory: Factory,
    debug: Debug,
    question: Question,
    outlet: Outlet,
    *,
    yes: bool,
    limits: RunLimits = RunLimits(),  # noqa: B008 - a NamedTuple
    resume: str | None = None,
    form: Form | None = None,
) -> int:
    """Returns the exit code. `resume`: the session to continue; "" is the last one. `form`: of the answer.

    Raises BotError.
    """
    report = outlet.report
    report.model = factory.settings.vllm.model
    session, notices = factory.open_session(resume)
    message = question.make_message(session.notes, form)
    notices += question.mentions.notes if question.mentions else ()
    try:
        with _limit_time(limits.seconds, report) as cancelled:
            factory = Factory(factory.settings, factory.sleep, cancelled)
            target = discover(factory, refuse_to_choose, outlet.draw)
            server, workspace = target.settings.vllm.base_url, str(target.settings.root)
            outlet.begin(version=__version__, server=server, model=target.model, workspace=workspace)
            for notice in notices:
                outlet.draw(Notice(notice))
            session.meta.setdefault("model", target.model)
            approver = choose_approver(yes, target.settings, show=outlet.put)
            factory = factory.with_settings(target.settings)
            runtime = factory.make_runtime(target.model, approver, lambda: session)
            runtime.restore_todos(session)
            events = debug.follow(runtime.answer(session, message, form), runtime.describe(session))
            _show_answer(events, runtime, outlet, limits)
    finally:
        session.close()
        report.answer = _get_final_text(session.messages)
    if form and not report.limit:
        from .schema import dump_value

        dump_value(form, report.answer)
    return report.compute_exit_code()


def _show_answer(events: Generator[Event, None, None], runtime: Runtime, outlet: Outlet, limits: RunLimits) -> None:
    """Show an answer and what follows it. Raises BotError."""
    is_unasked = False
    with closing(events):
        for event in events:
            outlet.report.take(event)
            outlet.draw(event)
            _limit_tokens(runtime, outlet.report, limits)
            if isinstance(event, CallDenied) and event.reason.startswith(f"{NO_APPROVER_MESSAGE} ("):
                is_unasked = True
    if is_unasked:
        outlet.draw(Notice("Calls did not run, as nobody is there to be asked: start with --yes to let them."))
    if unsaved := runtime.save_server_facts():
        outlet.draw(Notice(unsaved))


def _limit_tokens(runtime: Runtime, report: RunReport, limits: RunLimits) -> None:
    """Limit the next turn to the tokens that are left. Raises LimitReached if there are none."""
    if limits.tokens is None:
        return
    left = limits.tokens - report.output_tokens
    if left > 0:
        runtime.model.max_tokens = min(runtime.model.max_tokens or left, left)
    elif report.wants_tools:
        report.limit = "--max-tokens"
        raise LimitReached(f"The model wrote {report.output_tokens:,} tokens.", "The limit is --max-tokens.")


def _get_final_text(conversation: list[Message]) -> str:
    """The answer so far; text before a tool call is not part of it."""
    last = conversation[-1]
    return last.text.strip() if isinstance(last, Response) and not last.calls and not last.malformed else ""


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
        yield cancelled
    except (Cancelled, SystemExit) as error:
        if not cancelled.is_set():
            raise
        report.limit = "--timeout"
        raise LimitReached(f"The run took longer than {seconds:g} seconds.", "The limit is --timeout.") from error
    finally:
        has_ended.set()
        watcher.join()


class TextOutlet:
    """The answer as text: streamed on a terminal, else printed whole.

    `raw`: a pipe or a file gets the model's exact text, with escape sequences.
    """

    def __init__(self, report: RunReport, stdout: TextIO, *, raw: bool = False) -> None:
        self.report = report
        clean = None  # a terminal has its own
        if not stdout.isatty():
            clean = str if raw else ControlRemover().feed
        self._screen = PlainScreen(stdout, sys.stderr, thoughts=False, styled=False, clean=clean)
        self._streaming = stdout.isatty()
        self._answering = False

    def begin(self, **fields: str) -> None:
        """Print nothing, so that a script reads only the answer."""

    def draw(self, event: Event) -> None:
        if isinstance(event, (TurnStarted, Completed)):
            self._answering = isinstance(event, TurnStarted)
        if self._streaming or not isinstance(event, TextDelta):
            self._screen.draw(event)
        if not self._streaming and isinstance(event, Completed):
            self._print_whole(event.response)

    def put(self, text: str) -> None:
        self._screen.put(text)

    def end(self, ended_by: BaseException | None) -> None:
        """Print the text of an answer that broke off."""
        if self._answering and not self._streaming and ended_by is not None:
            self._print_whole(Response((Text(self.report.answer),)))

    def _print_whole(self, response: Response) -> None:
        if not response.text.strip():
            return
        if response.calls or response.malformed:
            self._screen.say(sanitize(response.text.strip()))
        else:
            self._screen.draw(TextDelta(response.text.strip("\n")))  # a thought leaves blank lines
            self._screen.end_line()


class JsonOutlet:
    """One JSON object at the end; with `streaming`, one for each event too."""

    def __init__(self, report: RunReport, stdout: TextIO, *, streaming: bool = False) -> None:
        self.report = report
        self._stdout = stdout
        self._streaming = streaming

    def begin(self, **fields: str) -> None:
        if self._streaming:
            self._print(format_line("start", fields))

    def draw(self, event: Event) -> None:
        if self._streaming and (text := format_event(event)):
            self._print(text)

    def put(self, text: str) -> None:
        print(text, file=sys.stderr)

    def end(self, ended_by: BaseException | None) -> None:
        self._print(self.report.format_end(ended_by))

    def _print(self, text: str) -> None:
        print(text, flush=True, file=self._stdout)


OUTLETS: dict[str, Callable[[RunReport, TextIO], Outlet]] = {
    "json": JsonOutlet,
    "stream-json": partial(JsonOutlet, streaming=True),
}


def refuse_to_choose(names: list[str]) -> str:
    raise ConfigError(f"The server serves several models: {join_names(names)}.", "Name one with --model.")
