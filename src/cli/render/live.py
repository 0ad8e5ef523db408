"""A turn on a full terminal: finished lines, which scroll up, and unfinished ones, which change in place below them.

An event only changes the state. The application (../chat/input/application.py) takes the lines from its own thread, a
few times a second. The unfinished ones are, where they exist, a thought, the open block of Markdown, running calls and
a progress line.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ...security.text.sanitize import Sanitizer, sanitize
from ...types.events import (
    CallFinished,
    CallStarted,
    Completed,
    Event,
    Notice,
    ReasoningDelta,
    SubagentStep,
    TextDelta,
    ToolCallDelta,
    TurnStarted,
)
from ...types.messages import MalformedCall, ToolCall, ToolResult
from .activity import Progress, RunningCall
from .blocks import Block, BlockSplitter
from .colours import DARK, Colours, paint
from .details import MAX_DIFF_LINES, list_details
from .plain import (
    MAX_FOLDED,
    MAX_LINE_CHARS,
    NOTHING_FOLDED,
    FoldedItem,
    describe_result,
    describe_steps,
    fold_call,
    format_arguments,
    format_name,
)
from .text_width import measure_width, truncate
from .wrap import cut_at_word, mark_text, wrap_line, wrap_text

if TYPE_CHECKING:
    from .markdown import MarkdownRenderer

NARROW_COLUMNS = 60
MAX_THOUGHT_LINES = 3  # of an unfinished thought that will be folded
MARK = "    │ "  # before lines of others, below a call
WIPE = "\x1b[2J\x1b[H"


class LiveScreen:
    """A Display. `size` returns columns and rows; `make_renderer` is called when the renderer is first needed."""

    draws_above = True  # lines can be shown while the user types, above the line; threads may call `draw` then

    def __init__(
        self,
        size: Callable[[], tuple[int, int]],
        make_renderer: Callable[[Colours], MarkdownRenderer],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refresh: Callable[[], None] = lambda: None  # draws soon; the application sets it
        self.thinking = "fold"  # how thoughts are shown: fold, show or hide
        self.colours = DARK
        self.is_asking = False  # a question waits for its answer
        self.was_asked = False  # since the last call ended: the user saw then what the next one changes
        self.folded: deque[FoldedItem] = deque(maxlen=MAX_FOLDED)
        self._lock = threading.RLock()  # of all that follows
        self._size = size
        self._make_renderer = make_renderer
        self._renderer: MarkdownRenderer | None = None
        self._clock = clock
        self._progress = Progress(clock)
        self._text = Sanitizer().feed
        self._thought_text = Sanitizer().feed
        self._blocks = BlockSplitter()
        self._finished: list[Block] = []  # not drawn yet
        self._above: list[str] = []  # drawn, and not yet on the screen
        self._thought: list[str] = []
        self._thought_end = ""  # the part that may be visible
        self._thought_began = 0.0
        self._expand_hint = " (Ctrl-O or /expand shows it)"  # shown once
        self._running: dict[str, RunningCall] = {}
        self._last = ""  # the kind of the last drawn lines: text or aside
        self._is_active = False
        self._must_wipe = False
        self._holding = False
        self._held: list[Callable[[], None]] = []

    def choose_colours(self, colours: Colours) -> None:
        with self._lock:
            self.colours, self._renderer = colours, None

    def begin(self) -> None:
        """Begin a turn: from now on there are unfinished lines."""
        with self._lock:
            self._is_active, self._last, self.was_asked = True, "", False
            self._progress.start("waiting")

    def end(self) -> None:
        """End the turn: finish what is open."""
        with self._lock:
            self._finish_open()
            for each in self._running.values():
                self._add(self._format_call(each.call, "stopped", f"  {self._clock() - each.began:.1f} s"))
            self._running.clear()
            self._draw_blocks()
            if self._last:
                self._add([""])
            self._is_active = False
        self.refresh()

    @contextlib.contextmanager
    def hold_signals(self) -> Iterator[None]:
        """While the main thread draws, defer what signal handlers ask for: no write may begin within another."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        outer, self._holding = self._holding, True
        try:
            yield
        finally:
            self._holding = outer
        while self._held and not outer:
            self._held.pop(0)()

    def call_when_drawn(self, action: Callable[[], None]) -> None:
        """Call now, or after the current drawing."""
        if self._holding:
            self._held.append(action)
        else:
            action()

    def draw(self, event: Event) -> None:
        with self.hold_signals(), self._lock:
            self._handle(event)
        if not self._is_active:  # else frames follow each other
            self.refresh()

    def say(self, text: str) -> None:
        self.put(wrap_text(text, self._size()[0] - 1, measure_width))

    def put(self, text: str) -> None:
        with self.hold_signals(), self._lock:
            self._finish_open()
            self._add(text.split("\n"))
        self.refresh()

    def show_output(self, call_id: str, text: str) -> None:
        with self._lock:
            if running := self._running.get(call_id):
                running.take_output(text)

    def wipe(self) -> None:
        with self._lock:
            self._above, self._must_wipe = [], True

    def expand(self) -> None:
        """Show what `unfold` returns, in the middle of an answer too."""
        with self._lock:
            self._add(self.unfold())
        self.refresh()

    def unfold(self) -> list[str]:
        with self._lock:
            if not self.folded:
                return [NOTHING_FOLDED]
            last = self.folded.pop()
            width = self._size()[0] - 1
            lines = last.list_lines("  │ ", width, self.colours)
            return [truncate(f"  {last.title}", width), *(paint(text, sgr) for text, sgr in lines)]

    def take_above(self) -> list[str]:
        """Remove and return the finished lines that are not on the screen yet. They may be longer than the terminal."""
        with self._lock:
            self._draw_blocks()
            above, self._above = self._above, []
            if above and self._must_wipe:
                above[0], self._must_wipe = WIPE + above[0], False
            return above

    def render(self, rows: int) -> list[str]:
        """The unfinished lines, each shorter than the terminal. Where there are more than `rows`, the last of them."""
        with self._lock:
            if not self._is_active:
                return []
            columns, height = self._size()
            width = max(columns - 1, 10)
            lines = [*self._render_open_thought(width, height), *self._render_open_block(width)]
            if not self.is_asking:
                for each in self._running.values():
                    seconds = f"  {self._clock() - each.began:.1f} s"
                    lines += self._format_call(each.call, describe_steps(each.steps), seconds)
                    lines += [_dim(truncate(f"{MARK}{line}", columns - 1)) for line in each.list_last_lines()]
                lines.append(_dim(truncate(self._progress.format(), width)))
            return lines[max(0, len(lines) - rows) :]

    def _handle(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._end_thought()
            self._progress.count_piece("answering")
            self._finished += self._blocks.feed(self._text(event.text))
        elif isinstance(event, ReasoningDelta):
            self._think(event.text)
        elif isinstance(event, ToolCallDelta):
            self._progress.count_piece("writing a call")
        elif isinstance(event, TurnStarted):
            self._progress.start("waiting")
        elif isinstance(event, (CallStarted, SubagentStep, CallFinished)):
            self._handle_call(event)
        elif isinstance(event, Notice):
            self._finish_open()
            lines = mark_text(sanitize(event.text).strip("\n"), "! ", self._size()[0] - 1)
            self._add([paint(line, self.colours.notice) for line in lines])
        elif isinstance(event, Completed):
            self._finish_open()
            self._progress.start("waiting")  # reviewers may be asked about a call

    def _handle_call(self, event: CallStarted | SubagentStep | CallFinished) -> None:
        if isinstance(event, CallStarted):
            self._finish_open()
            self._running[event.call.id] = RunningCall(event.call, self._clock())
            self._progress.start("running")
        elif isinstance(event, CallFinished):
            self._finish_call(event.call, event.result)
        elif isinstance(event.step, CallStarted) and (running := self._running.get(event.call.id)):
            running.steps.append(event.step.call)

    def _think(self, text: str) -> None:
        if not self._thought:
            self._finish_open()
            self._thought_began = self._clock()
        self._progress.count_piece("thinking")
        self._thought.append(self._thought_text(text))
        self._thought_end += self._thought[-1]

    def _end_thought(self) -> None:
        text, self._thought, self._thought_end = "".join(self._thought).strip(), [], ""
        if not text:
            return
        seconds = self._clock() - self._thought_began
        title = f"thought for {seconds:.1f} s, {len(text.split()):,} words"
        if self.thinking == "show":
            self._add([_dim(line) for line in self._wrap(text, self._size()[0] - 1)])
        elif self.thinking == "fold":
            line = f"  {title}{self._expand_hint}"
            self._add([_dim(piece) for piece in wrap_line(line, self._size()[0] - 1, measure_width)])
            self._expand_hint = ""
        self.folded.append(FoldedItem(title, text))

    def _finish_call(self, call: ToolCall | MalformedCall, result: ToolResult) -> None:
        self._finish_open()
        running = self._running.pop(call.id, None)
        seconds = ""
        if running:
            seconds = f"  {self._clock() - running.began:.1f} s"
        outcome, details = describe_result(result), self._format_details(result)
        has_failed = result.kind == "error" or result.has_command_failed
        lines = self._format_call(call, outcome, seconds, failed=has_failed)
        if result.kind == "error" and not any(outcome in line for line in lines):  # why it failed is never cut
            kind, _, reason = outcome.partition(": ")
            lines = self._format_call(call, kind, seconds, failed=True)
            width = self._size()[0] - 1
            details = [
                _dim(MARK) + paint(line, self.colours.error) for line in mark_text(reason, "", width - len(MARK))
            ]
        self._add([*lines, *details])
        self.folded.append(fold_call(call, result))
        self._progress.start("running" if self._running else "waiting")

    def _format_call(
        self, call: ToolCall | MalformedCall, result: str, seconds: str, *, failed: bool = False
    ) -> list[str]:
        """A call on one line: its name, arguments, result, time. On a narrow terminal the result may have its own."""
        width = self._size()[0] - 1
        name = format_name(call)
        room = max(width - len(f"  {name}() -> ") - len(seconds), 10)
        arguments = format_arguments(call, MAX_LINE_CHARS, measure_width)
        gap = " "
        if width < NARROW_COLUMNS and measure_width(arguments) + measure_width(result) > room:
            gap = "\n    "
            arguments = format_arguments(call, width - len(f"  {name}()"), measure_width)
            result = cut_at_word(result, width - len(f"    -> {seconds}"), measure_width)
        else:
            result = cut_at_word(result, max(room // 2, room - measure_width(arguments)), measure_width)
            arguments = format_arguments(call, room - measure_width(result), measure_width)
        head = f"  \x1b[1m{name}\x1b[0m" + _dim(f"({arguments})")
        if failed:
            result = paint(result, self.colours.error)
        lines = f"{head}{gap}-> {result}{_dim(seconds)}".split("\n")
        return [truncate(line, width) for line in lines]  # a name may be of any length

    def _format_details(self, result: ToolResult) -> list[str]:
        """What stands below a call. A diff that was just asked about is not shown again."""
        lines = list_details(result, self.colours, with_diff=not self.was_asked)
        self.was_asked = False
        width = self._size()[0] - 1
        shown = [_dim(MARK) + paint(truncate(text, width - len(MARK)), sgr) for text, sgr in lines[:MAX_DIFF_LINES]]
        if (more := len(lines) - MAX_DIFF_LINES) > 0:
            shown.append(_dim(f"    ({more:,} more lines: Ctrl-O shows them)"))
        return shown

    def _finish_open(self) -> None:
        """Finish the open text and thought, because something else begins."""
        self._end_thought()
        self._finished += self._blocks.close()

    def _add(self, lines: Sequence[str]) -> None:
        """Draw lines that are not part of the answer above the region, after the answer so far."""
        self._draw_blocks()
        self._last = "aside"
        self._above += lines

    def _draw_blocks(self) -> None:
        """Render finished blocks; consecutive lines of code together, since each call may lex preceding lines again."""
        blocks, self._finished = self._finished, []
        width = self._size()[0] - 1
        for is_code, group in groupby(blocks, lambda block: block.kind == "code"):
            if is_code:
                lines_of_code = [*group]
                self._draw(lines_of_code[0], self._get_renderer().render_code(lines_of_code))
                continue
            for block in group:
                self._draw(block, self._get_renderer().render_block(block, width))

    def _draw(self, block: Block, lines: Sequence[str]) -> None:
        if self._needs_gap(block):
            self._above.append("")
        self._above += lines
        self._last = "text"

    def _needs_gap(self, block: Block) -> bool:
        return (block.gap and self._last == "text") or self._last == "aside"

    def _render_open_block(self, width: int) -> list[str]:
        block = self._blocks.open
        if block is None:
            return []
        renderer = self._get_renderer()
        if block.kind == "code":
            lines = [truncate(line, width) for line in renderer.render_code([block], keep=False)]
        else:
            lines = renderer.render_block(block, width)
        if lines and self._needs_gap(block):
            return ["", *lines]
        return lines

    def _render_open_thought(self, width: int, rows: int) -> list[str]:
        if not self._thought or self.thinking == "hide":
            return []
        limit = rows
        if self.thinking == "fold":
            limit = MAX_THOUGHT_LINES
        if len(self._thought_end) > 2 * limit * width:  # cut rarely: cutting changes the line breaks
            self._thought_end = self._thought_end[-limit * width :]
        return [_dim(line) for line in self._wrap(self._thought_end.strip(), width)[-limit:]]

    def _wrap(self, text: str, width: int) -> list[str]:
        return self._get_renderer().wrap(text, width)

    def _get_renderer(self) -> MarkdownRenderer:
        self._renderer = self._renderer or self._make_renderer(self.colours)
        return self._renderer


def _dim(text: str) -> str:
    return f"\x1b[2m{text}\x1b[0m"
