"""A turn drawn on a terminal: what is finished goes up for good, what is not is drawn in place below it.

Below are, as far as there is any: the block of Markdown that is still open, a thought, calls that run, a
line that says what is waited for, and what the user types meanwhile. Events only note what they bring;
drawing is done a few times a second, and never takes more than a small part of the time, however much
there is to draw. A thread draws too, for the clock: `lock` is held by whoever draws.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO

from ...security.text.sanitize import Sanitiser, plain
from ...types.events import (
    CallFinished,
    CallStarted,
    Completed,
    Event,
    Notice,
    ReasoningDelta,
    TextDelta,
    ToolCallDelta,
    TurnStarted,
)
from ...types.messages import MalformedCall, ToolCall, ToolResult
from ..chat.input.keys import Typed
from .blocks import Block, Blocks
from .plain import FOLDED, Folded, call_parts, folded_call, has_failed, outcome
from .region import Line, Region
from .text_width import cut, last_part, width_of
from .wrap import wrapped, wrapped_line

if TYPE_CHECKING:
    from .markdown import Painter

FRAME = 0.05  # seconds between drawings, at the least
SHARE = 20  # and as many times what the last one took
THOUGHT_LINES = 3  # of a thought that is folded, while it lasts
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SHOWN_QUEUED = 3


class Progress:
    """What the model is doing, since when, and how many pieces of an answer came; a piece is about a token."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.doing = ""
        self.began = self.first = clock()
        self.pieces = 0

    def start(self, doing: str) -> None:
        self.doing, self.began, self.pieces = doing, self._clock(), 0

    def piece(self, doing: str) -> None:
        if not self.pieces:
            self.first = self._clock()
        self.pieces += 1
        self.doing = doing

    def line(self) -> str:
        now = self._clock()
        parts = [f"{self.doing} {now - self.began:.1f} s"]
        if self.pieces > 1:
            parts.append(f"{self.pieces:,} tokens")
            if now - self.first > 0.5:
                parts.append(f"{(self.pieces - 1) / (now - self.first):.1f} tokens/s")
        spinner = SPINNER[int(now * 10) % len(SPINNER)]
        return " · ".join([f"{spinner} {parts[0]}", *parts[1:], "Ctrl-C stops"])


