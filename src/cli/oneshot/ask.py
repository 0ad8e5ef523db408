"""One question: the answer goes to standard output, everything else to standard error.

With --output json or stream-json everything goes to standard output, see output.py. A run that reaches one of
its Limits ends with exit code 3; what was said until then is kept.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple, Protocol

from ... import __version__
from ...app import discovery, factory
from ...config import Settings
from ...errors import ConfigError, LimitReached
from ...security.text.sanitize import sanitize
from ...types.events import Completed, Event, Notice, TextDelta, TurnStarted
from ...types.messages import Message, Response, Text, UserMessage
from ..chat.input.approve import choose_approver
from ..render.plain import PlainScreen
from ..tracing.debug import Debug
from .json_output import Report, as_line, line


class Limits(NamedTuple):
    """Limits of one run: tokens the model writes in all turns, and seconds. None is no limit."""

    tokens: int | None = None
    seconds: float | None = None


class OutOfTime(KeyboardInterrupt):
    """The time is up. A KeyboardInterrupt, so that whatever runs is ended as by Ctrl-C."""


class Outlet(Protocol):
    """Where a run is shown."""

    def begin(self, **fields: str) -> None: ...

    def draw(self, event: Event) -> None: ...

    def end(self, report: Report, ended_by: BaseException | None) -> None: ...


class Showing(NamedTuple):
    """Where a run is shown, and its report."""

    outlet: Outlet
    report: Report


@contextmanager
def showing(output: str, model: str = "") -> Iterator[Showing]:
    """Show a run. However it ends, the last line is printed."""
    outlet, report, began = OUTLETS[output](), Report(model), time.monotonic()

    def end(ended_by: BaseException | None) -> None:
        report.seconds = round(time.monotonic() - began, 3)
        outlet.end(report, ended_by)

    try:
        yield Showing(outlet, report)
    except BaseException as error:
        end(error)
        raise
    end(None)


def ask(
    settings: Settings,
    debug: Debug,
    question: str,
    shown: Showing,
    *,
    yes: bool,
    relearn: bool,
    sleep: Callable[[float], None],
    limits: Limits = Limits(),  # noqa: B008 - a NamedTuple
    resume: str | None = None,
) -> int:
    """Returns the exit code. `resume`: the session to continue; "" is the last one. Raises BotError."""
    outlet, report = shown
    report.model = settings.vllm.model
    session, told = factory.session_for(settings, resume)
    conversation = session.messages
    conversation.append(asked := UserMessage(question))
    try:
        with _within(limits.seconds):
            factory.warn(settings, outlet)
            met = discovery.meet(settings, outlet, _cannot_choose, sleep)
            server, workspace = met.settings.vllm.base_url, str(settings.root)
            outlet.begin(version=__version__, server=server, model=met.model, workspace=workspace)
            for notice in told:
                outlet.draw(Notice(notice))
            session.meta.setdefault("model", met.model)
            approver, before_write = choose_approver(yes, settings), session.before_write
            bot = factory.bot(
                met.settings, met.model, approver, relearn=relearn, sleep=sleep, before_write=before_write
            )
            bot.recall(session)
            if bot.warning:
                outlet.draw(Notice(bot.warning))
            about = factory.about(met.settings, met.model, session.id)
            with closing(debug.follow(session.follow(bot.agent.run(conversation)), about)) as events:
                for event in events:
                    report.take(event)
                    outlet.draw(event)
                    _spend(bot, report, limits)
            if unkept := bot.keep():
                outlet.draw(Notice(unkept))
    except OutOfTime as error:
        report.limit = "--timeout"
        said = f"The run took longer than {limits.seconds:g} seconds."
        raise LimitReached(said, "The limit is --timeout.") from error
    finally:
        session.forget_last(asked)  # where nothing was said to it
        session.close()
        report.answer = _last_words(conversation)
    return report.exit_code()


def _spend(bot: factory.Bot, report: Report, limits: Limits) -> None:
    """Limit the next turn to the tokens that are left. Raises LimitReached if there are none."""
    if limits.tokens is None:
        return
    left = limits.tokens - report.output_tokens
    if left > 0:
        bot.model.max_tokens = min(bot.model.max_tokens or left, left)
    elif report.wants_tools:
        report.limit = "--max-tokens"
        raise LimitReached(f"The model wrote {report.output_tokens:,} tokens.", "The limit is --max-tokens.")


def _last_words(conversation: list[Message]) -> str:
    """The answer so far; text before a tool call is not part of it."""
    last = conversation[-1]
    return last.text.strip() if isinstance(last, Response) and not last.calls and not last.malformed else ""


@contextmanager
def _within(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTime after this time; no limit on systems without setitimer."""
    if seconds is None or not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class AsText:
    """The answer as text: streamed on a terminal, else printed whole."""

    def __init__(self) -> None:
        self._screen = PlainScreen(sys.stdout, sys.stderr, thoughts=False, styled=False)
        self._streaming = sys.stdout.isatty()
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

    def end(self, report: Report, ended_by: BaseException | None) -> None:
        """Print what was said before the answer broke off."""
        if self._answering and not self._streaming and ended_by is not None:
            self._print_whole(Response((Text(report.answer),)))

    def _print_whole(self, response: Response) -> None:
        if not response.text.strip():
            return
        if response.calls or response.malformed:
            self._screen.say(sanitize(response.text.strip()))
        else:
            self._screen.draw(TextDelta(response.text.strip("\n")))  # a thought leaves blank lines
            self._screen.end_line()


class AsJson:
    """One JSON object at the end; with `streaming`, one per event."""

    def __init__(self, *, streaming: bool = False) -> None:
        self._streaming = streaming

    def begin(self, **fields: str) -> None:
        if self._streaming:
            self._print(as_line("start", fields))

    def draw(self, event: Event) -> None:
        if self._streaming and (text := line(event)):
            self._print(text)

    def end(self, report: Report, ended_by: BaseException | None) -> None:
        self._print(report.end(ended_by))

    def _print(self, text: str) -> None:
        print(text, flush=True)


def as_stream() -> AsJson:
    return AsJson(streaming=True)


OUTLETS: dict[str, Callable[[], Outlet]] = {"text": AsText, "json": AsJson, "stream-json": as_stream}


def _cannot_choose(names: list[str]) -> str:
    raise ConfigError(f"The server serves several models: {', '.join(names)}.", "Name one with --model.")
