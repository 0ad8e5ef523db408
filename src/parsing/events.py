"""The events of the stream parser, and EventFold, which adds them up to the blocks of an answer.

Nothing is lost: the text, the reasoning and every event's `raw`, joined in order, are the input; Answered alone takes
back the reasoning before it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import Union

from msgspec import Struct
from msgspec.structs import replace

from ..types.events import ReasoningDelta, TextDelta, ToolCallDelta
from ..types.messages import MalformedCall, Text, ToolCall

_ALL_BLOCKS = 1 << 62  # those still to come included


Classification = Union[ToolCall, MalformedCall]


def is_safe(call: ToolCall) -> bool:
    """Whether a call from the text may be given to a client that asks for no approval."""
    return not (call.echo or call.guessed)


class ParsedCall(Struct, frozen=True):
    """A call that may run. `raw` is the block it came from; of several calls in one block the first has it.

    `is_bare`: nothing escapes the marks in its values, so that what follows may show that one of them goes on.
    """

    call: ToolCall
    raw: str
    is_bare: bool = False

    @property
    def guessed(self) -> bool:
        """Whether the text could be read otherwise."""
        return self.call.guessed


class Malformed(Struct, frozen=True):
    """A block that asks for a call and cannot be read as one. It never runs; the model gets `malformed.reason`."""

    malformed: MalformedCall
    raw: str


class Cut(Struct, frozen=True):
    """Text that is neither shown nor a call: a result that the model made up, a reasoning marker.

    `is_empty_call`: markers of a call, and no call between them.
    """

    raw: str
    is_empty_call: bool = False


class Reasoned(Struct, frozen=True):
    """A closing reasoning marker, `closer`, without an opening one: the text before it was reasoning.

    The chat template opened it, as it will in the next answer of the model.
    """

    raw: str
    closer: str


class Doubted(Struct, frozen=True):
    """The calls before may be text, if anything follows: a closing marker of reasoning, or one that ends a value.

    Of the first, `raw` is the marker; of the second it is empty, and the marker is text. `is_certain`: whether or not
    anything follows, since the marker stood in text that was cut.
    """

    raw: str
    is_certain: bool = False


class Answered(Struct, frozen=True):
    """The end of an answer in reasoning that was only assumed: it was the answer, whose events follow."""


ParserEvent = Union[TextDelta, ReasoningDelta, ToolCallDelta, ParsedCall, Malformed, Cut, Reasoned, Doubted, Answered]


class Extraction(Struct, frozen=True):
    """`content` is the text to show; calls and malformed calls stand in the order the model wrote them."""

    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]
    reasoning: str = ""


class EventFold:
    """The events of one answer, added as they come, as its blocks in order and its reasoning."""

    def __init__(self) -> None:
        self.parts: list[str | ToolCall | MalformedCall] = []  # pieces of text, and calls
        self._written: list[str] = []  # each part as the model wrote it
        self._reasoning: list[str] = []
        self._doubtful = 0  # how many of the parts hold calls that were guessed if anything follows them

    @property
    def blocks(self) -> list[Text | ToolCall | MalformedCall]:
        blocks: list[Text | ToolCall | MalformedCall] = []
        for _, group in itertools.groupby(self.parts, lambda part: isinstance(part, str)):
            parts = list(group)
            text = "".join(part for part in parts if isinstance(part, str))
            blocks += [Text(text)] if text else [part for part in parts if not isinstance(part, str)]
        return blocks

    @property
    def written(self) -> str:
        """Text and calls as the model wrote them; thoughts, and results that it made up, are left out."""
        return "".join(self._written)

    @property
    def kept_text(self) -> str:
        """The text without the safe calls: what stands for no call is text."""
        pairs = zip(self.parts, self._written, strict=True)
        return "".join(raw for part, raw in pairs if not (isinstance(part, ToolCall) and is_safe(part)))

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def add(self, event: ParserEvent) -> None:
        if self._doubtful and not is_silent(event):
            self._mark_guessed()
        if isinstance(event, TextDelta):
            self.parts.append(event.text)
            self._written.append(event.text)
        elif isinstance(event, ReasoningDelta):
            self._reasoning.append(event.text)
        elif isinstance(event, ParsedCall):
            self.parts.append(event.call)
            self._written.append(event.raw)
        elif isinstance(event, Malformed):
            self.parts.append(event.malformed)
            self._written.append(event.raw)
        elif isinstance(event, Reasoned):
            self._reasoning += [part for part in self.parts if isinstance(part, str)]
            self.parts, self._written = [], []
        elif isinstance(event, Doubted):
            self._doubtful = len(self.parts)
            if event.is_certain:
                self._mark_guessed()
        elif isinstance(event, Answered):
            self._reasoning, self._doubtful = [], _ALL_BLOCKS

    def _mark_guessed(self) -> None:
        for at, part in enumerate(self.parts[: self._doubtful]):
            if isinstance(part, ToolCall):
                self.parts[at] = replace(part, guessed=True)
        self._doubtful = self._doubtful if self._doubtful == _ALL_BLOCKS else 0


def is_silent(event: ParserEvent) -> bool:
    """Whether the event shows nothing and calls nothing."""
    if isinstance(event, (TextDelta, ReasoningDelta)):
        return event.text.isspace()
    return not isinstance(event, (ParsedCall, Malformed))


def gathered(events: Iterable[ParserEvent]) -> Extraction:
    """The events of one answer in sum."""
    fold = EventFold()
    for event in events:
        fold.add(event)
    text = "".join([part for part in fold.parts if isinstance(part, str)])
    calls = [part for part in fold.parts if isinstance(part, ToolCall)]
    malformed = [part for part in fold.parts if isinstance(part, MalformedCall)]
    return Extraction(text, tuple(calls), tuple(malformed), fold.reasoning)
