"""Events as lines on a terminal: the answer on one stream, everything else on the other.

What a model, a tool or a server wrote is untrusted: no control, escape or bidi character of theirs
reaches the terminal; the few escapes that do are ours.
"""

from __future__ import annotations

import json
from collections import deque
from typing import NamedTuple, TextIO

from ..messages import (
    JSON,
    CallFinished,
    CallStarted,
    Completed,
    Event,
    MalformedCall,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolCall,
    ToolResult,
)
from ..security.sanitise import Sanitiser, plain, revealed

_DIM, _UNDIM = "\x1b[2m", "\x1b[0m"
FOLDED = 20  # results that can be looked at again
SHORT = 60  # characters of an argument or outcome on a call's line


def call_line(call: ToolCall | MalformedCall) -> str:
    name, arguments = call_parts(call)
    return name if isinstance(call, MalformedCall) else f"{name}({arguments})"


def call_parts(call: ToolCall | MalformedCall) -> tuple[str, str]:
    """A call's name and its arguments, short, as they are shown."""
    if isinstance(call, MalformedCall):
        return plain(call.name) or "unreadable call", ""
    return plain(call.name), ", ".join(f"{plain(key)}={_short(value)}" for key, value in call.arguments.items())


class Folded(NamedTuple):
    """What stands behind a line: its title, and all of it, plain."""

    title: str
    body: str


def folded_call(call: ToolCall | MalformedCall, result: ToolResult) -> Folded:
    """All that was asked and answered."""
    if isinstance(call, MalformedCall):
        asked = call.raw
    else:
        asked = "\n".join(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for name, value in call.arguments.items()
        )
    return Folded(call_line(call), plain(f"{asked}\n->\n{result.text}"))


def outcome(result: ToolResult) -> str:
    text = result.text
    lines = [line for line in text.strip().splitlines() if not line.startswith("[sha256 ")]  # which is for the model
    first = plain(lines[0]) if lines else ""
    if result.kind == "error":
        return first[: 4 * SHORT] if first.startswith("Not run") else f"error: {first[: 4 * SHORT]}"
    if len(lines) <= 1 and len(first) <= SHORT:
        return first or "nothing"
    size = f"{len(lines)} line{'s' if len(lines) > 1 else ''}, {len(text):,} characters"
    last = plain(lines[-1])
    # How a command ended, or how to read on, is in brackets on the last line.
    return f"{size} {last[: 2 * SHORT]}" if last.startswith("[") and len(lines) > 1 else size


def _short(value: JSON) -> str:
    text = revealed(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHORT else f"{text[: SHORT - 20]}...{text[-15:]}"


class Screen:
    """A plain Display: lines that only ever grow. `answer` gets the model's text, `aside` all else.

    `thoughts`: shown too; `styled`: in colour.
    """

    def __init__(self, answer: TextIO, aside: TextIO, *, thoughts: bool, styled: bool) -> None:
        self._answer = answer
        self._aside = aside
        self.thinking = "show" if thoughts else "hide"
        self.folded: deque[Folded] = deque(maxlen=FOLDED)
        self._styled = styled
        self._cleaned = Sanitiser().feed if answer.isatty() else str  # a file gets what the model said
        self._thought = Sanitiser().feed
        self._open: TextIO | None = None  # the stream whose last line has not ended
        self._thinking = False
        self._called: ToolCall | None = None

    def draw(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._end_thought()
            self._write(self._answer, self._cleaned(event.text))
        elif isinstance(event, ReasoningDelta):
            self._think(self._thought(event.text))
        elif isinstance(event, CallStarted):
            if self._called:  # it runs beside that one, and is shown when it is finished
                return
            self.end_line()
            self._write(self._aside, f"  {call_line(event.call)}")
            self._called = event.call
        elif isinstance(event, CallFinished):
            self._finish_call(event)
        elif isinstance(event, Notice):
            self.say("\n".join(f"! {plain(line)}" for line in event.text.splitlines()))
        elif isinstance(event, Completed):
            self.end_line()

    def say(self, text: str) -> None:
        """Lines of the program's own, on a line of their own."""
        self.end_line()
        self._write(self._aside, f"{text}\n")

    def wipe(self) -> None:
        """What is printed stays."""

    def expand(self) -> None:
        """Show all of the last call, and next time of what is before it."""
        if not self.folded:
            self.say("  Nothing is folded.")
            return
        last = self.folded.pop()
        self.say("\n".join([f"  {last.title}", *(f"  | {line}" for line in last.body.rstrip("\n").split("\n"))]))

    def end_line(self) -> None:
        self._end_thought()
        if self._open:
            self._write(self._open, "\n")
        self._called = None

    def _finish_call(self, event: CallFinished) -> None:
        if self._called is not event.call:  # refused before it began
            self.end_line()
            self._write(self._aside, f"  {call_line(event.call)}")
        self._write(self._aside, f" -> {outcome(event.result)}\n")
        self.folded.append(folded_call(event.call, event.result))
        self._called = None

    def _think(self, text: str) -> None:
        if self.thinking == "hide":
            return
        if not self._thinking:
            self.end_line()
            self._thinking = True
            self._write(self._aside, _DIM if self._styled else "")
        self._write(self._aside, text)

    def _end_thought(self) -> None:
        if self._thinking:
            self._thinking = False
            self._write(self._aside, f"{_UNDIM}\n" if self._styled else "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        if text:
            stream.write(text)
            stream.flush()
            self._open = None if text.endswith("\n") else stream
