"""The editor, as the threads of turns see it: updates go to it in order, and questions come back as futures."""

from __future__ import annotations

from collections.abc import Coroutine
from concurrent.futures import Future
from threading import Event as CancelToken
from typing import TYPE_CHECKING, Any, TypeVar

from ..tools.process.async_loop import CurrentLoop
from .greeting import EditorAbilities

if TYPE_CHECKING:
    from acp import Client

T = TypeVar("T")


class Editor:
    """`client`: the SDK's connection. Its methods are coroutines of this event loop, and no other may run them."""

    def __init__(self, client: Client, abilities: EditorAbilities) -> None:
        self.client = client
        self.abilities = abilities
        self._loop = CurrentLoop()

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine in the event loop, from any thread."""
        return self._loop.start(work)

    def ask(self, work: Coroutine[Any, Any, T], cancelled: CancelToken, timeout: float) -> T:
        """Run it and wait for its end. Raises what it raises, and ToolError if it is cancelled or takes too long.

        Not for the event loop's own thread.
        """
        return self._loop.run(work, cancelled, timeout)

    def show(self, session_id: str, *updates: Any) -> None:
        """Send the updates and wait until they are written, so that a slow editor slows the turn and nothing else.

        Not for the event loop's own thread.
        """
        for update in updates:
            self.run(self.client.session_update(session_id, update)).result()
