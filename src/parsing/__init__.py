"""The text path, sans-IO: tool calls out of a model's text, and tools, calls and results into text.

`extract_tool_calls` parses a whole answer, and `StreamParser` one that is still arriving, with the same result;
`gather_events` adds up the events of the stream. `render_instructions` describes the tools to a model without function
calling, and `render_message` renders the messages of the conversation for it.
"""

from __future__ import annotations

from .events import Cut, EventFold, Extraction, Malformed, ParsedCall, ParserEvent, Reasoned, gather_events
from .formats.table import list_parsers, mentions_call
from .prompt import render_call, render_example, render_instructions, render_message, render_results
from .stream.parser import MAX_CALLS, StreamParser, extract_tool_calls

__all__ = [
    "MAX_CALLS",
    "Cut",
    "EventFold",
    "Extraction",
    "Malformed",
    "ParsedCall",
    "ParserEvent",
    "Reasoned",
    "StreamParser",
    "extract_tool_calls",
    "gather_events",
    "list_parsers",
    "mentions_call",
    "render_call",
    "render_example",
    "render_instructions",
    "render_message",
    "render_results",
]
