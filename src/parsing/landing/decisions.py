"""What becomes of an answer while it is written: shown, held, dropped, or a call that leaves piece by piece. Pure.

The chat, the gateway and the plugin render these decisions. The laws:

- The texts and blocks of the decisions, joined in order, are the parser's: nothing is lost.
- Nothing behind a call comes before it. Calls have the order in which the model wrote them.
- What was decided is never taken back. The pieces of a call, joined, are the JSON text of its arguments.
- A call begins only where it is certain: its block asks for a call of an offered tool, the text before it does not
  present it as an example or a quotation, and a string of MIN_PROOF_CHARS characters in it stands in no given text,
  so that it is no echo. A shorter call comes whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Protocol, Union

from msgspec import Struct
from msgspec.structs import replace

from ...types.events import ReasoningDelta, TextDelta, ToolCallDelta
from ...types.messages import MalformedCall, ToolCall
from ..arguments.tool_index import ToolIndex
from ..echo import GivenText
from ..events import Cut, Doubted, Malformed, ParsedCall, ParserEvent, Reasoned, is_safe, is_silent

if TYPE_CHECKING:
    from ..decode.tag_style import TagStyle
    from .begun_call import BegunCall


class Show(Struct, frozen=True):
    """Text of the answer, or of a thought."""

    text: str
    is_thought: bool = False


class Mark(Struct, frozen=True):
    """A marker of a thought before any call: `raw` is no text of the answer. `ends_thought`: which nothing began."""

    raw: str
    ends_thought: bool = False


class Drop(Struct, frozen=True):
    """What is neither text nor call: markers of calls alone, and behind a call what closes it and made-up results."""

    raw: str


class Hold(Struct, frozen=True):
    """A block that is no safe call: it can be read otherwise, only repeats a given text, or cannot be read."""

    raw: str
    call: ToolCall | MalformedCall


class CallBegins(Struct, frozen=True):
    """A call that leaves while it is written. What follows is its pieces, and then its end."""

    id: str
    name: str


class CallPiece(Struct, frozen=True):
    """The JSON text that follows in the arguments."""

    arguments: str


class CallEnds(Struct, frozen=True):
    """All pieces of the call have come."""

    call: ToolCall
    raw: str
    begun: BegunCall


class CallBreaks(Struct, frozen=True):
    """A call that has begun, whose block `raw` does not end as a safe call that begins so."""

    begun: BegunCall
    raw: str


class WholeCall(Struct, frozen=True):
    """A safe call that comes at once."""

    call: ToolCall
    raw: str


Waits = Literal["none", "unsure", "all"]
Decision = Union[Show, Mark, Drop, Hold, CallBegins, CallPiece, CallEnds, CallBreaks, WholeCall]


class PreviewingParser(Protocol):
    """A StreamParser with previews."""

    @property
    def certain_kind(self) -> str: ...

    @property
    def certain_style(self) -> TagStyle | None: ...


class Landing:
    """Decides on one answer, event by event.

    `waits` says which calls are decided on at the end of the answer, and with them all that stands behind them: none;
    those that are not final, since what follows may show that a value of theirs goes on; or all, where what follows may
    show that they stand in a thought.
    """

    def __init__(
        self, parser: PreviewingParser, tools: ToolIndex, given: Iterable[GivenText] = (), *, waits: Waits = "unsure"
    ) -> None:
        self.waits = waits
        self._parser = parser
        self._tools = tools
        self._given = tuple(given)
        self._has_call = False
        self._open: BegunCall | None = None
        self._waiting: list[Decision] = []
        self._doubtful = 0  # how many of them are no calls if anything follows

    def decide(self, event: ParserEvent) -> list[Decision]:
        if isinstance(event, Doubted):
            self._doubtful = len(self._waiting)
        if self._doubtful and (not is_silent(event) or (isinstance(event, Doubted) and event.is_certain)):
            self._doubt()
        decisions = list(self._decide(event))
        if self._waiting:
            self._waiting += decisions
            return []
        if self.waits == "all" or (isinstance(event, ParsedCall) and event.is_bare and self.waits == "unsure"):
            return self._wait(decisions)
        return decisions

    def close(self) -> list[Decision]:
        """What is left to decide at the end of the answer."""
        decisions = [*self._waiting, *self._break_off()]
        self._waiting = []
        return decisions

    def _wait(self, decisions: list[Decision]) -> list[Decision]:
        """Keeps the first call, or the end of one, and what follows; returns what stands before it."""
        for place, decision in enumerate(decisions):
            if isinstance(decision, (WholeCall, CallPiece, CallEnds)):
                self._waiting = decisions[place:]
                return decisions[:place]
        return decisions

    def _doubt(self) -> None:
        """What waits is no safe call. The rest of one that has begun does not leave."""
        doubted: list[Decision] = []
        for decision in self._waiting[: self._doubtful]:
            if isinstance(decision, WholeCall):
                doubted.append(Hold(decision.raw, replace(decision.call, guessed=True)))
            elif isinstance(decision, CallEnds):
                doubted.append(self._break(decision.begun, decision.raw))
            elif not isinstance(decision, CallPiece):
                doubted.append(decision)
        self._waiting[: self._doubtful] = doubted
        self._doubtful = 0

    def _decide(self, event: ParserEvent) -> Iterator[Decision]:
        if isinstance(event, ToolCallDelta):
            yield from self._preview(event)
        elif isinstance(event, ParsedCall):
            yield from self._end_call(event)
        elif isinstance(event, Malformed):
            yield self._hold(event.malformed, event.raw)
        elif isinstance(event, Cut):
            yield Drop(event.raw) if self._has_call or event.is_empty_call else Mark(event.raw)
        elif isinstance(event, Doubted):
            if event.raw:
                yield Mark(event.raw, ends_thought=True)
        else:
            yield from self._break_off()
            if isinstance(event, (TextDelta, ReasoningDelta)):
                yield Show(event.text, isinstance(event, ReasoningDelta))
            elif isinstance(event, Reasoned):
                yield Mark(event.raw, ends_thought=True)

    def _break_off(self) -> Iterator[Decision]:
        """The answer ended, or its text goes on, inside a call."""
        begun, self._open = self._open, None
        if begun and begun.has_left:
            yield self._break(begun, "")

    def _preview(self, delta: ToolCallDelta) -> Iterator[Decision]:
        if delta.name is not None:
            kind, style = self._parser.certain_kind, self._parser.certain_style
            tool = self._tools.find(delta.name)
            self._open = None
            if kind and tool and self.waits != "all" and not self._waiting:
                from .begun_call import BegunCall  # start-up is measured: not before a call begins

                self._open = BegunCall(delta.id or "", tool, self._tools, self._given, kind, style)
        elif self._open and (piece := self._open.feed(delta.arguments_delta)):
            if not self._open.has_left:
                self._open.has_left = self._has_call = True
                yield CallBegins(self._open.id, self._open.name)
            yield CallPiece(piece)

    def _end_call(self, event: ParsedCall) -> Iterator[Decision]:
        call, begun = event.call, self._open
        if not is_safe(call):
            yield self._hold(call, event.raw)
            return
        self._has_call = True
        if begun is None or not begun.has_left:
            self._open = None
            yield WholeCall(call, event.raw)
            return
        rest = begun.finish(call)
        if rest is None:
            yield self._hold(call, event.raw)
            return
        self._open = None
        if rest:
            yield CallPiece(rest)
        yield CallEnds(call, event.raw, begun)

    def _hold(self, call: ToolCall | MalformedCall, raw: str) -> Decision:
        begun, self._open = self._open, None
        return self._break(begun, raw) if begun and begun.has_left else Hold(raw, call)

    def _break(self, begun: BegunCall, raw: str) -> Decision:
        """The rest may be known at the end of the answer; the calls behind it wait for that, if any may wait."""
        if self.waits == "unsure":
            self.waits = "all"
        return CallBreaks(begun, raw)
