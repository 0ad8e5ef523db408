"""Events as plain lines: the answer on one stream, everything else on the other.

What a model, a tool or a server wrote is untrusted: no control, escape or bidi character of theirs
reaches the terminal; the few escapes that do are ours.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter, deque
from collections.abc import Sequence
from typing import NamedTuple, TextIO

from ...security.text.sanitize import Sanitiser, plain, revealed
from ...types.events import CallFinished, CallStarted, Completed, Event, Notice, ReasoningDelta, TextDelta
from ...types.messages import JSON, MalformedCall, ToolCall, ToolResult
from .wrap import wrapped

_DIM, _UNDIM = "\x1b[2m", "\x1b[0m"
FOLDED = 20  # results that can be looked at again
FINE = "[exit code 0]"  # not worth showing
_FAILED = re.compile(r"\[(?!exit code 0\b)(exit code|killed by|timed out)\b")
_HASH = re.compile(r" ?\[sha256 [0-9a-f]+\]")  # meant for the model
_CHANGED_BY_USER = re.compile(r"\A\[The user changed the arguments to .*\]\n")  # so is this
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
    """A folded call or thought: its title and its full text, sanitised."""

    title: str
    body: str


def folded_call(call: ToolCall | MalformedCall, result: ToolResult) -> Folded:
    """A call with its full arguments and result."""
    if isinstance(call, MalformedCall):
        asked = call.raw
    else:
        asked = "\n".join(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for name, value in call.arguments.items()
        )
    return Folded(call_line(call), plain(f"{asked}\n->\n{result.text}"))


def outcome(result: ToolResult) -> str:
    """The result of a call in one short line."""
    lines = _CHANGED_BY_USER.sub("", _HASH.sub("", result.text)).strip().splitlines()
    first = plain(lines[0]) if lines else ""
    if result.kind == "error":
        said = first.removeprefix("Error executing tool: ")  # meant for the model
        return _refused(first) if first.startswith("Not run") else f"error: {said[: 4 * SHORT]}"
    if changed := _changed(lines):
        return changed
    # How a command ended, or how to read on, is in brackets on the last line.
    last = plain(lines.pop()) if lines and lines[-1].startswith("[") and lines[-1].endswith("]") else ""
    first = plain(lines[0]) if lines else ""
    if len(lines) > 1:
        size = f"{len(lines):,} lines"
    else:
        size = first if len(first) <= SHORT else f"1 line, {len(first):,} characters"
    end = "" if last == FINE and size else last[: 2 * SHORT]
    return " ".join(filter(None, (size, end))) or "nothing"


def has_failed(result: ToolResult) -> bool:
    """Whether the call failed, or its command did."""
    return result.kind == "error" or bool(_FAILED.match(result.text.strip().rpartition("\n")[2]))


def _refused(text: str) -> str:
    """Why a call did not run, or what the user said instead."""
    _, said, words = text.partition("and said: ")
    return (f"Not run: {words}" if said else text.partition(". ")[0])[: 4 * SHORT]


def _changed(lines: Sequence[str]) -> str:
    """The added and removed lines of a diff below the first line; empty if there is no diff."""
    if len(lines) < 4 or not (lines[1].startswith("--- ") and lines[2].startswith("+++ ")):
        return ""
    signs = Counter(line[:1] for line in lines[3:])
    return f"{plain(lines[0].partition(' ')[0]).lower()} +{signs['+']} -{signs['-']} lines"


def columns_of(stream: TextIO) -> int:
    """The columns of a terminal; 0 if it is not one."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):
        return 0


def _short(value: JSON) -> str:
    text = revealed(json.dumps(value, ensure_ascii=False))
    return text if len(text) <= SHORT else f"{text[: SHORT - 20]}...{text[-15:]}"


class Screen:
    """A plain Display that only appends lines. `answer` gets the model's text, `aside` everything else.

    `thoughts`: show thoughts; `styled`: dim them.
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
            if self._called:  # runs in parallel; shown when finished
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
        self.put(wrapped(text, columns - 1) if (columns := columns_of(self._aside)) else text)

    def put(self, text: str) -> None:
        self.end_line()
        self._write(self._aside, f"{text}\n")

    def wipe(self) -> None:
        """Printed lines stay."""

    def expand(self) -> None:
        """Show the last call in full, and next time the one before."""
        if not self.folded:
            self.say("  There is nothing more to show.")
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