class Live:
    """A Display. `size`: columns and rows; `painter` is made when it is first needed."""

    def __init__(
        self,
        stream: TextIO,
        size: Callable[[], tuple[int, int]],
        painter: Callable[[], Painter],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lock = threading.RLock()
        self.typed = Typed()
        self.thinking = "fold"
        self.folded: deque[Folded] = deque(maxlen=FOLDED)
        self._size = size
        self._make_painter = painter
        self._painter: Painter | None = None
        self._clock = clock
        self._region = Region(stream, lambda: size()[0])
        self._progress = Progress(clock)
        self._text = Sanitiser().feed
        self._thought_text = Sanitiser().feed
        self._blocks = Blocks()
        self._finished: list[Block] = []  # not drawn yet
        self._above: list[str] = []  # drawn, and not yet on the screen
        self._thought: list[str] = []
        self._thought_end = ""  # as much of it as may be seen
        self._thought_began = 0.0
        self._hint = " (Ctrl-O or /expand shows it)"  # told once
        self._running: dict[str, tuple[ToolCall, float]] = {}
        self._last = ""  # what kind of thing was drawn last: text, aside
        self._due = 0.0
        self._active = False
        self._unbroken = False
        self._late: list[Callable[[], None]] = []

    def begin(self) -> None:
        """A turn begins: from now on there is a region."""
        with self.lock:
            self._active, self._last = True, ""
            self._progress.start("waiting")
            self.frame(now=True)

    def end(self) -> None:
        """The turn is over: what was open is finished, and the region goes."""
        with self.lock:
            self._settle()
            for call, began in self._running.values():
                self._add("aside", [self._call_line(call, "stopped", f"  {self._clock() - began:.1f} s")])
            self._running.clear()
            self._draw_blocks()
            if self._last:
                self._add("aside", [""])
            self._active = False
            self.frame(now=True)

    @contextlib.contextmanager
    def unbroken(self) -> Iterator[None]:
        """The main thread draws: what a signal asks for waits meanwhile, as no write may begin within another."""
        outer, self._unbroken = self._unbroken, True
        try:
            yield
        finally:
            self._unbroken = outer
        while self._late and not outer:
            self._late.pop(0)()

    def when_drawn(self, wish: Callable[[], None]) -> None:
        """What a signal asks for: now, or when what is being drawn is whole."""
        if self._unbroken:
            self._late.append(wish)
        else:
            wish()

    def draw(self, event: Event) -> None:
        with self.unbroken(), self.lock:
            self._note(event)
            self.frame(now=not self._active)  # nobody draws later what comes between two answers

    def say(self, text: str) -> None:
        self.put(wrapped(text, self._size()[0] - 1, width_of))

    def put(self, text: str) -> None:
        with self.unbroken(), self.lock:
            self._settle()
            self._add("aside", text.split("\n"))
            self.frame(now=True)

    def wipe(self) -> None:
        with self.lock:
            self._region.wipe()

    def expand(self) -> None:
        """Show all of the last thing that was folded, and next time what is before it."""
        if not self.folded:
            self._add("aside", ["  There is nothing more to show."])
            self.frame(now=True)
            return
        last = self.folded.pop()
        body = last.body.expandtabs(4).rstrip("\n").split("\n")
        with self.lock:
            self._add("aside", [f"  {last.title}", *(_dim(f"  │ {line}") for line in body)])
            self.frame(now=True)

    def clear(self) -> None:
        """A finished screen is no longer there: draw below whatever is."""
        with self.lock:
            self._region.forget()
            self.frame(now=True)

    def leave(self) -> None:
        """Take the region away for a while, as somebody else draws; `frame` brings it back."""
        with self.lock:
            self._region.update(self._drawn(), [])

    def frame(self, *, now: bool = False) -> None:
        """Draw, if it is time to."""
        with self.lock:
            started = self._clock()
            if not now and started < self._due:
                return
            above = self._drawn()
            self._region.update(above, self._lines() if self._active else [])
            self._due = self._clock() + max(FRAME, SHARE * (self._clock() - started))

    def _note(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._end_thought()
            self._progress.piece("answering")
            self._finished += self._blocks.feed(self._text(event.text))
        elif isinstance(event, ReasoningDelta):
            self._think(event.text)
        elif isinstance(event, ToolCallDelta):
            self._progress.piece("writing a call")
        elif isinstance(event, TurnStarted):
            self._progress.start("waiting")
        elif isinstance(event, CallStarted):
            self._settle()
            self._running[event.call.id] = (event.call, self._clock())
            self._progress.start("running")
        elif isinstance(event, CallFinished):
            self._finish_call(event.call, event.result)
        elif isinstance(event, Notice):
            self._settle()
            lines = [wrapped_line(plain(line), self._size()[0] - 3, width_of) for line in event.text.splitlines()]
            marked = [f"{'  ' if number else '! '}{piece}" for line in lines for number, piece in enumerate(line)]
            self._add("aside", [f"\x1b[33m{line}\x1b[0m" for line in marked])
        elif isinstance(event, Completed):
            self._settle()

    def _think(self, text: str) -> None:
        if not self._thought:
            self._settle()
            self._thought_began = self._clock()
        self._progress.piece("thinking")
        self._thought.append(self._thought_text(text))
        self._thought_end += self._thought[-1]

    def _end_thought(self) -> None:
        text, self._thought, self._thought_end = "".join(self._thought).strip(), [], ""
        if not text:
            return
        seconds = self._clock() - self._thought_began
        title = f"thought for {seconds:.1f} s, {len(text.split()):,} words"
        if self.thinking == "show":
            self._add("aside", [_dim(line) for line in self._wrapped(text, self._size()[0] - 1)])
        elif self.thinking == "fold":
            self._add("aside", [_dim(f"  {title}{self._hint}")])
            self._hint = ""
        self.folded.append(Folded(title, text))

    def _finish_call(self, call: ToolCall | MalformedCall, result: ToolResult) -> None:
        self._settle()
        _, began = self._running.pop(call.id, (None, None))
        seconds = f"  {self._clock() - began:.1f} s" if began is not None else ""
        self._add("aside", [self._call_line(call, outcome(result), seconds, failed=has_failed(result))])
        self.folded.append(folded_call(call, result))
        self._progress.start("running" if self._running else "waiting")

    def _call_line(self, call: ToolCall | MalformedCall, told: str, seconds: str, *, failed: bool = False) -> str:
        """A call on one line of the terminal: its name, arguments, result, time."""
        width = self._size()[0] - 1
        name, arguments = call_parts(call)
        room = max(width - len(f"  {name}() -> ") - len(seconds), 10)
        told = cut(told, max(room // 2, room - width_of(arguments)))
        arguments = cut(arguments, room - width_of(told))
        colour = "\x1b[31m" if failed else ""
        return f"  \x1b[1m{name}\x1b[0m\x1b[2m({arguments})\x1b[0m -> {colour}{told}\x1b[0m\x1b[2m{seconds}\x1b[0m"

    def _settle(self) -> None:
        """Text and thought are finished, as something else begins."""
        self._end_thought()
        self._finished += self._blocks.close()

    def _add(self, kind: str, lines: Sequence[str]) -> None:
        self._draw_blocks()
        if kind == "text" and self._last == "aside":
            self._above.append("")
        self._last = kind
        self._above += lines

    def _drawn(self) -> list[str]:
        self._draw_blocks()
        above, self._above = self._above, []
        return above

    def _draw_blocks(self) -> None:
        """Finished blocks to lines; lines of code together, since what is before them must be read again for each."""
        blocks, self._finished = self._finished, []
        width = self._size()[0] - 1
        index = 0
        while index < len(blocks):
            block, end = blocks[index], index + 1
            if block.kind == "code":
                while end < len(blocks) and blocks[end].kind == "code":
                    end += 1
                lines = self._paint().code(blocks[index:end])
            else:
                lines = self._paint().lines(block, width)
            if (block.gap and self._last == "text") or self._last == "aside":
                self._above.append("")
            self._last = "text"
            self._above += lines
            index = end

    def _lines(self) -> list[Line]:
        """The region, from top to bottom; its top is left out where the screen is too small."""
        columns, rows = self._size()
        width = max(columns - 1, 10)
        below = [_line(_dim(cut(self._progress.line(), width)))]
        queued = self.typed.queue[-SHOWN_QUEUED:]
        below += [_line(_dim(cut(f"  queued: {plain(_one_line(each))}", width))) for each in queued]
        below.append(_line(last_part(f"> {plain(_one_line(self.typed.text))}", width)))
        room = max(rows - 1 - len(below), 0)
        top = [*self._open_thought(width, rows), *self._open_block(width), *self._open_calls()]
        return [*(map(_line, top[-room:] if room else [])), *below]

    def _open_block(self, width: int) -> list[str]:
        block = self._blocks.open
        if block is None:
            return []
        lines = self._paint().code([block], keep=False) if block.kind == "code" else self._paint().lines(block, width)
        lines = [cut(line, width) for line in lines] if block.kind == "code" else lines
        spaced = (block.gap and self._last == "text") or self._last == "aside"
        return ["", *lines] if spaced and lines else lines

    def _open_thought(self, width: int, rows: int) -> list[str]:
        if not self._thought or self.thinking == "hide":
            return []
        most = THOUGHT_LINES if self.thinking == "fold" else rows
        if len(self._thought_end) > 2 * most * width:  # cut seldom, for its lines are others then
            self._thought_end = self._thought_end[-most * width :]
        return [_dim(line) for line in self._wrapped(self._thought_end.strip(), width)[-most:]]

    def _open_calls(self) -> list[str]:
        now = self._clock()
        return [self._call_line(call, "...", f"  {now - began:.1f} s") for call, began in self._running.values()]

    def _wrapped(self, text: str, width: int) -> list[str]:
        return self._paint().wrapped(text, width)

    def _paint(self) -> Painter:
        self._painter = self._painter or self._make_painter()
        return self._painter


def _line(text: str) -> Line:
    return Line(text, width_of(text))


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"


def _one_line(text: str) -> str:
    return text.replace("\n", " ⏎ ").replace("\t", " ")
