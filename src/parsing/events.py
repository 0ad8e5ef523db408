"""What the text parser emits. The text and reasoning shown and every event's `raw`, joined in order, are the input."""

from __future__ import annotations

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
