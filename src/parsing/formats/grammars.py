"""What a block's grammar decides: what ends it, what may follow it, its origin, and how it is decoded.

Here is also what ends an answer: after a call, a line that begins a tool's result or another turn was fabricated.
"""

from __future__ import annotations

import re

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from ..decode.call_shapes import (
    NO_END,
    NO_NAME,
    DecodedBlock,
    IsTool,
    RawCall,
    decode_attributes,
    decode_label_line,
    decode_value,
    join_members,
)
from ..decode.nodes import Node
from ..decode.xml import find_children
from ..stream.openers import BlockStart
from ..stream.prefix_regex import PrefixMatcher, PrefixPattern, any_of, any_of_caseless, either, maybe, sequence, some

MAX_MARKER_CHARS = 48  # of the longest marker here

# Where a block whose brackets never close was probably meant to end.
LIKELY_END = LazyPattern(r"</[a-zA-Z]|<\|[a-z_]+\|>|```|\n\s*\n|\n[ \t*]*(?i:TOOL[ _-]?CALL)|<tool_call>")

# What may follow the end of a block and belongs to it.
FENCE_END = PrefixMatcher(sequence(some(r"\s", 0, 64), some("`", 1, 4)))
SEPARATOR = PrefixMatcher(sequence(some(r"[ \t]", 0, 8), some(r"[,;)\]]", 1, 1)))
OBJECT_SEPARATOR = PrefixMatcher(PrefixPattern(r"[,;](?=\s{0,8}[{\[])", r"[,;]?\s{0,8}\Z"))
SURPLUS_BRACES = PrefixMatcher(some(r"\}", 1, 4))
LINE_END = PrefixMatcher(sequence(some(r"[ \t)\]\"'`*.:]", 0, 8), some(r"[\n<#\[/,;-]", 1, 1)))

# What no model may write after its calls: a tool's result, or the next turn.
_TOOL, _OUTPUT = any_of(("tool", "function")), any_of(("result", "results", "response", "output"))
_NEXT_TURN = (
    "Observation:", "Observation\n", "<|observation|>", "<observation>", "[TOOL_RESULTS]", "<|im_start|>user",
    "<|im_start|>tool", "<|start_header_id|>ipython", "<|start_header_id|>user", "<｜tool▁outputs▁begin｜>",
    "<|tool_response>", "```tool_output", "<start_function_response>", "<|start|>functions.", "<|user|>", "[INST]",
    "Tool execution results:", "### Instruction:", "### Human:", "### User:", "### Input:", "Human:",
)  # fmt: skip
_FABRICATED = either(
    any_of_caseless(_NEXT_TURN), sequence(_TOOL, " ", _OUTPUT, ":"), sequence("<", _TOOL, "_", _OUTPUT, ">")
)
_RESULT = sequence(maybe(some("[*#>]", 1, 1), some(r"[ \t*#>]", 0, 7)), _FABRICATED)
FABRICATED = PrefixMatcher(_RESULT, re.IGNORECASE)


TAG_KINDS = frozenset(("tags", "pairs", "empty", "element"))


class BlockBody(Struct, frozen=True):
    """The text of a block behind its opening marker.

    `ended`: its end was found. `parsed`: its value, an object or a list, if that was strict JSON and is read already.
    """

    text: str
    ended: bool
    parsed: Node = None


def decode(start: BlockStart, body: BlockBody, is_tool: IsTool) -> DecodedBlock:
    """The calls of a block, or the problem with it: strict parsing first, repair where that fails."""
    if start.kind == "text":
        # Elements hold the arguments, or the text is the only one.
        text = body.text.rstrip().removesuffix(start.closer).strip()
        members = find_children(text)
        call = join_members(start.name, members)
        if text and not members:
            call = RawCall(start.name, {}, [text])
        return _check_names([call], cut=not body.ended)
    if start.kind == "labels":
        return _check_names([decode_label_line(start.name, body.text.strip())])
    if start.kind == "attributes":
        calls = decode_attributes(start.name, body.text)
        return _check_names(calls, cut=not body.ended and not calls)
    return decode_value(start.kind, start.name, body.text, body.parsed, is_tool, ended=body.ended)


def _check_names(calls: list[RawCall], *, cut: bool = False) -> DecodedBlock:
    if cut:
        return DecodedBlock(calls, problem=NO_END, cut=True)
    return DecodedBlock(calls, problem=None if calls else NO_NAME)
