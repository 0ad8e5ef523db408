"""The text that is not emitted yet, and the events that are: every event goes out through here.

`start` is the first character that is not emitted, `position` the first that is not searched, `floor` the end of the
last block; only the buffer writes them. The text is indexed, not sliced, while it is read; `drop_emitted` cuts it once
a feed. Text goes out as TextDelta, a block with its event as `raw`: both joined in order are the input.
"""

from __future__ import annotations

from ...types.events import TextDelta
from ...types.messages import ToolCall
from ..classify import Classification
from ..events import Cut, Doubted, Malformed, ParsedCall, ParserEvent

MAX_SHOWN_CHARS = 80  # after a call; what merely looks like a call further on explains or repeats one
_HEAD_CHARS = 160  # of text whose characters are counted first; they mostly suffice
LEAD_CHARS = 240  # of the text before a block
BACKTICK_CONTEXT_CHARS = 8  # before a backtick, that mostly tell that it begins no block
LOOK_BACK_CHARS = 160  # of a line that is read backwards


class StreamBuffer:
    """One answer's text and events."""

    def __init__(self) -> None:
        self.text = ""
        self.start = 0
        self.position = 0
        self.floor = 0  # a line begins here, too
        self.called = False  # a call or a malformed one was emitted
        self.shown_chars = 0  # since then, whitespace aside; counted up to a bit more than MAX_SHOWN_CHARS
        self._counted, self._ahead = 0, 0  # `_ahead` characters, whitespace aside, between `start` and `_counted`
        self.has_bare_values = False  # a call has values whose quotes nothing escapes, and is not doubted yet
        self.bare_closers: tuple[str, ...] = ()  # what closes the values of such calls, besides the formats' closers
        self._following: list[str] = []  # the text behind such a call
        self.answered = False  # text or a call was emitted
        self.in_fence = False  # of code: in a fence that holds other than a call
        self.trailing_calls: list[ToolCall] = []  # the calls after which no text was shown
        self._events: list[ParserEvent] = []
        self._line_start = ""  # the beginning of the line that `text` continues
        self._lead = ""  # the end of the text that was shown since the last block
        self._skimmed: list[str] = []  # shown since then without the parser's other work

    def add(self, text: str) -> None:
        self.text = self.text + text if self.text else text

    def emit(self, event: ParserEvent) -> None:
        self._events.append(event)
        if self.has_bare_values and isinstance(event, Cut):
            self._following.append(event.raw)

    def take_events(self) -> list[ParserEvent]:
        """The events since the last time."""
        events, self._events = self._events, []
        return events

    @property
    def is_skimmable(self) -> bool:
        """Whether text that is shown next changes nothing but the text before the next block."""
        is_far = not self.called or self.shown_chars > MAX_SHOWN_CHARS
        return is_far and self.answered and not self.trailing_calls and self.start == 0

    def skim(self, text: str, held: int) -> list[ParserEvent]:
        """The event that shows `text` but for the `held` characters at its end, which are all that is held back."""
        self.position = held and held - count_backticks(text)
        if not held:
            self.text = ""
        elif held == len(text):
            self.text = text
            return []
        else:
            self.text, text = text[-held:], text[:-held]
        self._skimmed.append(text)
        if self.has_bare_values:
            self._following.append(text)
        return [TextDelta(text)]

    def join_skimmed(self) -> None:
        """Takes the text that was skimmed for the text before the next block. To be called before other work."""
        text = "".join(self._skimmed)
        self._skimmed.clear()
        self._lead = (self._lead + text)[-LEAD_CHARS:]
        self._line_start = (self._line_start + text).rpartition("\n")[2][-LOOK_BACK_CHARS:]

    def get_context(self) -> str:
        """The last characters of the line that were shown, BACKTICK_CONTEXT_CHARS or more."""
        return self._line_start + "".join(self._skimmed[-BACKTICK_CONTEXT_CHARS:])

    @property
    def has_skimmed(self) -> bool:
        return bool(self._skimmed)

    def drop_emitted(self) -> int:
        """Drops the text that was emitted; returns its length."""
        start = self.start
        if start:
            self._line_start = self.find_line(start)
            self._lead = self.find_lead(start)
            self.text = self.text[start:]
            self.position = max(0, self.position - start)
            self.start = self.floor = self._counted = 0
        return start

    def show(self, end: int) -> None:
        """Emits the text up to `end` as text of the answer."""
        if end <= self.start:
            return
        if self.called:
            self.shown_chars = self.count_shown_at(end)
        text = self.text[self.start : end]
        self._events.append(TextDelta(text))
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

    def emit_call(self, call: Classification, raw: str) -> None:
        """Emits a call or a malformed one, whose block is `raw`."""
        self.called = self.answered = True
        self.shown_chars = 0
        if isinstance(call, ToolCall):
            self.trailing_calls.append(call)
            self._events.append(ParsedCall(call, raw))
        else:
            self._events.append(Malformed(call, raw))

    def follow_bare_values(self, closers: tuple[str, ...]) -> None:
        """After a call with bare values: it is doubted if one of `closers` follows, or another end of values."""
        self.has_bare_values = True
        self.bare_closers = tuple({*self.bare_closers, *closers})

    def take_following(self) -> str:
        """The text since a call with bare values, or since the last time."""
        text = "".join(self._following)
        self._following.clear()
        return text

    def doubt(self) -> None:
        """Marks the calls so far: a value seems to go on behind them."""
        self._events.append(Doubted("", is_certain=True))
        self.has_bare_values, self.bare_closers = False, ()

    def reset(self) -> None:
        """Forgets what was emitted: it was reasoning and no answer."""
        self.called = self.answered = self.in_fence = self.has_bare_values = False
        self.shown_chars, self.trailing_calls, self.bare_closers = 0, [], ()

    def seek(self, position: int) -> None:
        """All before `position` has been searched."""
        self.position = position

    def take(self, end: int) -> None:
        """The text up to `end` is the caller's, who emits it in an event or rewinds."""
        self.start = self.position = end

    def rewind(self, start: int) -> None:
        """The text from `start` on, which was taken, is not emitted after all."""
        self.start = start

    def skip(self, end: int) -> None:
        """The text up to `end` was emitted as other than text; a line begins there."""
        self.start = self.position = self.floor = end
        self._counted = 0
        self._line_start = self._lead = ""

    def replace(self, text: str, line_start: str = "", lead: str = "") -> None:
        """`text` is read next, on a line that began with `line_start`, after the text `lead`."""
        self.text, self._line_start, self._lead = text, line_start, lead
        self.start = self.position = self.floor = self._counted = 0

    def toggle_fence(self) -> None:
        self.in_fence = not self.in_fence

    def find_line(self, at: int) -> str:
        """The line up to `at`, its last LOOK_BACK_CHARS at most."""
        low = max(0, at - LOOK_BACK_CHARS, self.floor)
        newline = self.text.rfind("\n", low, at)
        if newline >= 0:
            return self.text[newline + 1 : at]
        line = self.text[low:at]
        return line if low else (self._line_start + line)[-LOOK_BACK_CHARS:]

    def find_lead(self, at: int) -> str:
        """The text before `at` and after the last block, its last LEAD_CHARS at most."""
        low = max(0, at - LEAD_CHARS, self.floor)
        return self.text[low:at] if low else (self._lead + self.text[:at])[-LEAD_CHARS:]

    def get_previous(self) -> str:
        """The character before the first that is not emitted, if that one was shown."""
        if self.start > self.floor:
            return self.text[self.start - 1]
        return self._line_start[-1:] if self.floor == 0 else ""

    def starts_line(self, at: int) -> bool:
        return not self.find_line(at).strip()


def count_backticks(text: str) -> int:
    """How many backticks, up to four, end the text: those that follow decide what they are."""
    return min(4, len(text) - len(text.rstrip("`"))) if text.endswith("`") else 0


def count_nonspace(text: str) -> int:
    """How many characters are no whitespace; exact up to MAX_SHOWN_CHARS, and else some number above it."""
    head = len("".join(text[:_HEAD_CHARS].split()))
    return head if head > MAX_SHOWN_CHARS or len(text) <= _HEAD_CHARS else len("".join(text.split()))
