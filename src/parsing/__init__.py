"""The text path, sans-IO: tool calls out of a model's text, and tools, calls and results into text.

`extract_tool_calls` parses a whole answer, `StreamParser` one that is still arriving; `gathered` sums up the events of
the second and gives what the first gives. `render_instructions` describes the tools to a model without function
calling, `render_message` renders the messages of the conversation for it.
"""

from __future__ import annotations

from .echo import GivenText
from .events import (
    Answered,
    Cut,
    Doubted,
    EventFold,
    Extraction,
    Malformed,
    ParsedCall,
    ParserEvent,
    Reasoned,
    gathered,
)
from .formats.table import list_parsers, mentions_call
from .prompt import (
    render_call,
    render_choice,
    render_example,
    render_instructions,
    render_message,
    render_results,
    render_text,
)
from .stream.parser import StreamParser, extract_tool_calls

__all__ = [
    "Answered",
    "Cut",
    "Doubted",
    "EventFold",
    "Extraction",
    "GivenText",
    "Malformed",
    "ParsedCall",
    "ParserEvent",
    "Reasoned",
    "StreamParser",
    "extract_tool_calls",
    "gathered",
    "list_parsers",
    "mentions_call",
    "render_call",
    "render_choice",
    "render_example",
    "render_instructions",
    "render_message",
    "render_results",
    "render_text",
]
