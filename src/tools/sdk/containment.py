"""Keep a tool's code from ending the program or writing into its output.

What a tool prints goes to standard error, in its own thread, in its coroutines and in asyncio.to_thread, while other
threads print where they always do. What a tool raises to end more than itself, such as SystemExit, KeyboardInterrupt or
CancelledError, is an error of that tool. What a signal causes is not: signals are handled in the main thread only, so
there the handlers note that one has come, and call those that were there before.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any, TypeVar

from ...errors import ToolError
from ...signals import ENDING_SIGNALS

T = TypeVar("T")
SIGNALS = [signal.SIGINT, *ENDING_SIGNALS, *([signal.SIGALRM] if hasattr(signal, "SIGALRM") else [])]
Handler = Callable[[int, "FrameType | None"], object]

_in_tool: ContextVar[bool] = ContextVar("in_tool", default=False)
_lock = threading.Lock()
_open_calls = 0


@contextmanager
def contain() -> Iterator[None]:
    """Run a tool's code in this block. Raises ToolError where the code would end the program."""
    with _redirect_prints(), _note_signals() as received:
        try:
            yield
        except BaseException as error:
            if received or isinstance(error, Exception):
                raise
            raise _to_tool_error(error) from error


async def contain_coroutine(work: Awaitable[T]) -> T:
    """As contain, for a coroutine of a tool. In the main thread a KeyboardInterrupt is taken for Ctrl-C."""
    with _redirect_prints():
        try:
            return await work
        except SystemExit as error:
            raise _to_tool_error(error) from error
        except KeyboardInterrupt as error:
            if threading.current_thread() is threading.main_thread():
                raise
            raise _to_tool_error(error) from error


def _to_tool_error(error: BaseException) -> ToolError:
    return ToolError(f"{type(error).__name__}: {error}")


class _PrintRouter:
    """Stands in for sys.stdout while calls run: standard error for code of a tool, else what was there before."""

    def __init__(self, stdout: Any) -> None:
        self.stdout = stdout

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _in_tool.get() else self.stdout, name)


@contextmanager
def _redirect_prints() -> Iterator[None]:
    global _open_calls
    token = _in_tool.set(True)
    with _lock:
        _open_calls += 1
        if sys.stdout is not None and not isinstance(sys.stdout, _PrintRouter):
            sys.stdout = _PrintRouter(sys.stdout)
    try:
        yield
    finally:
        _in_tool.reset(token)
        with _lock:
            _open_calls -= 1
            if not _open_calls and isinstance(sys.stdout, _PrintRouter):
                sys.stdout = sys.stdout.stdout


@contextmanager
def _note_signals() -> Iterator[list[int]]:
    """The signals that come during the block and that a handler of the program handles."""
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def note(handler: Handler) -> Handler:
        def handle(number: int, frame: FrameType | None) -> None:
            received.append(number)
            handler(number, frame)

        return handle

    handlers = {number: handler for number in SIGNALS if callable(handler := signal.getsignal(number))}
    own = {number: note(handler) for number, handler in handlers.items()}
    for number, handler in own.items():
        signal.signal(number, handler)
    try:
        yield received
    finally:
        for number, handler in handlers.items():
            if signal.getsignal(number) is own[number]:  # else the tool has set one, which stays
                signal.signal(number, handler)
