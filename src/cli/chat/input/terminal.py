"""The terminal under the application: its size, frames that appear at once, lines with colours, keys typed ahead."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Sequence
from functools import lru_cache

from prompt_toolkit.data_structures import Size
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.input.posix_utils import PosixStdinReader
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.layout.controls import UIContent, UIControl
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output

from ...render.colours import Colours, take_background
from ...render.text_width import measure_width

PROMPT_ROWS = 2  # the line that is typed, and the status line
SYNC_ON, SYNC_OFF = "\x1b[?2026h", "\x1b[?2026l"  # synchronized output, DEC mode 2026


class ColouredLines(UIControl):
    """Lines with their colours."""

    def __init__(self, get_lines: Callable[[], list[str]]) -> None:
        self._get_lines = get_lines

    def preferred_height(self, width: int, max_available_height: int, wrap_lines: bool, get_line_prefix: object) -> int:  # noqa: ARG002
        return len(self._get_lines())

    def create_content(self, width: int, height: int) -> UIContent:  # noqa: ARG002
        lines = self._get_lines()
        return UIContent(lambda row: _parse_colours(lines[row]), len(lines), show_cursor=False)


class FrameOutput(Vt100_Output):
    """Writes each frame at once. It asks the terminal for nothing: an answer could be mistaken for keys."""

    def __init__(self) -> None:
        super().__init__(
            sys.stdout,
            lambda: Size(*reversed(get_size())),
            term=os.environ.get("TERM"),
            default_color_depth=ColorDepth.from_env(),  # none with NO_COLOR
            enable_cpr=False,
        )
        self._is_in_frame = False
        self._began = self.frame_s = 0.0  # processor time when the last frame began, and that it took

    def begin_frame(self) -> None:
        self._is_in_frame, self._began = True, time.thread_time()
        self.write_raw(SYNC_ON)

    def end_frame(self) -> None:
        self._is_in_frame = False
        self.write_raw(SYNC_OFF)
        self.flush()
        self.frame_s = time.thread_time() - self._began

    def flush(self) -> None:
        if not self._is_in_frame:
            super().flush()


class TerminalReader(PosixStdinReader):
    """Reads keys. `choose_colours` gets what the terminal says about its background, which is no key."""

    def __init__(self, terminal: int, choose_colours: Callable[[Colours], None]) -> None:
        super().__init__(terminal)
        self._choose_colours = choose_colours

    def read(self, count: int = 1024) -> str:
        return _take_background(super().read(count), self._choose_colours)


def _take_background(typed: str, choose_colours: Callable[[Colours], None]) -> str:
    keys, colours = take_background(typed)
    if colours:
        choose_colours(colours)
    return keys


def take_typed_ahead(choose_colours: Callable[[Colours], None]) -> list[KeyPress]:
    """What was typed while the application read no keys. A line feed is an Enter, as the terminal then sends it."""
    terminal = sys.stdin.fileno()
    tty.setcbreak(terminal, termios.TCSANOW)  # else only whole lines can be read
    data = b""
    while select.select([terminal], [], [], 0)[0] and (more := os.read(terminal, 4096)):
        data += more
    keys: list[KeyPress] = []
    typed = _take_background(data.decode("utf-8", "replace"), choose_colours)
    Vt100Parser(keys.append).feed(typed.replace("\n", "\r"))
    return keys


@lru_cache(maxsize=256)
def _parse_colours(line: str) -> StyleAndTextTuples:
    return to_formatted_text(ANSI(line))


def get_size() -> tuple[int, int]:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return columns or 80, rows or 24


def fills_screen(lines: Sequence[str]) -> bool:
    """Whether the lines take more rows than the terminal has beside the prompt."""
    columns, rows = get_size()
    return sum(max(1, -(-measure_width(line) // columns)) for line in lines) > rows - PROMPT_ROWS
