"""How a run is shown: as text, as JSON (json_output.py), or as an answer of a form alone."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, TextIO

from ...errors import BotError
from ...security.text.sanitize import ControlRemover, sanitize
from ...types.events import Completed, Event, TextDelta, TurnStarted
from ...types.lazy_pattern import LazyPattern
from ...types.messages import Response, Text
from ..render.plain import PlainScreen
from .json_output import format_end, format_event, format_line
from .run_report import RunReport

if TYPE_CHECKING:
    from ...app.library.structured import Form

_CONTROL = LazyPattern("[\x7f-\x9f]")  # which json.dumps leaves as they are


class Outlet:
    """Shows a run and holds its report."""

    def __init__(self, report: RunReport, stdout: TextIO) -> None:
        self.report = report
        self._stdout = stdout

    def begin(self, **fields: str) -> None:
        """The server and the model are known. A script reads only the answer, so this prints nothing."""

    def draw(self, event: Event) -> None:
        raise NotImplementedError

    def put(self, text: str) -> None:
        """Show lines of the program's own, such as a question."""
        print(text, file=sys.stderr)

    def end(self, ended_by: BaseException | None) -> None:
        raise NotImplementedError


class TextOutlet(Outlet):
    """The answer as text: streamed on a terminal, else printed whole.

    `raw`: a pipe or a file gets the model's exact text, with escape sequences.
    """

    def __init__(self, report: RunReport, stdout: TextIO, *, raw: bool = False) -> None:
        super().__init__(report, stdout)
        clean = None  # a terminal has its own
        if not stdout.isatty():
            clean = str if raw else ControlRemover().feed
        self._screen = PlainScreen(stdout, sys.stderr, thoughts=False, styled=False, clean=clean)
        self._streaming = stdout.isatty()
        self._answering = False

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


class JsonOutlet(Outlet):
    """One JSON object at the end; with `streaming`, one for each event too."""

    def __init__(self, report: RunReport, stdout: TextIO, *, streaming: bool = False) -> None:
        super().__init__(report, stdout)
        self._streaming = streaming

    def begin(self, **fields: str) -> None:
        if self._streaming:
            self._print(format_line("start", fields))

    def draw(self, event: Event) -> None:
        if self._streaming and (text := format_event(event)):
            self._print(text)

    def end(self, ended_by: BaseException | None) -> None:
        self._print(format_end(self.report, ended_by))

    def _print(self, text: str) -> None:
        print(text, flush=True, file=self._stdout)


class SchemaOutlet(Outlet):
    """Prints the JSON alone; what happens on the way goes to standard error."""

    def __init__(self, report: RunReport, stdout: TextIO, form: Form) -> None:
        super().__init__(report, stdout)
        self._form = form
        self._screen = PlainScreen(sys.stderr, sys.stderr, thoughts=False, styled=False)

    def draw(self, event: Event) -> None:
        if not isinstance(event, TextDelta):
            self._screen.draw(event)

    def put(self, text: str) -> None:
        self._screen.put(text)

    def end(self, ended_by: BaseException | None) -> None:
        if ended_by is None and not self.report.limit:
            print(dump_value(self._form, self.report.answer), flush=True, file=self._stdout)


def dump_value(form: Form, answer: str) -> str:
    """The value in an answer as JSON that a terminal can show. Raises BotError if there is none."""
    try:
        text = json.dumps(form.read(answer), ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise BotError(f"The answer is not JSON: {error}.") from error
    return _CONTROL.sub(lambda char: f"\\u{ord(char[0]):04x}", text)


@contextmanager
def open_outlet(output: str, model: str = "", *, raw: bool = False, form: Form | None = None) -> Iterator[Outlet]:
    """Shows a run, and its end however it ends. `form`: of the answer, which is then printed alone."""
    began, ended_by = time.monotonic(), None
    with _reserve_stdout() as stdout:
        report = RunReport(model)
        outlet: Outlet = TextOutlet(report, stdout, raw=raw)
        if output != "text":
            outlet = JsonOutlet(report, stdout, streaming=output == "stream-json")
        elif form:
            outlet = SchemaOutlet(report, stdout, form)
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
