"""The editor, as the threads of turns see it: updates go to it in order, and questions come back as futures."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from .greeting import EditorAbilities

T = TypeVar("T")


class Editor:
    """`client`: the SDK's connection. Its methods are coroutines of `loop`, and no other thread may run them."""

    def __init__(self, client: Any, loop: asyncio.AbstractEventLoop, abilities: EditorAbilities) -> None:
        self.client = client
        self.abilities = abilities
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start the coroutine in the event loop, from any thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def show(self, session_id: str, *updates: Any) -> None:
        """Send the updates and wait until they are written, so that a slow editor slows the turn and nothing else.

        Not for the event loop's own thread.
        """
        for update in updates:
            self.run(self.client.session_update(session_id, update)).result()
