"""The answer to a question while it comes: events to iterate, which can be left at any time.

Leaving a run, by `break`, `close`, an exception or a cancelled task, ends the server's answer, and the conversation
can go on.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import closing
from threading import get_ident
from types import GeneratorType
from typing import Any, NoReturn, cast

from ...errors import BotError, Cancelled
from ...tools import ToolContext
from ...transport import CANCELLED, Client
from ...transport.driver import drive
from ...types.events import Event
from .exchange import Exchange
from .result import Result
from .wording import rewording

LEFT = "This run was left before its end."
READ_TWICE = "This run is read in another thread or task already."


class Run:
    """Iterate it for events; it is a context manager, which closes it. What ends it early raises BotError in `for`."""

    def __init__(self, exchange: Exchange, client: Client, context: ToolContext) -> None:
        self._exchange = exchange
        self._events = cast("GeneratorType[Event, None, None]", _follow(exchange, client, context))
        self._closer: int | None = None  # the thread that closed it

    def __iter__(self) -> Iterator[Event]:
        self._check_idle()
        try:
            yield from self._events
            if self._closer not in (None, get_ident()) and not self._exchange.is_answered:
                raise Cancelled(CANCELLED)  # closed between two events
        finally:
            self.close()

    def __aiter__(self) -> NoReturn:
        raise TypeError("Run is not asynchronous. Use `for`, or an agent of AsyncServer.")

    def finish(self) -> Result[Any]:
        """Wait for its end. Raises BotError, as iterating does."""
        with self:
            for _ in self._events:
                pass
        return self.result

    def __next__(self) -> Event:
        self._check_idle()
        return next(self._events)

    def _check_idle(self) -> None:
        if self._events.gi_running:
            raise BotError(READ_TWICE)

    @property
    def result(self) -> Result[Any]:
        """What came of it. Raises BotError if it is not over."""
        return get_result(self._exchange)

    def close(self) -> None:
        """Leave it: the server's answer ends at once."""
        self._closer = get_ident() if self._closer is None else self._closer
        self._exchange.is_over = True
        try:
            self._events.close()
        except ValueError:  # it runs in another thread
            self.cancel()

    def cancel(self) -> None:
        """Stop it from another thread: who iterates gets Cancelled. After its end, nothing happens."""
        self._exchange.cancelled.set()

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _follow(exchange: Exchange, client: Client, context: ToolContext) -> Generator[Event, None, None]:
    exchange.open()
    client.bind_cancellation(exchange.cancelled)
    try:
        with (
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


class AsyncOnly:
    """What is used with `async for` and `async with`, and says so."""

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is asynchronous. Use `async for`, or an agent of Server.")

    def __enter__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is asynchronous. Use `async with`, or Server.")

    def __exit__(self, *_: object) -> None:
        """Without it, Python has an error of its own."""


def get_result(exchange: Exchange) -> Result[Any]:
    if not exchange.is_over:
        raise BotError("The run is not over, so it has no result yet.", "Iterate it to its end first.")
    if not exchange.is_answered:
        raise BotError(LEFT, "Its events so far are what there is.")
    return exchange.result
