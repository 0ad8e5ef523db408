"""What goes on in a turn: the line that says so, and a call that runs with the last lines it has printed. Pure."""

from __future__ import annotations

from collections.abc import Callable

from ...security.text.sanitize import sanitize
from ...types.messages import ToolCall
from .wrap import TAB_COLUMNS

MAX_LINES = 4  # shown of a command that runs
MAX_KEPT_CHARS = 4_000
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class Progress:
    """The current activity, since when, and how many pieces of the answer arrived; a piece is about a token."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.activity = ""
        self.began = self.first = clock()
        self.pieces = 0

    def start(self, activity: str) -> None:
        self.activity, self.began, self.pieces = activity, self._clock(), 0

    def count_piece(self, activity: str) -> None:
        if not self.pieces:
            self.first = self._clock()
        self.pieces += 1
        self.activity = activity

    def format(self) -> str:
        now = self._clock()
        parts = [f"{self.activity} {now - self.began:.1f} s"]
        if self.pieces > 1:
            parts.append(f"{self.pieces:,} tokens")
            if now - self.first > 0.5:
                parts.append(f"{(self.pieces - 1) / (now - self.first):.1f} tokens/s")
        spinner = SPINNER[int(now * 10) % len(SPINNER)]
        return " · ".join([f"{spinner} {parts[0]}", *parts[1:], "Ctrl-C stops"])


class RunningCall:
    """`began`: when, in seconds of the screen's clock. `steps`: the calls of a subagent."""

    def __init__(self, call: ToolCall, began: float) -> None:
        self.call = call
        self.began = began
        self.steps: list[ToolCall] = []
        self._end = ""

    def take_output(self, text: str) -> None:
        """Keep the end of what was printed; linear in `text`. Where it is empty, the command begins, perhaps again."""
        if not text:
            self._end = ""
        self._end = (self._end + text[-MAX_KEPT_CHARS:])[-MAX_KEPT_CHARS:]

    def list_last_lines(self) -> list[str]:
        """The last lines, sanitized. A carriage return starts its line anew, as for a progress bar."""
        if not self._end:
            return []
        lines = self._end.rstrip("\n").split("\n")[-MAX_LINES:]
        return [sanitize(line.rstrip("\r").rpartition("\r")[2]).expandtabs(TAB_COLUMNS) for line in lines]
