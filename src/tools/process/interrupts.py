"""Keeps a signal from separating the start of a process from what ends it."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any


class HeldInterrupts:
    """Holds back Ctrl-C and the signals that end the program until the end of the block.

    In `allowed` the first one raises what its handler raises; the next ones are held again, so that a process that
    was interrupted is ended whatever comes. Only the main thread gets signals: elsewhere it does nothing.
    """

    def __init__(self) -> None:
        self._handlers: dict[int, Callable[[int, FrameType | None], Any]] = {}
        self._held: list[int] = []
        self._are_allowed = False

    def __enter__(self) -> HeldInterrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            handler = signal.getsignal(number)
            if callable(handler):  # the others raise nothing
                try:
                    signal.signal(number, self._receive)
                except ValueError:  # not the main thread
                    break
                self._handlers[number] = handler
        return self

    @contextmanager
    def allowed(self) -> Iterator[None]:
        try:
            self._are_allowed = True
            if self._held:
                signal.raise_signal(self._held.pop(0))
            yield
        finally:
            self._are_allowed = False

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(self._held):
            signal.raise_signal(number)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._are_allowed:
            self._are_allowed = False
            self._handlers[number](number, frame)
        else:
            self._held.append(number)
