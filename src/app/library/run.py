"""The answer to a question while it comes: events to iterate, which can be left at any time.

Leaving a run, by `break`, `close`, an exception or a cancelled task, ends the server's answer, and the conversation
can go on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from threading import Lock, get_ident
from typing import NoReturn

from ...errors import BotError, Cancelled
from ...tools import ToolContext
from ...transport import CANCELLED, Client
from ...transport.driver import drive
from ...types.events import Event
from .exchange import READ_TWICE, BaseRun, Exchange, ValueT
from .result import Result
from .wording import rewording


class Run(BaseRun[ValueT]):
    """Iterate it for events; it is a context manager, which closes it. What ends it early raises BotError in `for`."""

    def __init__(self, exchange: Exchange, client: Client, context: ToolContext) -> None:
        super().__init__(exchange)
        self._events = _follow(exchange, client, context)
        self._reading = Lock()
        self._closer: int | None = None  # the thread that closed it

    def __iter__(self) -> Iterator[Event]:
        self._check_idle()
        try:
            while (event := self._read()) is not None:
                yield event
            if self._closer not in (None, get_ident()) and not self._exchange.is_answered:
                raise Cancelled(CANCELLED)  # closed between two events
        finally:
            self.close()

    def __aiter__(self) -> NoReturn:
        raise TypeError("Run is not asynchronous. Use `for`, or an agent of AsyncServer.")

    def finish(self) -> Result[ValueT]:
        """Wait for its end. Raises BotError, as iterating does."""
        self._check_idle()
        with self:
            while self._read() is not None:
                pass
        return self.result

    def __next__(self) -> Event:
        if (event := self._read()) is None:
            raise StopIteration
        return event

    def _check_idle(self) -> None:
        if self._reading.locked():
            raise BotError(READ_TWICE)

    def _read(self) -> Event | None:
        """The next event; None at the end. Raises BotError, also where another thread reads."""
        if not self._reading.acquire(blocking=False):
            raise BotError(READ_TWICE)
        try:
            return next(self._events, None)
        finally:
            self._reading.release()

    def close(self) -> None:
        """Leave it: the server's answer ends at once."""
        if self._closer is None:
            self._closer = get_ident()
        self._exchange.is_over = True
        try:
            self._events.close()
        except ValueError:  # it runs in another thread
            self.cancel()

    def __enter__(self) -> Run[ValueT]:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _follow(exchange: Exchange, client: Client, context: ToolContext) -> Generator[Event, None, None]:
    exchange.open()
    client.bind_cancellation(exchange.cancelled)
    try:
        with (
            exchange.limiting(),
            rewording(),
            context.for_run(exchange.cancelled) as ctx,
            closing(drive(exchange.run(ctx), client)) as events,
        ):
            for event in events:
                yield exchange.see(event)
                if exchange.cancelled.is_set():
                    raise Cancelled(CANCELLED)
        exchange.is_answered = True
    finally:
        exchange.close()
