"""A chat on a full terminal: the prompt between turns, the live screen and the key reader during a turn.

The terminal is restored however a turn ends, and while the program is suspended.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from ...render.live import LiveScreen
from ..slash.info import format_status_line
from ..state import State
from .key_reader import KeyReader
from .prompt import ChatPrompt

if TYPE_CHECKING:
    from ...render.markdown import MarkdownRenderer


def make_live_screen() -> LiveScreen:
    """The screen of a full terminal, drawn on standard output."""
    return LiveScreen(sys.stdout, _get_size, _make_renderer)


class Terminal:
    """The terminal of one chat. `folder` is where the history is saved."""

    def __init__(self, state: State, live: LiveScreen, folder: Path | None) -> None:
        self._state = state
        self._live = live
        self._prompt = ChatPrompt(state, folder, live.expand, lambda: format_status_line(state, _get_size()[0]))
        self._keys = KeyReader(sys.stdin.fileno(), live.typed, self._handle_actions, live.draw_frame, self._write)

    def read(self, _prompt: str) -> str:
        """Read a message. Raises EOFError and KeyboardInterrupt, as input() does."""
        return self._prompt.read()

    def ask(self, question: str, default: str = "") -> str:
        """Ask for a line during a turn; what was typed before is discarded."""
        return self._prompt.ask(question, default)

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Collect keys for the next message, and draw in place, while the model works."""
        live, typed = self._live, self._live.typed
        typed.text, self._state.draft = (
            self._state.draft,
            "",
        )  # the line begun in the last turn, if this message was queued
        typed.feed(self._prompt.take_typed_ahead())
        live.begin()
        try:
            with self._defer_signals():
                try:
                    with live.hold_signals():
                        self._keys.start()
                    yield
                finally:
                    with live.hold_signals():
                        self._keys.stop()
        except BaseException:
            typed.text = typed.take_unsent()  # the user decides anew what to send
            raise
        finally:
            live.end()
            for each in typed.queue:
                self._prompt.remember(each)
            self._state.queue += typed.queue
            self._state.draft, typed.queue, typed.text = typed.text, [], ""

    @contextlib.contextmanager
    def no_echo(self) -> Iterator[None]:
        """Do not echo keys while a command runs; the prompt reads them afterwards."""
        self._keys.enter_raw_mode()
        try:
            yield
        finally:
            self._keys.leave_raw_mode()

    @contextlib.contextmanager
    def pause(self) -> Iterator[None]:
        """Restore the terminal's normal mode during a turn, for a question or another program."""
        running = self._keys.is_reading
        with self._live.hold_signals():
            self._keys.stop()
            self._live.hide()
        try:
            yield
        finally:
            with self._live.hold_signals():
                self._live.redraw()
                if running:
                    self._keys.start()

    def _handle_actions(self) -> None:
        actions, self._live.typed.actions = self._live.typed.actions, []
        for action in actions:
            if action == "stop":
                os.kill(os.getpid(), signal.SIGINT)
            elif action == "expand":
                self._live.expand()
            elif action == "mode":
                self._state.switch_to_next_mode()
                self._live.say(f"  mode {self._state.mode}")
            else:
                self._live.redraw()
        self._live.draw_frame(now=True)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    @contextlib.contextmanager
    def _defer_signals(self) -> Iterator[None]:
        """Let Ctrl-C and Ctrl-Z wait for the end of a drawing."""

        def handler(action: Callable[[], None]) -> Callable[[int, FrameType | None], None]:
            return lambda _number, _frame: self._live.call_when_drawn(action)

        actions = {signal.SIGINT: _raise_interrupt, signal.SIGTSTP: self._suspend}
        before = {number: signal.signal(number, handler(action)) for number, action in actions.items()}
        try:
            yield
        finally:
            for number, action in before.items():
                signal.signal(number, action)

    def _suspend(self) -> None:
        """Restore the terminal until fg. During a pause it is in its normal mode already."""
        if not self._keys.is_reading:
            os.kill(os.getpid(), signal.SIGSTOP)
            return
        with self._live.hold_signals(), self._live.lock:  # the key reader's thread draws nothing
            self._live.hide()
            self._keys.leave_raw_mode()
            os.kill(os.getpid(), signal.SIGSTOP)
            self._keys.enter_raw_mode()
            self._live.redraw()


def _raise_interrupt() -> None:
    raise KeyboardInterrupt


def _make_renderer() -> MarkdownRenderer:
    from rich.console import Console

    from ...render.markdown import MarkdownRenderer

    return MarkdownRenderer(Console(file=sys.stdout).color_system)


def _get_size() -> tuple[int, int]:
    try:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        return 80, 24
    return columns or 80, rows or 24
