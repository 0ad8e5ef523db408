"""What a block's grammar decides: where the block ends, what may follow it, its origin, and how it is decoded."""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from ..decode.call_shapes import Decoded, Known, decode_argument_blocks, decode_labelled_line, decode_value
from ..decode.nodes import Node
from ..decode.xml import PREFIX, element_call, invoked, keyed
from ..stream.openers import CLOSERS, SPACE, Found
from ..stream.prefix_regex import Matcher, any_of, sequence, some
from .table import FORMATS

_FENCE = sequence(some(r"\s", 0, 64), some("`", 1, 4))
_SEPARATOR = sequence(some(r"[ \t]", 0, 8), some(r"[,;)\]]", 1, 1))
_LINE_END = sequence(some(r"[ \t)\]\"'`*.:]", 0, 8), some(r"[\n<#\[/,;-]", 1, 1))
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

_LINE_BREAK = re.compile(r"\n")
_CLOSES = {
    "pairs": re.compile(r"</(?:[a-z]{2,10}[:|])?tool_call(?::[\w-]+)?>", re.IGNORECASE),
    "labels": _LINE_BREAK,
    "arguments": re.compile(r"\n[ \t]*```"),
}
_INVOKES = re.compile(rf"\s*(?:\]<\]minimax\[>\[)?<{PREFIX}(?:function|invoke)\b", re.IGNORECASE)
_ENDS = rf"/{PREFIX}(?:function|invoke|tool_calls?|function_calls?)>|｜tool_call_end｜>"
_INVOKE_CLOSES = re.compile(rf"<(?:{_ENDS})", re.IGNORECASE)
_TAGS_CLOSE = re.compile(rf"<(?:{_ENDS}|/{PREFIX}(?:call|tool)>)", re.IGNORECASE)
_XTML_CLOSE = re.compile(r"<\|close\|>(?:call|tools)<\|sep\|>")
LONGEST = 48  # characters of the longest closing marker


def closing(kind: str, name: str, body: str) -> re.Pattern[str]:
    """What ends a block of `kind` that begins as `body` does; an element ends with the tag of its name."""
    if kind == "element":
        return re.compile(f"</{re.escape(name)}>")
    if kind == "tags" and body.lstrip().startswith("<|open|>"):
        return _XTML_CLOSE
    if kind == "tags" and _INVOKES.match(body):
        return _INVOKE_CLOSES
    return _CLOSES["pairs"] if kind == "empty" else _CLOSES.get(kind, _TAGS_CLOSE)


@functools.cache
def closers() -> Matcher:
    return Matcher(sequence(SPACE, CLOSERS), re.IGNORECASE)


@functools.cache
def fence_end() -> Matcher:
    return Matcher(_FENCE)


@functools.cache
def separator() -> Matcher:
    return Matcher(_SEPARATOR)


@functools.cache
def line_end() -> Matcher:
    return Matcher(_LINE_END)


@functools.cache
def fabricated() -> Matcher:
    return Matcher(_RESULT, re.IGNORECASE)


@functools.cache
def fabricated_line() -> re.Pattern[str]:
    return re.compile(r"\n[ \t*#>]{0,8}(?=[otfh<\[`#|])" + _RESULT.whole, re.IGNORECASE)


MEANT_END = re.compile(r"</[a-zA-Z]|<\|[a-z_]+\|>|```|\n\s*\n|\n[ \t*]*(?i:TOOL[ _-]?CALL)|<tool_call>")

_BLANKS = re.compile(r"\s+")
_GRAMMARS = {"empty": "pairs", "element": "tags", "arguments": "argument blocks"}


@functools.lru_cache(maxsize=512)
def origin(opener: str, kind: str) -> str:
    """The row whose marker is in `opener` and whose grammar is `kind`; the longest marker wins, then the first row."""
    markers = _BLANKS.sub("", opener).casefold()
    grammar = _GRAMMARS.get(kind, kind)
    rows = [row for row in FORMATS if row.opener and _BLANKS.sub("", row.opener).casefold() in markers]
    if not rows:
        rows = [row for row in FORMATS if not row.opener and row.grammar == grammar]
        return rows[0].found_as if rows else "wrapped"
    best = max(rows, key=lambda row: (row.grammar == grammar, len(row.opener), -row.number))
    return best.found_as


class Body(NamedTuple):
    """`ended` says that the end it should have was there; `read` holds its value where that was read already."""

    text: str
    ended: bool
    read: tuple[Node] | None


_TAIL = 200  # characters, more than a closing tag has
_TEXT_KINDS = frozenset(("tags", "pairs", "empty", "element", "labels", "arguments"))
_CLOSED_AT_END = re.compile(
    r"(?:</[^<>]*(?:parameter|param|argument|arg|arg_value|function|invoke)[^<>]*>|>)\s*(?:</?[\w:]*)?\Z"
)


def decode(found: Found, body: Body, known: Known) -> Decoded:
    """The calls of a block."""
    if found.kind in _TEXT_KINDS:
        return _decode_text(found, body.text, known, ended=body.ended)
    return decode_value(found.kind, found.name, body.text, body.read, known, ended=body.ended)


def _decode_text(found: Found, body: str, known: Known, *, ended: bool) -> Decoded:
    if not ended and found.kind not in ("labels", "arguments") and not _CLOSED_AT_END.search(body[-_TAIL:]):
        return Decoded([], problem="The block was cut off before its end.", cut=True)
    if found.kind in ("pairs", "empty"):
        calls = keyed(body)
    elif found.kind == "element":
        calls = element_call(found.name, body)
    elif found.kind == "labels":
        calls = [decode_labelled_line(found.name, body.strip())]
    elif found.kind == "arguments":
        calls = decode_argument_blocks(body)
    else:
        calls = invoked(body, known)
    if not calls:
        return Decoded([], problem="No tool's name could be read in it.")
    return Decoded(calls, () if ended else ("missing closers",))
