"""What DEBUG prints, never an API key.

DEBUG=1: which path each call took, and what was skipped. DEBUG=2: what broke the beginning of a prompt, and bodies.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ...security.text.sanitize import sanitize
from ...types.events import Completed, Event, PrefixKept, PromptChanged, TurnStarted
from ...types.lazy_pattern import LazyPattern
from ...types.messages import NATIVE, TEXT, Response, ToolCall
from ..render.words import fill

if TYPE_CHECKING:
    from .jsonl import Observer

_MEDIA_DATA = LazyPattern(r"(base64,|\"data\": ?\")([A-Za-z0-9+/=]{100,})")  # of images and sound, in a body
_LOG_LEVELS = {"providers": 1, "transport": 2}  # room -> lowest level that prints its log


class Debug:
    """`level` is that of the DEBUG variable and may change; the `secrets` are removed from everything printed.

    `show` prints a line; a screen that is drawn in place sets its own.
    """

    def __init__(self, level: int, secrets: Sequence[str] = ()) -> None:
        self.show: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)
        self._secrets = secrets
        self.level = level
        self.observers: list[Observer] = []

    @property
    def level(self) -> int:
        return self._level

    @level.setter
    def level(self, level: int) -> None:
        self._level = level
        if level or "logging" in sys.modules:
            self._listen()

    def _listen(self) -> None:
        import logging  # start-up is measured, and few debug

        class DebugHandler(logging.Handler):
            def emit(_, record: logging.LogRecord) -> None:  # noqa: N805 - `self` is the Debug
                self._print(record.getMessage())

        for room, level in _LOG_LEVELS.items():
            log = logging.getLogger(__name__.replace("cli.tracing.debug", room))
            log.handlers[:] = [DebugHandler()]  # the last one made counts
            log.setLevel(logging.DEBUG if self._level >= level else logging.WARNING)

    def trace(self, event: Event) -> None:
        if not self._level:
            return
        if isinstance(event, TurnStarted):
            self._print(f"Iteration {event.number}")
        elif isinstance(event, PromptChanged):
            self._print(f"The beginning of the prompt changed: {', '.join(event.parts)}")
        elif isinstance(event, PrefixKept) and event.cause and self._level > 1:
            from ...negotiation.continuity import describe_kept  # start-up is measured

            self._print(describe_kept(event))
        elif isinstance(event, Completed):
            for line in _list_call_lines(event.response):
                self._print(line)

    @contextmanager
    def observe(self, about: Mapping[str, str]) -> Iterator[Callable[[Event], None]]:
        """Yields what traces each event of an answer, and shows it to the observers. `about`: as in trace.Observer."""
        for observer in self.observers:
            observer.begin(about)
        ended_by: BaseException | None = None
        try:
            yield self._take
        except BaseException as error:
            ended_by = error
            raise
        finally:
            for observer in self.observers:
                observer.end(ended_by)

    def _take(self, event: Event) -> None:
        self.trace(event)
        for observer in self.observers:
            observer.take(event)

    def print_traceback(self) -> None:
        """Print the traceback of the current exception."""
        if self._level:
            import traceback

            self._print(traceback.format_exc())

    def _print(self, line: str) -> None:
        self.show(f"[DEBUG] {self._clean(line)}")

    def _clean(self, text: str) -> str:
        """Without secrets, terminal escapes, and the data of images."""
        from ...security.text.redact import redact  # start-up is measured, and few debug

        text = _MEDIA_DATA.sub(lambda match: f"{match[1]}[{len(match[2]):,} characters]", text)
        return sanitize(redact(text, self._secrets))


def _list_call_lines(response: Response) -> list[str]:
    lines = []
    natives = sum(call.origin == NATIVE for call in response.calls)
    if natives:
        lines.append(f"Function calling format detected: {natives} calls")
    if in_text := len(response.calls) - natives:
        lines.append(f"Tool calls found: {in_text}  (text-based parsing)")
    if response.calls:
        lines.append(f"Tool calls: {[{'name': call.name, 'args': dict(call.arguments)} for call in response.calls]}")
    lines += filter(None, map(_describe_origin, response.calls))
    lines += [f"Malformed call ({call.origin}): {call.reason}" for call in response.malformed]
    return [*lines, _describe_end(response)]


def _describe_origin(call: ToolCall) -> str:
    """Of a call in the text: in which format it came, and what was made of it; "" if that was nothing special."""
    if call.origin == NATIVE or (call.origin == TEXT and not call.repaired and not call.guessed):
        return ""
    marks = [f"{call.name}: format {call.origin}"]
    if call.repaired:
        marks.append(f"repaired: {', '.join(call.repaired)}")
    if call.guessed:
        marks.append("guessed")
    return ", ".join(marks)


def _describe_end(response: Response) -> str:
    reason = f"Stop reason: {response.stop_reason}{fill(' ({})', response.provider_stop_reason)}"
    if response.usage is None:
        return reason
    return f"{reason}, {response.usage.input_tokens} tokens in, {response.usage.output_tokens} out"
