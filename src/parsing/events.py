"""What the text parser emits. The text and reasoning shown and every event's `raw`, joined in order, are the input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Union

from ..types.events import ReasoningDelta, TextDelta, ToolCallDelta
from ..types.messages import MalformedCall, ToolCall


class ParsedCall(NamedTuple):
    """A call that may run. `raw` is the block it came from; of several calls in one block the first has it."""

    call: ToolCall
    raw: str


class Malformed(NamedTuple):
    """A block meant as a call that is none; it is answered with `malformed.reason`, never run."""

    malformed: MalformedCall
    raw: str


class Cut(NamedTuple):
    """Text that is neither shown nor a call: a fabricated result, a reasoning marker."""

    raw: str


class Reasoned(NamedTuple):
    """A closing marker of reasoning that was never opened: all before it was reasoning, and its calls are void."""

    raw: str


ParserEvent = Union[TextDelta, ReasoningDelta, ToolCallDelta, ParsedCall, Malformed, Cut, Reasoned]


class Extraction(NamedTuple):
    """`content` is the text to show; calls and malformed calls stand in the order the model wrote them."""

    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]
    reasoning: str = ""


def gathered(events: Iterable[ParserEvent]) -> Extraction:
    """The events of one answer as what they come to: text that turned out to be reasoning is no content."""
    content: list[str] = []
    reasoning: list[str] = []
    calls: list[ToolCall] = []
    malformed: list[MalformedCall] = []
    for event in events:
        if isinstance(event, TextDelta):
            content.append(event.text)
        elif isinstance(event, ParsedCall):
            calls.append(event.call)
        elif isinstance(event, Malformed):
            malformed.append(event.malformed)
        elif isinstance(event, ReasoningDelta):
            reasoning.append(event.text)
        elif isinstance(event, Reasoned):
            reasoning += content
            content, calls, malformed = [], [], []
    return Extraction("".join(content), tuple(calls), tuple(malformed), "".join(reasoning))
