"""An event loop in a thread of its own, so that async code runs under a loop that is not async.

The thread starts with the first coroutine and ends at `close`; it is a daemon, so that code which hangs
holds up nobody's exit. Whoever waits for a coroutine stops waiting, and cancels it, at Ctrl-C and when the
call is cancelled.
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
TICK = 0.05  # seconds between looks at the cancellation
GRACE = 1.0  # seconds that a cancelled coroutine has to tidy up


class Background:
    """The loop, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def is_here(self) -> bool:
        """Whether the caller itself runs in the loop's thread, where nobody may wait for the loop."""
        return threading.current_thread() is self._thread

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Begin a coroutine and wait for nothing."""
        import asyncio  # 60 ms that only async tools cost

        return asyncio.run_coroutine_threadsafe(work, self._started())

    def run(self, work: Coroutine[Any, Any, T], cancelled: threading.Event, timeout: float | None = None) -> T:
        """What the coroutine returns or raises; ToolError where it was cancelled or took longer than `timeout` s."""
        from concurrent.futures import wait

        future = self.start(work)
        left = float("inf") if timeout is None else timeout
        try:
            while not wait([future], min(TICK, left)).done:
                left -= TICK
                if cancelled.is_set():
                    raise ToolError("it was cancelled")
                if left <= 0:
                    raise ToolError(f"it took longer than {timeout:g} s")
            return future.result()
        finally:
            if not future.done():
                future.cancel()

    def close(self) -> None:
        """End the thread; what still runs in it is cancelled and given a moment."""
        with self._lock:
            loop, thread, self._loop = self._loop, self._thread, None
        if loop is None or thread is None:
            return
        import asyncio

        async def end() -> None:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            if rest:
                await asyncio.wait(rest, timeout=GRACE)
            loop.stop()

        asyncio.run_coroutine_threadsafe(end(), loop)
        thread.join(2 * GRACE)

    def _started(self) -> AbstractEventLoop:
        import asyncio

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), daemon=True, name="async tools")
                self._thread.start()
            return self._loop


def _serve(loop: AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()
