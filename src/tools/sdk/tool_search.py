"""Tools that a prompt only names, and the two tools that lead to them: `tool_search` and `call_tool`.

The definitions of hundreds of tools would fill a prompt. Here its head names them, and `tool_search` gives definitions
as its result, at the conversation's end, so that the prompt before stays the same. `call_tool` calls what was found:
grammars and parsers of servers know only the tools at the head. A call under the tool's own name is run as well.

Nothing is remembered: a definition that is no longer in the conversation is found again, and a call that does not fit
the schema is answered with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Annotated, Any, NamedTuple

from ...errors import ToolError
from ...types.lazy_pattern import LazyPattern
from ...types.messages import CALL_TOOL, ToolDefinition
from ...types.tool_schema import format_definition, to_openai_tool
from .tool import Tool, tool

TOOL_SEARCH = "tool_search"
CHARS_PER_TOKEN = 4  # of a definition, about
MAX_SHARE = 0.1  # of the context: definitions that take more are not put into the prompt
USUAL_CONTEXT = 32_768  # tokens, where the server does not say
MAX_NAMES_CHARS = 6_000  # of the names in the prompt
MAX_FOUND = 5  # by their words
MAX_FOUND_CHARS = 20_000  # of the definitions in one result; the first one is always whole
MAX_ALSO_NAMED = 10
MIN_PART_CHARS = 3  # of a word that may stand for a longer one
INTRODUCTION = (
    "Find tools that are only named here. The result has the definitions of those found, and call_tool calls them."
)
_PARTS = LazyPattern(r"[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_a-zA-Z]+")


class Savings(NamedTuple):
    """How many tools are only named, and about how many tokens of each prompt that saves."""

    tools: int
    tokens: int


def count_tokens(definitions: Sequence[ToolDefinition]) -> int:
    """About how many tokens they take in a prompt."""
    return sum(len(json.dumps(to_openai_tool(each))) for each in definitions) // CHARS_PER_TOKEN


def fill_much(definitions: Sequence[ToolDefinition], context: int | None) -> bool:
    """Whether they take too much of a context of so many tokens; None: its length is not known."""
    return count_tokens(definitions) > MAX_SHARE * (context or USUAL_CONTEXT)


def measure_savings(definitions: Sequence[ToolDefinition]) -> Savings:
    """Of the tools of an agent."""
    named = [each for each in definitions if each.named_by]
    leading = [each for each in definitions if each.name in (TOOL_SEARCH, CALL_TOOL)]
    return Savings(len(named), count_tokens(named) - count_tokens(leading))


def describe_savings(definitions: Sequence[ToolDefinition], search: str) -> str:
    """What the search of tools saves, where the setting `tools.search` has them searched; else ""."""
    tools, tokens = measure_savings(definitions)
    if not tools:
        return ""
    amount = f"{tokens:,} tokens less"
    if tokens < 0:
        amount = f"{-tokens:,} tokens more, as they are few"
    saved = f"(tools.search: {search}): about {amount}"
    return f"{tools:,} tools are only named in prompts, and found with {TOOL_SEARCH} {saved}"


def make_search_tools(named: Sequence[ToolDefinition]) -> tuple[Tool, Tool]:
    """`tool_search` for these tools, which its description names, and `call_tool`."""

    def tool_search(query: Annotated[str, "Names of tools, or words that tell what a tool does"]) -> str:
        return describe_found(named, query)

    return tool(tool_search, risk="low", description=f"{INTRODUCTION} {list_names(named)}"), call_tool


@tool(risk="low")  # the risk of a call is that of the tool it calls
def call_tool(
    tool: Annotated[str, "Name of a tool that tool_search names"],
    args: Annotated[dict[str, Any], "Its arguments, by its definition"],  # noqa: ARG001 - the loop passes them on
) -> str:
    """Call a tool that tool_search names. A call that does not fit its definition is answered with it."""
    raise ToolError(f"{tool} cannot be called here")  # where no loop runs the call of that tool in place of this one


def list_names(named: Sequence[ToolDefinition], room: int = MAX_NAMES_CHARS) -> str:
    """The names, by server. Where there are too many for `room` characters, the servers have their names in turn."""
    by_server: dict[str, list[str]] = {}
    for each in named:
        by_server.setdefault(each.named_by, []).append(each.name)
    shown = dict.fromkeys(by_server, 0)
    rows = zip_longest(*by_server.values())  # the first name of each server, then the second ones, and so on
    turns = ((server, name) for row in rows for server, name in zip(by_server, row, strict=True) if name)
    for server, name in turns:
        room -= len(name) + len(", ")
        if room < 0:
            break
        shown[server] += 1
    parts: list[str] = []
    for server, names in by_server.items():
        count, left = shown[server], len(names) - shown[server]
        listed = f"{left} tools"
        if count:
            listed = ", ".join(names[:count]) + f", and {left} more" * bool(left)
        parts.append(f"{server}: {listed}")
    return "; ".join(parts)


def describe_found(named: Sequence[ToolDefinition], query: str) -> str:
    """The definitions of the tools that the query names, or else of the nearest ones, as the model reads them."""
    exact = find_named(named, query)
    matching = exact or rank(named, query)
    if not matching:
        return f"None of the {len(named)} tools is found by these words. Use other words, or names."
    lines = [format_definition(each) for each in (exact or matching[:MAX_FOUND])]
    while len(lines) > 1 and sum(map(len, lines)) > MAX_FOUND_CHARS:
        lines.pop()
    if left := matching[len(lines) :]:
        names = ", ".join(each.name for each in left[:MAX_ALSO_NAMED])
        lines.append(f"Found as well, the nearest first: {names}" + ", and others" * (len(left) > MAX_ALSO_NAMED))
    return "\n".join(lines)


def find_named(named: Sequence[ToolDefinition], query: str) -> list[ToolDefinition]:
    """The tools whose names stand in the query."""
    names = re.split(r"[\s,]+", query.casefold())
    return [each for each in named if each.name.casefold() in names]


def rank(named: Sequence[ToolDefinition], query: str) -> list[ToolDefinition]:
    """The tools that have words of the query, the nearest first.

    Those with more of the words in their name come before others; of equal ones those with more in their description.
    """
    words = _split(query)
    scores = [(_count_hits(words, each.name), _count_hits(words, each.description)) for each in named]
    order = sorted(range(len(named)), key=lambda place: scores[place], reverse=True)
    return [named[place] for place in order if any(scores[place])]


def _count_hits(words: set[str], text: str) -> int:
    """How many of the words a text has; `issue` and `issues` are the same."""
    parts = _split(text)
    return sum(any(_is_alike(word, part) for part in parts) for word in words)


def _is_alike(word: str, part: str) -> bool:
    shorter, longer = sorted((word, part), key=len)
    return word == part or (len(shorter) >= MIN_PART_CHARS and longer.startswith(shorter))


def _split(text: str) -> set[str]:
    """The words of a name or a sentence: `readFile`, `read_file` and `read file` have the same."""
    return {part.casefold() for part in _PARTS.findall(text)}
