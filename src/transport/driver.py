"""Runs the generators of the model's logic: performs their effects on one Client, and gives their events on.

The driver owns the open answer. It is ended when the generator asks for another one or ends, however it ends. A cancel
that another thread asks for is raised inside the generator by the driver's own thread, at its next effect or event;
after that the generator is closed.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar, overload

from ..errors import BotError, Cancelled, WireError
from ..types.effects import (
    EFFECTS,
    AgentSteps,
    Aside,
    Await,
    Effect,
    Fetch,
    Read,
    Release,
    Reply,
    Sleep,
    Turn,
)
from ..types.events import Event, ModelEvent
from .deadlines import CANCELLED
from .http import Client

T = TypeVar("T")
WAIT_INTERVAL_S = 0.05  # between looks whether a wait for another thread was cancelled


@overload
def drive(turn: Turn[T], client: Client) -> Generator[ModelEvent, None, T]: ...
@overload
def drive(turn: AgentSteps[T], client: Client) -> Generator[Event, None, T]: ...
def drive(turn: AgentSteps[T], client: Client) -> Generator[Event, None, T]:
    """The events of a turn, or of an agent's run; returns its result. Raises what it raises, Cancelled among it."""
    answers = _Answers(client)
    perform, is_cancelled = answers.perform, client.is_cancelled
    try:
        with naming_server(client.base_url):
            step = next(turn)
            while True:
                if is_cancelled():
                    step = turn.throw(Cancelled(CANCELLED))
                elif isinstance(step, EFFECTS):
                    try:
                        answer = perform(step)
                    except BotError as error:
                        step = turn.throw(error)
                    else:
                        step = turn.send(answer)
                else:
                    yield step
                    step = next(turn)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        turn.close()
        answers.abandon()


@contextmanager
def naming_server(base_url: str) -> Iterator[None]:
    """Name the server in the hint of a WireError: who reads the body does not know the address."""
    try:
        yield
    except WireError as error:
        error.add_hint(f"The server is {base_url}.")
        raise


def run(aside: Aside[T], client: Client) -> T:
    """The result of a generator that gives no events. Raises what it raises."""
    running = drive(aside, client)
    try:
        while True:
            next(running)
    except StopIteration as end:
        result: T = end.value
        return result


class _Answers:
    """Performs effects. At most one answer is open."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._opened = ExitStack()
        self._chunks: Iterator[bytes] = iter(())

    def perform(self, effect: Effect) -> Any:
        """Raises ClientError and Cancelled."""
        if isinstance(effect, Read):
            return next(self._chunks, None)
        if isinstance(effect, Release):
            return self._opened.close()  # its connection can be used again, where reading on takes no time
        if isinstance(effect, Await) and effect.keeps_answer:
            return self._wait_for(effect.future)
        self.abandon()
        if isinstance(effect, Await):
            return self._wait_for(effect.future)
        if isinstance(effect, Sleep):
            return self._client.sleep(effect.seconds)
        if isinstance(effect, Fetch):
            with self._client.open(effect.method, effect.path, effect.body, within=effect.within) as reply:
                return Reply(reply.head, reply.read())
        reply = self._opened.enter_context(self._client.open(effect.method, effect.path, effect.body))
        self._chunks = reply.chunks
        return reply.head

    def _wait_for(self, future: Future[Any]) -> Any:
        while not wait([future], WAIT_INTERVAL_S).done:
            if self._client.is_cancelled():
                raise Cancelled(CANCELLED)
        return future.result()

    def abandon(self) -> None:
        """End the open answer, if there is one, and its connection."""
        self._opened.__exit__(GeneratorExit, GeneratorExit(), None)
