"""What the model's logic asks of the world, as values: a driver performs them, and no logic waits or reads.

A turn is a generator of effects and events. The driver sends the answer of an effect back into the generator; a
failed effect is raised at the `yield` (ClientError, Cancelled). One answer is open at a time: the next Open or Fetch,
and the end of the turn, end it. The agent's loop is such a generator too. See transport/driver.py.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

from msgspec import Struct

from .events import Event, ModelEvent

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

MIN_ERROR_STATUS = 400  # of HTTP


class Open(Struct, frozen=True):
    """Send a request whose answer is read in pieces. The answer is a ReplyHead.

    `path` is relative to the server's address, or with a leading slash to its root, above /v1.
    """

    method: str
    path: str
    body: bytes | None = None


class Read(Struct, frozen=True):
    """The answer is the next bytes of the open answer; None at its end."""


class Release(Struct, frozen=True):
    """The open answer is not read further; its connection may serve the next request. The answer is None."""


class Fetch(Struct, frozen=True):
    """Send a request and read its answer, which is a Reply. `within`: a limit for all of it, in seconds."""

    method: str
    path: str
    body: bytes | None = None
    within: float | None = None


class Sleep(Struct, frozen=True):
    """The answer is None."""

    seconds: float


class Await(Struct, frozen=True):
    """The answer is the result of the future, which another thread or task settles; what that raises is raised.

    `keeps_answer`: the open answer stays open meanwhile.
    """

    future: Future[Any]
    keeps_answer: bool = False


class ReplyHead(Struct, frozen=True):
    """`retry_after`: seconds that the server asks to wait. `headers`: all of them, where the gateway asks.

    `had_key`: an API key was sent with the request.
    """

    status: int
    content_type: str = ""
    location: str = ""
    retry_after: float | None = None
    headers: tuple[tuple[str, str], ...] = ()
    had_key: bool = False

    @property
    def is_error(self) -> bool:
        return self.status >= MIN_ERROR_STATUS

    @property
    def is_ok(self) -> bool:
        """Some gateways answer a POST with 201."""
        return 200 <= self.status < 300


class Reply(Struct, frozen=True):
    head: ReplyHead
    body: bytes


Effect = Union[Open, Read, Release, Fetch, Sleep, Await]
READ = Read()
EFFECTS = (Read, Open, Release, Fetch, Sleep, Await)

Aside: TypeAlias = Generator[Effect, Any, T]  # gives no events
Turn: TypeAlias = Generator[Union[Effect, ModelEvent], Any, T]  # of the model
AgentSteps: TypeAlias = Generator[Union[Effect, Event], Any, T]  # of the agent's loop
