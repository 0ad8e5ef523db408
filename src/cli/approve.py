"""Asking the person at the terminal whether a call may run. What is shown is all of what would run."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TextIO

from ..messages import JSON
from ..security.approval import Answer, Request
from ..security.sanitise import revealed

INDENT = "    "
YES = Answer(True)
NO = Answer(False, "the user said no. Ask what to do instead, or go on without it.")


class AtTerminal:
    """An Approver that asks y/n. Only y or yes, typed after the question, is a yes."""

    def __init__(self, read: Callable[[], str] = input, aside: TextIO | None = None) -> None:
        self._read = read
        self._aside = aside or sys.stderr

    def approve(self, request: Request) -> Answer:
        print(f"  {revealed(request.call.name)} wants to run ({request.reason}):", file=self._aside)
        for name, value in request.call.arguments.items():
            print(_shown(name, value), file=self._aside)
        _forget_typed_ahead()
        # Not as input()'s prompt: that goes to standard output, where a script may read the answer.
        print("  Run it? [y/N] ", end="", file=self._aside, flush=True)
        try:
            answer = self._read()
        except EOFError:
            print(file=self._aside)
            return NO
        return YES if answer.strip().lower() in ("y", "yes") else NO


def _shown(name: str, value: JSON) -> str:
    text = revealed(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if "\n" not in text:
        return f"{INDENT}{revealed(name)}: {text}"
    lines = "\n".join(f"{INDENT}| {line}" for line in text.split("\n"))
    return f"{INDENT}{revealed(name)}:\n{lines}"


def _forget_typed_ahead() -> None:
    """What was typed before the question is no answer to it."""
    try:
        import termios
    except ImportError:  # Windows
        return
    try:
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
    except (termios.error, ValueError, OSError):  # no terminal: nothing was typed
        return
