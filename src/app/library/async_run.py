"""As run.py, for asyncio."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from types import AsyncGeneratorType
from typing import Any, cast

from ...errors import BotError, Cancelled
from ...tools import ToolContext
from ...tools.sdk.async_calls import AsyncCallRunner
from ...transport import CANCELLED
from ...transport.async_driver import AsyncCancellation, drive_async
from ...transport.async_http import AsyncClient
from ...types.events import Event
from .exchange import READ_TWICE, AsyncOnly, BaseRun, Exchange, ValueT
from .result import Result
from .wording import rewording


class AsyncRun(AsyncOnly, BaseRun[ValueT]):
    """As Run, for asyncio. A task that is cancelled ends it, too."""

    def __init__(
        self,
        exchange: Exchange,
        client: AsyncClient,
        context: ToolContext,
        runner: AsyncCallRunner,
        previous: AsyncRun[Any] | None,
    ) -> None:
        super().__init__(exchange)
        self._previous = previous
        self._client = client
        self._context = context
        self._runner = runner
        self._cancellation = AsyncCancellation(self._end_calls)
        self._closing = asyncio.Lock()
        self._iterator: weakref.ref[object] | None = None
        self._events = cast("AsyncGeneratorType[Event, None]", self._follow())

    def __aiter__(self) -> AsyncIterator[Event]:
        iterator = self._iterate()
        self._iterator = weakref.ref(iterator)
        return iterator

    async def finish(self) -> Result[ValueT]:
        """Wait for its end. Raises BotError, as iterating does."""
        self._check_idle()
        async with self:
            async for _ in self._events:
                pass
        return self.result

    async def __anext__(self) -> Event:
        self._check_idle()
        return await anext(self._events)

    def _check_idle(self) -> None:
        if self._events.ag_running:
            raise BotError(READ_TWICE)

    @property
    def _was_left(self) -> bool:
        """Whether the `async for` over it has ended, while the event loop has not closed it yet."""
        return self._iterator is not None and self._iterator() is None

    async def close(self) -> None:
        """Leave it: the server's answer ends at once."""
        self._exchange.is_over = True
        if self._events.ag_running and not self._closing.locked():  # in another task
            self.cancel()
            return
        async with self._closing:
            await self._events.aclose()

    def cancel(self) -> None:
        """Stop it from another task or thread: who iterates gets Cancelled. After its end, nothing happens."""
        super().cancel()
        self._cancellation.cancel()

    async def __aenter__(self) -> AsyncRun[ValueT]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _iterate(self) -> AsyncGenerator[Event, None]:
        """Where a `break` drops it, the event loop closes it."""
        self._check_idle()
        try:
            async for event in self._events:
                yield event
        finally:
            await self.close()

    async def _follow(self) -> AsyncGenerator[Event, None]:
        exchange, previous, self._previous = self._exchange, self._previous, None
        if previous and previous._was_left:
            await previous.close()
        exchange.open()
        try:
            async with self._context.for_async_run(exchange.cancelled) as ctx:
                steps: AsyncGenerator[Event, None] = drive_async(exchange.run(ctx), self._client, self._cancellation)
                with exchange.limiting(), rewording():
                    async with aclosing(steps) as events:
                        async for event in events:
                            yield exchange.see(event)
                            if exchange.cancelled.is_set():
                                raise Cancelled(CANCELLED)
            exchange.is_answered = True
        finally:
            exchange.close()

    async def _end_calls(self) -> None:
        self._exchange.cancelled.set()
        await self._runner.end()
