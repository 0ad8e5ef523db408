"""The text that is not emitted yet, what was shown before it, and the events: every event goes out through here.

`start` is the first character that is not emitted, `position` the first that is not searched, `floor` the end of the
last block. The text is indexed, not sliced, while it is read. What was shown stays before
`start`, CONTEXT_CHARS of it at least, so that what precedes a block is read there. Text goes out as TextDelta, a block
with its event as `raw`: both joined in order are the input.
"""

from __future__ import annotations

from ...types.events import TextDelta
from ...types.lazy_pattern import LazyPattern
from ...types.messages import ToolCall
from ..events import Classification, Cut, Doubted, Malformed, ParsedCall, ParserEvent

MAX_SHOWN_CHARS = 80  # after a call; what merely looks like a call further on explains or repeats one
_HEAD_CHARS = 160  # of text whose characters are counted first; they mostly suffice
LEAD_CHARS = 240  # of the text before a block
LOOK_BACK_CHARS = 160  # of a line that is read backwards
CONTEXT_CHARS = 256  # that are kept of what was shown: more than are read backwards
_MAX_KEPT_CHARS = 768  # text that was shown is dropped beyond these
_BLANKS = LazyPattern(r"[ \t]{0,64}")
_WHITESPACE = LazyPattern(r"\s{0,64}")


class StreamBuffer:
    """One answer's text and events."""

    def __init__(self) -> None:
        self.text = ""
        self.start = 0
        self.position = 0
        self.passed = 0  # the end of what is not searched again, as markers without a body and a fence of code
        self.floor = 0  # a line begins here, too
        self.called = False  # a call or a malformed one was emitted
        self.shown_chars = 0  # since then, whitespace aside; counted up to a bit more than MAX_SHOWN_CHARS
        self._counted, self._ahead = 0, 0  # `_ahead` characters, whitespace aside, between `start` and `_counted`
        self.has_bare_values = False  # a call has values whose quotes nothing escapes, and is not doubted yet
        self.bare_origin = ""  # the format of that call
        self.bare_closers: tuple[str, ...] = ()  # what closes the values of such calls, besides the formats' closers
        self._following: list[str] = []  # the text behind such a call
        self.answered = False  # text or a call was emitted
        self.in_fence = False  # of code: in a fence that holds other than a call
        self.is_for_user = False  # behind a marker of text for the user
        self.trailing_calls: list[ToolCall] = []  # the calls after which no text was shown
        self._events: list[ParserEvent] = []

    def emit(self, event: ParserEvent) -> None:
        self._events.append(event)
        if self.has_bare_values and isinstance(event, Cut):
            self._following.append(event.raw)

    def take_events(self) -> list[ParserEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    def drop_shown(self) -> int:
        """Drops the text before the last block's end, and what was shown long ago; returns its length."""
        cut = max(self.floor, self.start - CONTEXT_CHARS)
        if self.floor or self.start > _MAX_KEPT_CHARS:
            self.text = self.text[cut:]
            self.start -= cut
            self.passed -= cut
            self.position = max(self.start, self.position - cut)
            self.floor = self._counted = 0
            return cut
        return 0

    def show(self, end: int) -> None:
        """Emits the text up to `end` as text of the answer."""
        if end > self.start:
            self._events.append(TextDelta(self.text[self.start : end]))
            self.pass_shown(end)

    def pass_shown(self, end: int) -> None:
        """Notes that the text up to `end` was emitted as text of the answer."""
        if end <= self.start:
            return
        if self.called:
            self.shown_chars = self.count_shown_at(end)
        text = self.text[self.start : end]
        self.start = end
        self._counted = 0
        if self.has_bare_values:
            self._following.append(text)
        if (self.trailing_calls or not self.answered) and not text.isspace():
            self.answered = True
            self.trailing_calls = []

    def count_shown_at(self, at: int) -> int:
        """What `shown_chars` will be once the text up to `at` is shown; no text is counted twice."""
        if self.shown_chars > MAX_SHOWN_CHARS:
            return self.shown_chars
        if not self.start < self._counted <= at:
            self._counted, self._ahead = self.start, 0
        self._ahead += count_nonspace(self.text[self._counted : at])
        self._counted = at
        return self.shown_chars + self._ahead

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
        self.has_bare_values, self.bare_origin = True, origin
        self.bare_closers = tuple({*self.bare_closers, *closers})

    def take_following(self) -> str:
        """The text since a call with bare values, or since the last time."""
        text = "".join(self._following)
        self._following.clear()
        return text

    def doubt(self) -> None:
        """Marks the calls so far, if they have bare values: one seems to go on behind them."""
        if not self.has_bare_values:
            return
        self._events.append(Doubted("", is_certain=True))
        self.has_bare_values, self.bare_closers = False, ()
        self._following.clear()

    def reset(self) -> None:
        """Forgets what was emitted: it was reasoning and no answer."""
        self.called = self.answered = self.in_fence = self.has_bare_values = False
        self.shown_chars, self.trailing_calls, self.bare_closers = 0, [], ()
        self._following.clear()

    def take(self, end: int) -> None:
        """The text up to `end` is the caller's, who emits it in an event or rewinds."""
        self.start = self.position = end

    def skip(self, end: int) -> None:
        """The text up to `end` was emitted as other than text; a line begins there."""
        self.start = self.position = self.floor = end
        self._counted = 0

    def pass_over(self, end: int) -> None:
        """No text up to `end` is searched again."""
        self.position = self.passed = end

    def replace(self, text: str, shown: str = "") -> None:
        """`text` is read next, after the text `shown`."""
        self.text = shown + text
        self.start = self.position = len(shown)
        self.floor = self.passed = self._counted = 0

    def find_line(self, at: int) -> str:
        """The line up to `at`, its last LOOK_BACK_CHARS at most."""
        low = max(self.floor, at - LOOK_BACK_CHARS)
        return self.text[max(low, self.text.rfind("\n", low, at) + 1) : at]

    def find_lead(self, at: int, size: int = LEAD_CHARS) -> str:
        """The text before `at` and after the last block, its last `size` characters at most."""
        return self.text[max(self.floor, at - size) : at]

    def starts_line(self, at: int) -> bool:
        return not self.find_line(at).strip()


def skip_blanks(text: str, start: int) -> int:
    """Where the blanks at `start` end."""
    return _BLANKS.match(text, start).end()  # type: ignore[union-attr]  # it matches the empty string, too


def skip_whitespace(text: str, start: int) -> int:
    """Where the whitespace at `start` ends."""
    return _WHITESPACE.match(text, start).end()  # type: ignore[union-attr]  # it matches the empty string, too


def count_backticks(text: str) -> int:
    """How many backticks, up to four, end the text: those that follow decide what they are."""
    return min(4, len(text) - len(text.rstrip("`"))) if text.endswith("`") else 0


def count_nonspace(text: str) -> int:
    """How many characters are no whitespace; exact up to MAX_SHOWN_CHARS, and else some number above it."""
    head = len("".join(text[:_HEAD_CHARS].split()))
    return head if head > MAX_SHOWN_CHARS or len(text) <= _HEAD_CHARS else len("".join(text.split()))
