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

if TYPE_CHECKING:
    from .jsonl import Observer

_MEDIA_DATA = LazyPattern(r"(base64,|\"data\": ?\")([A-Za-z0-9+/=]{100,})")  # of images and sound, in a body
_LOG_LEVELS = {"providers": 1, "transport": 2}  # room -> lowest level that prints its log


class Debug:
    """`level` is that of the DEBUG variable and may change; the `secrets` are removed from everything printed.

    `show` prints a line; a screen that is drawn in place sets its own.
    """

    def __init__(self, level: int, secrets: Sequence[str] = ()) -> None:
        self.show: Callable[[str], None] = _print_to_stderr
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


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _list_call_lines(response: Response) -> list[str]:
    lines = []
    native = [call for call in response.calls if call.origin == NATIVE]
    text = [call for call in response.calls if call.origin != NATIVE]
    if native:
        lines.append(f"Function calling format detected: {len(native)} calls")
    if text:
        lines.append(f"Tool calls found: {len(text)}  (text-based parsing)")
    if response.calls:
        lines.append(f"Tool calls: {[{'name': call.name, 'args': dict(call.arguments)} for call in response.calls]}")
    lines += [_describe_origin(call) for call in text if call.origin != TEXT or call.repaired or call.guessed]
    lines += [f"Malformed call ({call.origin}): {call.reason}" for call in response.malformed]
    return [*lines, _describe_end(response)]


def _describe_origin(call: ToolCall) -> str:
    marks = [f"{call.name}: format {call.origin}"]
    if call.repaired:
        marks.append(f"repaired: {', '.join(call.repaired)}")
    if call.guessed:
        marks.append("guessed")
    return ", ".join(marks)


def _describe_end(response: Response) -> str:
    usage = response.usage
    tokens = f", {usage.input_tokens} tokens in, {usage.output_tokens} out" if usage else ""
    own = f" ({response.provider_stop_reason})" if response.provider_stop_reason else ""
    return f"Stop reason: {response.stop_reason}{own}{tokens}"
