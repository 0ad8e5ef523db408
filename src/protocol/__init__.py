"""The text path, sans-IO: tool calls out of what a model wrote, and tools, calls and results into text.

`extract_tool_calls` takes a whole answer, `StreamParser` one that is still arriving; both give the same.
`instructions` tells a model without function calling of its tools; `as_text` renders history for it.
"""

from __future__ import annotations

from .events import Cut, Malformed, ParsedCall, ParserEvent
from .extract import Extraction, extract_tool_calls
from .formats import parsers_of
from .render import as_text, call_text, instructions, results_text
from .scanner import StreamParser

__all__ = [
    "Cut",
    "Extraction",
    "Malformed",
    "ParsedCall",
    "ParserEvent",
    "StreamParser",
    "as_text",
    "call_text",
    "extract_tool_calls",
    "instructions",
    "parsers_of",
    "results_text",
]
