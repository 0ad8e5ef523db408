"""The text path, sans-IO: tool calls out of what a model wrote, and tools, calls and results into text.

`extract_tool_calls` takes a whole answer, `StreamParser` one that is still arriving; both give the same, and
`gathered` sums up the events of the latter as the former does. `instructions` tells a model without function
calling of its tools; `as_text` renders history for it.
"""

from __future__ import annotations

from .events import Cut, Extraction, Malformed, ParsedCall, ParserEvent, Reasoned, gathered
from .formats.table import list_parsers, mentions_call
from .prompt import as_text, call_text, example, instructions, results_text
from .stream.parser import MAX_CALLS, StreamParser, extract_tool_calls

__all__ = [
    "MAX_CALLS",
    "Cut",
    "Extraction",
    "Malformed",
    "ParsedCall",
    "ParserEvent",
    "Reasoned",
    "StreamParser",
    "as_text",
    "call_text",
    "example",
    "extract_tool_calls",
    "gathered",
    "instructions",
    "list_parsers",
    "mentions_call",
    "results_text",
]
