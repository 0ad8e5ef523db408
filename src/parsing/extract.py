"""A whole answer at once: the stream parser fed once and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..types.events import ReasoningDelta, TextDelta
from ..types.messages import MalformedCall, ToolCall, ToolDefinition
from .events import Malformed, ParsedCall, ParserEvent, Reasoned
from .stream.parser import MAX_CALLS, StreamParser


class Extraction(NamedTuple):
    """`content` is the text to show; calls and malformed calls stand in the order the model wrote them."""

    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]
    reasoning: str = ""


def extract_tool_calls(
    text: str,
    tools: Iterable[ToolDefinition | Mapping[str, Any]],
    *,
    new_id: Callable[[], str] | None = None,
    given: Iterable[str] = (),
    max_calls: int = MAX_CALLS,
    truncated: bool = False,
) -> Extraction:
    """The tool calls in `text`; `tools` are ToolDefinitions or OpenAI tool objects. Never raises on a text.

    `given` are texts the model was given: a call that repeats one of them is marked as an echo. Of more than
    `max_calls` the rest is malformed. `truncated` says that the answer was cut off by max_tokens.
    """
    parser = StreamParser(tools, new_id=new_id, given=given, max_calls=max_calls)
    return gathered(parser.feed(text) + parser.close(truncated=truncated))


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
