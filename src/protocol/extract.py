"""A whole answer at once: the stream parser fed once and closed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ..messages import MalformedCall, TextDelta, ToolCall, ToolDefinition
from .events import Malformed, ParsedCall
from .scanner import StreamParser


class Extraction(NamedTuple):
    """`content` is the text to show; calls and malformed calls stand in the order the model wrote them."""

    content: str
    calls: tuple[ToolCall, ...]
    malformed: tuple[MalformedCall, ...]


def extract_tool_calls(
    text: str, tools: Iterable[ToolDefinition | dict[str, Any]], *, new_id: Callable[[], str] | None = None
) -> Extraction:
    """The tool calls in `text`; `tools` are ToolDefinitions or OpenAI tool objects. Never raises on a text."""
    parser = StreamParser(tools, new_id=new_id)
    events = parser.feed(text) + parser.close()
    return Extraction(
        "".join([event.text for event in events if isinstance(event, TextDelta)]),
        tuple([event.call for event in events if isinstance(event, ParsedCall)]),
        tuple([event.malformed for event in events if isinstance(event, Malformed)]),
    )
