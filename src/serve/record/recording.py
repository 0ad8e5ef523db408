"""Notes one call of the API as it goes: what the server answered, and what the client got. No I/O.

A turn is a generator of effects and outputs (../chat_turn.py). `follow` passes all of them on and keeps the pieces, so
that a chunk costs one append; what they say is read when the line is written (entry.py).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from ...errors import BotError, Cancelled
from ...negotiation.facts import FactStore
from ...types.effects import Fetch, Open, Read, ReplyHead
from ..chat_request import ChatBody
from ..chat_turn import ChatTurn, GatewayTurn, Payload, WholeAnswer
from ..conversation import Conversation
from ..report import Report
from .reader_facts import describe_facts

VERSION_PATH = "/version"
Ending = Literal["whole", "broken", "cancelled"]


class UpstreamExchange(Struct):
    """A request to the server, and what it answered. `error`: the class in errors.py of what ended the answer.

    `is_aside`: it was asked besides the answer that the client waits for.
    """

    method: str
    path: str
    status: int = 0
    content_type: str = ""
    pieces: list[bytes] = []
    is_over: bool = False
    is_aside: bool = False
    error: str = ""
    message: str = ""


class Recording(Struct):
    """`api`: the path behind /v1/. `key`: the name of the client's key. `began_at`: seconds since 1970.

    `sent`: the data of the events that the client got, or the body of a whole answer, as a chat completion's.
    `ended`: as the client saw it. `facts`: what was known of the server. `reader`: the settings of the turn.
    """

    api: str
    key: str
    began_at: float
    request_bytes: int = 0
    chat: ChatBody | None = None
    conversation: Conversation | None = None
    report: Report = field(default_factory=Report)
    server: str = ""
    status: int = 0
    ended: Ending = "cancelled"
    exchanges: list[UpstreamExchange] = []
    sent: list[bytes] = []
    facts: dict[str, Any] = {}
    reader: dict[str, Any] = {}

    @property
    def size(self) -> int:
        """In bytes, about."""
        pieces = sum(len(piece) for exchange in self.exchanges for piece in exchange.pieces)
        return self.request_bytes + pieces + sum(map(len, self.sent))

    def begin(self, path: str) -> None:
        """Another attempt to answer the call begins: what was noted of the one before it is dropped."""
        self.exchanges, self.sent, self.facts, self.ended = [], [], {}, "cancelled"
        self.report = Report(path=path)

    def follow(self, turn: ChatTurn, steps: GatewayTurn, facts: FactStore) -> GatewayTurn:
        """The steps of the turn, noted. `facts`: of its server."""
        self.begin("")
        self.report, self.server = turn.report, turn.fact_key.address
        try:
            yield from self._note_steps(turn, steps, facts)
        except Cancelled:
            raise
        except Exception:
            self.ended = "broken"
            raise
        finally:
            steps.close()

    def _note_steps(self, turn: ChatTurn, steps: GatewayTurn, facts: FactStore) -> GatewayTurn:
        try:
            step = next(steps)
            while True:
                if not self.facts and not (isinstance(step, Fetch) and step.path == VERSION_PATH):
                    self.facts = describe_facts(facts, turn.fact_key)  # the key has the version by now
                if isinstance(step, Payload):  # it is noted before it leaves: the client may be gone by then
                    self.sent += step.events
                elif isinstance(step, WholeAnswer):
                    self.sent.append(step.body)
                    self.ended = "whole"
                try:
                    answer = yield step
                except BotError as error:
                    self._note_failure(step, error)
                    step = steps.throw(error)
                else:
                    self._note(step, answer)
                    step = steps.send(answer)
        except StopIteration:
            self.ended = "whole"

    def _note(self, step: object, answer: Any) -> None:
        if isinstance(step, Read) and self.exchanges:
            if answer:
                self.exchanges[-1].pieces.append(answer)
            else:
                self.exchanges[-1].is_over = True
        elif isinstance(step, Open):
            self.open(step.method, step.path, answer)
        elif isinstance(step, Fetch):
            exchange = self.open(step.method, step.path, answer.head)
            exchange.pieces.append(answer.body)
            exchange.is_over = exchange.is_aside = True

    def _note_failure(self, step: object, error: BotError) -> None:
        if isinstance(step, (Open, Fetch)):
            self.exchanges.append(UpstreamExchange(step.method, step.path))
        if isinstance(step, (Open, Fetch, Read)) and self.exchanges and not isinstance(error, Cancelled):
            self.exchanges[-1].error, self.exchanges[-1].message = type(error).__name__, str(error)

    def end_relay(self) -> None:
        """A relayed answer has ended as the server ended it."""
        self.exchanges[-1].is_over, self.ended = True, "whole"

    def open(self, method: str, path: str, head: ReplyHead) -> UpstreamExchange:
        """An answer of the server begins."""
        exchange = UpstreamExchange(method, path, head.status, head.content_type)
        self.exchanges.append(exchange)
        return exchange
