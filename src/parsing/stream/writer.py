"""The events of an answer, in order, and what of them decides on the text that follows.

Text goes out as TextDelta, a block with its event as `raw`: both joined in order are the input.
"""

from __future__ import annotations

from ...types.events import TextDelta
from ...types.messages import ToolCall
from ..events import Classification, Cut, Doubted, Malformed, ParsedCall, ParserEvent
from ..formats.format_set import FormatSet
from .buffer import MAX_SHOWN_CHARS, count_nonspace


class EventWriter:
    """Every event of one answer goes out through here."""

    def __init__(self, formats: FormatSet) -> None:
        self.called = False  # a call or a malformed one was emitted
        self.shown_chars = 0  # since then, whitespace aside; counted up to a bit more than MAX_SHOWN_CHARS
        self.answered = False  # text or a call was emitted
        self.trailing_calls: list[ToolCall] = []  # the calls after which no text was shown
        self.bare_origin: str | None = None  # the format of a call whose values have quotes that nothing escapes
        self._bare_closers: set[str] = set()  # what closes the values of such calls, besides the formats' closers
        self._following: list[str] = []  # the text behind such a call, while it is not doubted
        self._formats = formats
        self._events: list[ParserEvent] = []

    def take_events(self) -> list[ParserEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def emit(self, event: ParserEvent) -> None:
        self._events.append(event)
        if self.bare_origin is not None and isinstance(event, Cut):
            self._following.append(event.raw)

    def show(self, text: str) -> None:
        """Emits text of the answer."""
        self._events.append(TextDelta(text))
        self.note_shown(text)

    def note_shown(self, text: str) -> None:
        """Notes text of the answer that was emitted."""
        if self.called and self.shown_chars <= MAX_SHOWN_CHARS:
            self.shown_chars += count_nonspace(text)
        if self.bare_origin is not None:
            self._following.append(text)
        if (self.trailing_calls or not self.answered) and text and not text.isspace():
            self.answered = True
            self.trailing_calls = []

    def emit_call(self, call: Classification, raw: str, *, is_bare: bool) -> None:
        """Emits a call or a malformed one, whose block is `raw`; `is_bare`: see ParsedCall."""
        self.called = self.answered = True
        self.shown_chars = 0
        if isinstance(call, ToolCall):
            self.trailing_calls.append(call)
            self._events.append(ParsedCall(call, raw, is_bare))
        else:
            self._events.append(Malformed(call, raw))

    def follow_bare_values(self, closers: tuple[str, ...], origin: str) -> None:
        """After a call with bare values: it is doubted if one of `closers` follows, or another end of values.

        `origin`: the format of the call.
        """
        self.bare_origin = origin
        self._bare_closers.update(closers)

    def doubt_closed_calls(self) -> None:
        """Marks the calls so far if what follows them holds an end of values: one of theirs may go on there."""
        following = "".join(self._following)
        self._following.clear()
        if self.bare_origin is not None and self._formats.holds_closer(following, self._bare_closers):
            self.doubt()

    def doubt(self) -> None:
        """Marks the calls so far, if they have bare values: one seems to go on behind them."""
        if self.bare_origin is not None:
            self._events.append(Doubted("", is_certain=True))
            self._forget_bare_values()

    def reset(self) -> None:
        """Forgets what was emitted: it was reasoning and no answer."""
        self.called = self.answered = False
        self.shown_chars, self.trailing_calls = 0, []
        self._forget_bare_values()

    def _forget_bare_values(self) -> None:
        self.bare_origin = None
        self._bare_closers.clear()
        self._following.clear()
