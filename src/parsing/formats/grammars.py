"""What a block's grammar decides: what ends it, what may follow it, its origin, and how it is decoded.

Here is also what ends an answer: after a call, a line that begins a tool's result or another turn was fabricated.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import NamedTuple

from ...types.lazy_pattern import LazyPattern
from ..decode.call_shapes import DecodedBlock, IsTool, RawCall, decode_label_line, decode_value
from ..decode.nodes import Node
from ..decode.tag_reader import TagReader
from ..decode.tag_style import Markers
from ..decode.xml import parse_elements
from ..stream.openers import SPACE, BlockStart
from ..stream.prefix_regex import PrefixMatcher, any_of, any_of_caseless, maybe, sequence, some
from .table import FORMATS, MORE_CLOSERS, Format
from .tag_syntax import ELEMENT, PREFIX, TagSyntax

MAX_MARKER_CHARS = 48  # of the longest marker here

LINE = LazyPattern(r"\n")  # ends a block of one line
FOREIGN_END = LazyPattern(rf"</{PREFIX}(?:function|invoke|tool_calls?|function_calls?|call|tool)>", re.IGNORECASE)
# Where a block whose brackets never close was probably meant to end.
LIKELY_END = LazyPattern(r"</[a-zA-Z]|<\|[a-z_]+\|>|```|\n\s*\n|\n[ \t*]*(?i:TOOL[ _-]?CALL)|<tool_call>")

# What may follow the end of a block and belongs to it.
_CLOSERS = (
    {row.closer for row in FORMATS if row.closer[:1] in ("<", "[") and row.closer != "]"}
    | {f"]<]minimax[>[{tag}" for tag in ("</tool_call>", "</invoke>")}
    | set(MORE_CLOSERS)
)
CLOSING_MARKER = PrefixMatcher(lambda: sequence(SPACE, any_of_caseless(_CLOSERS)), re.IGNORECASE)
FENCE_END = PrefixMatcher(sequence(some(r"\s", 0, 64), some("`", 1, 4)))
SEPARATOR = PrefixMatcher(sequence(some(r"[ \t]", 0, 8), some(r"[,;)\]]", 1, 1)))
LINE_END = PrefixMatcher(sequence(some(r"[ \t)\]\"'`*.:]", 0, 8), some(r"[\n<#\[/,;-]", 1, 1)))

# What closes a value, and stands in text only if a call before it was closed too early.
_STRAYS = {closer for row in FORMATS if row.syntax for closer in row.syntax.list_closers()} | {'<|"|>', "<escape>"}
STRAY_CLOSER = PrefixMatcher(lambda: any_of_caseless(_STRAYS), re.IGNORECASE)

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
_RESULT = sequence(maybe(some("[*#>]", 1, 1), some(r"[ \t*#>]", 0, 7)), any_of(_FABRICATED))
FABRICATED = PrefixMatcher(_RESULT, re.IGNORECASE)


@functools.cache
def compile_fabricated_line() -> re.Pattern[str]:
    """FABRICATED behind the blanks that a line begins with, to be searched for; compiled once a call was found."""
    return re.compile(r"\n[ \t]*(?=[otfh<\[`#|*>])(?P<result>" + _RESULT.whole + ")", re.IGNORECASE)


TAG_KINDS = frozenset(("tags", "pairs", "empty", "element", "arguments"))


_GRAMMAR_OF = {"tags": "tags", "pairs": "pairs", "empty": "pairs", "arguments": "argument blocks"}


@functools.cache
def _list_syntaxes(kind: str, rows: tuple[Format, ...]) -> tuple[TagSyntax, ...]:
    """The syntaxes of a kind, those first whose calls are framed by more, then those of `rows`."""
    if kind == "element":
        return (ELEMENT,)
    own = {row.syntax for row in rows}
    listed = (row.syntax for row in FORMATS if row.syntax and row.grammar == _GRAMMAR_OF[kind])
    syntaxes = dict.fromkeys(syntax for syntax in listed if syntax != ELEMENT)
    return tuple(sorted(syntaxes, key=lambda syntax: (-len(syntax.call), syntax not in own)))


_LAST_MARKER = LazyPattern(r"<([^<>]+)>\s*\Z")
_BARE_CLOSERS = ("</tool_call>",)


@functools.lru_cache(maxsize=256)
def find_wrappers(opener: str, kind: str) -> tuple[tuple[Format, ...], tuple[str, ...], tuple[str, ...]]:
    """The rows whose marker ends `opener`, and the markers that open and close that wrapping of a block."""
    written = opener.rstrip().casefold()
    rows = tuple(row for row in FORMATS if row.opener and written.endswith(row.opener.casefold()))
    longest = max((len(row.opener) for row in rows), default=0)
    rows = tuple(row for row in rows if len(row.opener) == longest)
    last = _LAST_MARKER.search(opener)
    if kind == "arguments":
        return rows, (), ("```",)
    if kind == "element" or not (last or rows) or (rows and rows[0].syntax and not last):
        return rows, (), _BARE_CLOSERS
    openers, closers = {row.opener for row in rows}, {row.closer for row in rows if row.closer}
    if last:
        openers.add(last[0].strip())
        closers.add(f"</{last[1]}>")
    return rows, tuple(sorted(openers)), tuple(sorted(closers))


def make_tag_reader(kind: str, opener: str, rank: Callable[[str, str], int] = lambda _name, _key: 1) -> TagReader:
    """The follower of a block of tags; `rank` as TagReader takes it."""
    rows, openers, closers = find_wrappers(opener, kind)
    return TagReader(_list_syntaxes(kind, rows), Markers(openers, closers), rank)


_BLANKS = LazyPattern(r"\s+")
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


def decode(start: BlockStart, body: BlockBody, is_tool: IsTool) -> DecodedBlock:
    """The calls of a block, or the problem with it: strict parsing first, repair where that fails."""
    if start.kind == "labels":
        return _check_names([decode_label_line(start.name, body.text.strip())])
    if start.kind == "tags":
        return _check_names(parse_elements(body.text, is_tool), cut=not body.ended)
    return decode_value(start.kind, start.name, body.text, body.parsed, is_tool, ended=body.ended)


def _check_names(calls: list[RawCall], *, cut: bool = False) -> DecodedBlock:
    if cut:
        return DecodedBlock(calls, problem="The block was cut off before its end.", cut=True)
    return DecodedBlock(calls, problem="" if calls else "No tool's name could be read in it.")
