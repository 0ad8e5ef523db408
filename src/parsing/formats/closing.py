"""What follows a block: what closes it, what may not stand on its line, and results that the model made up."""

from __future__ import annotations

import functools
import re

from ..stream.openers import CLOSERS, SPACE
from ..stream.prefix_regex import Matcher, any_of, sequence, some

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
_PREFIX = r"(?:\s?[｜|]\s?(?:DSML|GCML)\s?[｜|]\s?|[a-z]{2,10}[:|])?"
_INVOKES = re.compile(rf"\s*(?:\]<\]minimax\[>\[)?<{_PREFIX}(?:function|invoke)\b", re.IGNORECASE)
_ENDS = rf"/{_PREFIX}(?:function|invoke|tool_calls?|function_calls?)>|｜tool_call_end｜>"
_INVOKE_CLOSES = re.compile(rf"<(?:{_ENDS})", re.IGNORECASE)
_TAGS_CLOSE = re.compile(rf"<(?:{_ENDS}|/{_PREFIX}(?:call|tool)>)", re.IGNORECASE)
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
