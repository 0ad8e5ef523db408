"""What the text parser emits. The text shown and every event's `raw`, joined in order, are the input."""

from __future__ import annotations

from typing import NamedTuple, Union

from ..messages import MalformedCall, TextDelta, ToolCall, ToolCallDelta


class ParsedCall(NamedTuple):
    """A call that may run. `raw` is the block it came from; of several calls in one block the first has it."""

    call: ToolCall
    raw: str


class Malformed(NamedTuple):
    """A block meant as a call that is none; it is answered with `malformed.reason`, never run."""

    malformed: MalformedCall
    raw: str


class Cut(NamedTuple):
    """Text that is neither shown nor a call: a fabricated result, a marker without a body."""

    raw: str


ParserEvent = Union[TextDelta, ToolCallDelta, ParsedCall, Malformed, Cut]
