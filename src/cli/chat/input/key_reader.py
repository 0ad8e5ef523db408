"""Read keys in a thread while the model works, without echo.

Ctrl-C stays a signal for the main thread. The terminal is always restored.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import select
import termios
import threading
from collections.abc import Callable
from typing import Any

from .keys import TypedInput

POLL_S = 0.1  # between ticks of the clock
_INPUT, _LOCAL, _CONTROL = 0, 3, 6  # indexes into the list of tcgetattr
BRACKETED_PASTE_ON, BRACKETED_PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"


class KeyReader:
    """Feeds keys to `typed`. Calls `changed` after each read, and `tick` every POLL_S without one."""

    def __init__(
        self,
        terminal: int,
        typed: TypedInput,
        changed: Callable[[], None],
        tick: Callable[[], None],
        write: Callable[[str], Any],
    ) -> None:
        self._terminal = terminal
        self._typed = typed
        self._changed = changed
        self._tick = tick
        self._write = write
        self._before: list[Any] | None = None
        self._thread: threading.Thread | None = None
        self._wake = -1

    @property
    def is_reading(self) -> bool:
        return self._thread is not None

    def start(self) -> None:
        self.enter_raw_mode()
        listening, self._wake = os.pipe()
        self._thread = threading.Thread(target=self._listen, args=(listening,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        if self._thread is None:
            return
        os.close(self._wake)
        self._thread.join()
        self._thread = None
        self.leave_raw_mode()

    def enter_raw_mode(self) -> None:
        """Turn off echo and line editing."""
        with contextlib.suppress(termios.error):
            self._before = termios.tcgetattr(self._terminal)
            disable_echo(self._terminal)
        self._write(BRACKETED_PASTE_ON)

    def leave_raw_mode(self) -> None:
        with contextlib.suppress(termios.error, OSError):  # the terminal is gone
            if self._before is not None:
                termios.tcsetattr(self._terminal, termios.TCSANOW, self._before)
            self._write(BRACKETED_PASTE_OFF)

    def _listen(self, woken: int) -> None:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        try:
            while True:
                ready, _, _ = select.select([self._terminal, woken], [], [], POLL_S)
                if woken in ready:
                    return
                if ready:
                    data = os.read(self._terminal, 4096)
                    if not data:
                        return
                    self._typed.feed(decode(data))
                    self._changed()
                else:
                    self._typed.end_escape()
                    self._changed() if self._typed.actions else self._tick()
        except OSError:  # the terminal is gone; a signal ends the program
            return
        finally:
            os.close(woken)


def disable_echo(terminal: int) -> None:
    """Make keys arrive one by one, unchanged, without echo. Ctrl-C and Ctrl-Z stay signals. Raises termios.error."""
    mode = termios.tcgetattr(terminal)
    mode[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
    mode[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    mode[_CONTROL] = [*mode[_CONTROL]]
    mode[_CONTROL][termios.VMIN], mode[_CONTROL][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
