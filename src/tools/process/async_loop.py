"""An event loop in a thread of its own, in which synchronous code runs coroutines.

The thread starts with the first coroutine and ends at `close`: a task that would exit the program or stop the loop ends
alone. It is a daemon thread, so that code which hangs does not delay the exit of the program. Ctrl-C and the
cancellation of a call end the waiting for a coroutine and cancel it.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import ToolError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

T = TypeVar("T")
POLL_S = 0.05  # between checks for cancellation
CANCEL_GRACE_S = 1.0  # for a cancelled coroutine to end
CANCELLED = "it was cancelled"


class AsyncLoop:
    """The loop; it starts when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()  # the thread of the loop runs nothing more

    def is_current_thread(self) -> bool:
        """Whether the caller runs in the thread of the loop, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine without waiting for it."""
        return self._start(work)[0]

    def run(self, work: Coroutine[Any, Any, T], cancelled: threading.Event, timeout: float | None = None) -> T:
        """Run a coroutine. Raises what it raises, and ToolError if it is cancelled or takes longer than `timeout` s."""
        from concurrent.futures import CancelledError, wait

        future, ended = self._start(work)
        left = float("inf") if timeout is None else timeout
        try:
            while not wait([future], min(POLL_S, left)).done:
                left -= POLL_S
                if cancelled.is_set() or ended.is_set():
                    raise ToolError(CANCELLED)
                if left <= 0:
                    raise ToolError(f"it took longer than {timeout:g} s")
            return future.result()
        except CancelledError as error:
            raise ToolError(CANCELLED) from error
        finally:
            if not future.done() and not ended.is_set():
                future.cancel()

    def close(self) -> None:
        """Cancel what still runs, and end the thread; takes up to twice CANCEL_GRACE_S."""
        with self._lock:
            loop, thread, ended, self._loop = self._loop, self._thread, self._ended, None
        if loop is None or thread is None or ended.is_set():
            return
        import asyncio

        async def cancel_all() -> None:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest, timeout=CANCEL_GRACE_S)
            ended.set()
            loop.stop()

        asyncio.run_coroutine_threadsafe(cancel_all(), loop)
        thread.join(2 * CANCEL_GRACE_S)

    def _start(self, work: Coroutine[Any, Any, T]) -> tuple[Future[T], threading.Event]:
        """The work, and what is set when the loop that it runs in has ended."""
        import asyncio  # 60 ms that only async tools cost

        with self._lock:  # so `close` cancels all that was started before it
            if self._loop is None or self._ended.is_set():
                self._loop, self._ended = asyncio.new_event_loop(), threading.Event()
                arguments = self._loop, self._ended
                self._thread = threading.Thread(target=_run_loop, args=arguments, daemon=True, name="async tools")
                self._thread.start()
            return asyncio.run_coroutine_threadsafe(work, self._loop), self._ended


class CurrentLoop(AsyncLoop):
    """The event loop of the caller's program, which neither starts nor ends here."""

    def __init__(self) -> None:
        import asyncio

        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()

    def close(self) -> None:
        """It belongs to the program."""


def _run_loop(loop: AbstractEventLoop, ended: threading.Event) -> None:
    """The thread closes its loop, however long after `close` a coroutine that hangs comes to an end."""
    try:
        while not ended.is_set():
            with suppress(SystemExit, KeyboardInterrupt):  # the outcome of the task that raised it, and no one else's
                loop.run_forever()
    finally:
        ended.set()
        loop.close()
