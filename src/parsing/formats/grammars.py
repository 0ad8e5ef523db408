"""What a block's grammar decides: what ends it, what may follow it, its origin, and how it is decoded.

Here is also what ends an answer: after a call, a line that begins a tool's result or another turn was fabricated.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from ..decode.call_shapes import DecodedBlock, IsTool, decode_argument_blocks, decode_label_line, decode_value
from ..decode.nodes import Node
from ..decode.xml import PREFIX, parse_element, parse_invocations, parse_pairs
from ..stream.openers import SPACE, BlockStart
from ..stream.prefix_regex import PrefixMatcher, any_of, any_of_caseless, sequence, some
from .table import FORMATS, MORE_CLOSERS

MAX_MARKER_CHARS = 48  # of the longest marker here

# What ends a block, by kind.
_PAIRS_END = re.compile(r"</(?:[a-z]{2,10}[:|])?tool_call(?::[\w-]+)?>", re.IGNORECASE)
_ENDS = {
    "pairs": _PAIRS_END,
    "empty": _PAIRS_END,
    "labels": re.compile(r"\n"),
    "arguments": re.compile(r"\n[ \t]*```"),
}
_INVOKE = re.compile(rf"\s*(?:\]<\]minimax\[>\[)?<{PREFIX}(?:function|invoke)\b", re.IGNORECASE)
_TAGS = rf"/{PREFIX}(?:function|invoke|tool_calls?|function_calls?)>|｜tool_call_end｜>"
_INVOKE_END = re.compile(rf"<(?:{_TAGS})", re.IGNORECASE)
_TAGS_END = re.compile(rf"<(?:{_TAGS}|/{PREFIX}(?:call|tool)>)", re.IGNORECASE)
_XTML_END = re.compile(r"<\|close\|>(?:call|tools)<\|sep\|>")
# Where a block whose brackets never close was probably meant to end.
LIKELY_END = re.compile(r"</[a-zA-Z]|<\|[a-z_]+\|>|```|\n\s*\n|\n[ \t*]*(?i:TOOL[ _-]?CALL)|<tool_call>")

# What may follow the end of a block and belongs to it.
_CLOSERS = any_of_caseless(
    {row.closer for row in FORMATS if row.closer[:1] in ("<", "[") and row.closer != "]"}
    | {f"]<]minimax[>[{tag}" for tag in ("</tool_call>", "</invoke>")}
    | set(MORE_CLOSERS)
)
CLOSING_MARKER = PrefixMatcher(sequence(SPACE, _CLOSERS), re.IGNORECASE)
FENCE_END = PrefixMatcher(sequence(some(r"\s", 0, 64), some("`", 1, 4)))
SEPARATOR = PrefixMatcher(sequence(some(r"[ \t]", 0, 8), some(r"[,;)\]]", 1, 1)))
LINE_END = PrefixMatcher(sequence(some(r"[ \t)\]\"'`*.:]", 0, 8), some(r"[\n<#\[/,;-]", 1, 1)))

# What no model may write after its calls: a tool's result, or the next turn.
_FABRICATED = (
    "Observation:", "Observation\n", "Tool execution results:", "Tool result:", "Tool results:", "Tool response:",
    "Tool output:", "Function result:", "Function response:", "Function output:", "<tool_response>", "<tool_result>",
    "<tool_results>", "<tool_output>", "<function_results>", "<function_result>", "<function_response>",
    "<|observation|>", "<observation>", "[TOOL_RESULTS]", "<|im_start|>user", "<|im_start|>tool",
    "<|start_header_id|>ipython", "<|start_header_id|>user", "<｜tool▁outputs▁begin｜>", "<|tool_response>",
    "```tool_output", "<start_function_response>", "<|start|>functions.", "### Instruction:", "### Human:", "### User:",
    "### Input:", "Human:", "<|user|>", "[INST]",
)  # fmt: skip
_RESULT = sequence(some(r"[ \t*#>]", 0, 8), any_of(_FABRICATED))
FABRICATED = PrefixMatcher(_RESULT, re.IGNORECASE)


@functools.cache
def compile_fabricated_line() -> re.Pattern[str]:
    """FABRICATED at the start of a line, to be searched for; compiled once a call was found."""
    return re.compile(r"\n[ \t*#>]{0,8}(?=[otfh<\[`#|])" + _RESULT.whole, re.IGNORECASE)


def choose_end(kind: str, name: str, body: str) -> re.Pattern[str]:
    """What ends a block of `kind` whose text begins as `body` does; an element ends with the tag of its `name`."""
    if kind == "element":
        return re.compile(f"</{re.escape(name)}>")
    if kind == "tags" and body.lstrip().startswith("<|open|>"):
        return _XTML_END
    if kind == "tags" and _INVOKE.match(body):
        return _INVOKE_END
    return _ENDS.get(kind, _TAGS_END)


_BLANKS = re.compile(r"\s+")
_GRAMMARS = {"empty": "pairs", "element": "tags", "arguments": "argument blocks"}


@functools.lru_cache(maxsize=512)
def find_origin(opener: str, kind: str) -> str:
    """The name of the format whose marker is in `opener` and whose grammar is that of `kind`.

    Of several the one with the longest marker counts, then the first row of the table.
    """
    markers = _BLANKS.sub("", opener).casefold()
    grammar = _GRAMMARS.get(kind, kind)
    rows = [row for row in FORMATS if row.opener and _BLANKS.sub("", row.opener).casefold() in markers]
    if not rows:
        rows = [row for row in FORMATS if not row.opener and row.grammar == grammar]
        return rows[0].call_origin if rows else "wrapped"
    best = max(rows, key=lambda row: (row.grammar == grammar, len(row.opener), -row.number))
    return best.call_origin


class BlockBody(NamedTuple):
    """The text of a block behind its opening marker.

    `ended`: its end was found. `parsed` holds its value where it was strict JSON and is parsed already.
    """

    text: str
    ended: bool
    parsed: tuple[Node] | None


_MAX_TAG_CHARS = 200  # of the closing tag that a cut-off block may end in
_TEXT_KINDS = frozenset(("tags", "pairs", "empty", "element", "labels", "arguments"))
_CLOSED_AT_END = re.compile(
    r"(?:</[^<>]*(?:parameter|param|argument|arg|arg_value|function|invoke)[^<>]*>|>)\s*(?:</?[\w:]*)?\Z"
)


def decode(start: BlockStart, body: BlockBody, is_tool: IsTool) -> DecodedBlock:
    """The calls of a block, or the problem with it: strict parsing first, repair where that fails."""
    if start.kind in _TEXT_KINDS:
        return _decode_text(start, body.text, is_tool, ended=body.ended)
    return decode_value(start.kind, start.name, body.text, body.parsed, is_tool, ended=body.ended)


def _decode_text(start: BlockStart, body: str, is_tool: IsTool, *, ended: bool) -> DecodedBlock:
    if not ended and start.kind not in ("labels", "arguments") and not _CLOSED_AT_END.search(body[-_MAX_TAG_CHARS:]):
        return DecodedBlock([], problem="The block was cut off before its end.", cut=True)
    if start.kind in ("pairs", "empty"):
        calls = parse_pairs(body)
    elif start.kind == "element":
        calls = parse_element(start.name, body)
    elif start.kind == "labels":
        calls = [decode_label_line(start.name, body.strip())]
    elif start.kind == "arguments":
        calls = decode_argument_blocks(body)
    else:
        calls = parse_invocations(body, is_tool)
    if not calls:
        return DecodedBlock([], problem="No tool's name could be read in it.")
    return DecodedBlock(calls, () if ended else ("missing closers",))
