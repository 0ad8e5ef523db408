"""Terminal modes."""

from __future__ import annotations

import termios

_INPUT, _LOCAL, _CONTROL = 0, 3, 6  # of what tcgetattr gives


def unecho(terminal: int) -> None:
    """Keys arrive one by one, unchanged and without echo; Ctrl-C and Ctrl-Z stay signals. Raises termios.error."""
    mode = termios.tcgetattr(terminal)
    mode[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
    mode[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    mode[_CONTROL] = [*mode[_CONTROL]]
    mode[_CONTROL][termios.VMIN], mode[_CONTROL][termios.VTIME] = 1, 0
    termios.tcsetattr(terminal, termios.TCSANOW, mode)
