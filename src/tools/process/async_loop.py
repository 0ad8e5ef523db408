"""An event loop in a thread of its own, in which synchronous code runs coroutines.

The thread starts with the first coroutine and ends at `close`. It is a daemon thread, so that code which hangs does
not delay the exit of the program. Ctrl-C and the cancellation of a call end the waiting for a coroutine and cancel it.
"""

from __future__ import annotations

import threading
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import ToolError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from concurrent.futures import Future

T = TypeVar("T")
POLL_S = 0.05  # between checks for cancellation
CANCEL_GRACE_S = 1.0  # for a cancelled coroutine to end


class AsyncLoop:
    """The loop; it starts when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_current_thread(self) -> bool:
        """Whether the caller runs in the thread of the loop, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start a coroutine without waiting for it."""
        import asyncio  # 60 ms that only async tools cost

        return asyncio.run_coroutine_threadsafe(work, self._ensure_started())

    def run(self, work: Coroutine[Any, Any, T], cancelled: threading.Event, timeout: float | None = None) -> T:
        """Run a coroutine. Raises what it raises, and ToolError if it is cancelled or takes longer than `timeout` s."""
        from concurrent.futures import wait

        future = self.start(work)
        left = float("inf") if timeout is None else timeout
        try:
            while not wait([future], min(POLL_S, left)).done:
                left -= POLL_S
                if cancelled.is_set():
                    raise ToolError("it was cancelled")
                if left <= 0:
                    raise ToolError(f"it took longer than {timeout:g} s")
            return future.result()
        finally:
            if not future.done():
                future.cancel()

    def close(self) -> None:
        """Cancel what still runs, and end the thread; takes up to twice CANCEL_GRACE_S."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        import asyncio

        async def cancel_all() -> None:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest, timeout=CANCEL_GRACE_S)
            loop.stop()

        asyncio.run_coroutine_threadsafe(cancel_all(), loop)
        thread.join(2 * CANCEL_GRACE_S)

    def _ensure_started(self) -> AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_run_loop, args=(self._loop,), daemon=True, name="async tools")
                self._thread.start()
            return self._loop


class CurrentLoop(AsyncLoop):
    """The event loop of the caller's program, which neither starts nor ends here."""

    def __init__(self) -> None:
        import asyncio

        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.current_thread()

    def close(self) -> None:
        """It belongs to the program."""


def _run_loop(loop: AbstractEventLoop) -> None:
    """The thread closes its loop, however long after `close` a coroutine that hangs comes to an end."""
    try:
        loop.run_forever()
    finally:
        loop.close()
