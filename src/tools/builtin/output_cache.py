"""tool_output_cache and tool_output_cache_grep: reading on in an output that was cut, and searching it. They stream."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated, BinaryIO

from ...errors import ToolError
from ..fs.grep import Matcher, blocks, matches
from ..fs.line_window import window
from ..sdk.context import ToolContext
from ..sdk.registry import tool
from .search import After, Before, Most, refuse_many_lines, shown_matches


@tool(risk="low")
def tool_output_cache(
    ref_id: Annotated[str, "Reference of the output, such as o1a2b3c4d"],
    ctx: ToolContext,
    offset: Annotated[int | None, "First line to show, counted from 1"] = None,
    limit: Annotated[int | None, "Number of lines to show"] = None,
) -> str:
    """Read the whole output of an earlier call that was cut or trimmed."""
    seen = window(f"output {ref_id}", _opened(ref_id, ctx), "utf-8", 1 if offset is None else offset, limit)
    if seen.next:
        return f"{seen.text}[more lines follow; read on with offset={seen.next}]"
    return seen.text or "[the output is empty]"


@tool(risk="low")
def tool_output_cache_grep(
    ref_id: Annotated[str, "Reference of the output"],
    pattern: Annotated[str, "Text to find"],
    ctx: ToolContext,
    regex: Annotated[bool, "The pattern is a regular expression"] = False,
    before: Before = 0,
    after: After = 0,
    max_matches: Most = 100,
) -> str:
    """Search the whole output of an earlier call; shows line:text."""
    refuse_many_lines(before, after)
    matcher = Matcher(pattern, ctx.clock.monotonic, literal=not regex, ignore_case=False)
    with _opened(ref_id, ctx) as file:
        parts = takewhile(lambda _: not ctx.cancelled.is_set(), blocks(file, binary=True))
        found = (("", line) for line in matches(parts, matcher, before, after))
        return shown_matches(found, max_matches, before, after) or "[no line matches]"


def _opened(ref_id: str, ctx: ToolContext) -> BinaryIO:
    if ctx.outputs is None:
        raise ToolError("no outputs are kept here")
    return ctx.outputs.open(ref_id.strip())
