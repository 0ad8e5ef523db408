"""The tools tool_output_cache and tool_output_cache_grep: they read and search a stored output as a stream."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated, BinaryIO

from ...errors import ToolError
from ..fs.line_window import read_window
from ..sdk.context import ToolContext
from ..sdk.tool import tool
from .search import After, Before, MaxMatches, format_matches, refuse_many_lines


@tool(risk="low")
def tool_output_cache(
    ref_id: Annotated[str, "Reference of the output, such as o1a2b3c4d"],
    ctx: ToolContext,
    offset: Annotated[int | None, "First line to show, counted from 1"] = None,
    limit: Annotated[int | None, "Number of lines to show"] = None,
) -> str:
    """Read the whole output of an earlier call that was cut or trimmed."""
    seen = read_window(f"output {ref_id}", _open_output(ref_id, ctx), "utf-8", 1 if offset is None else offset, limit)
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
    max_matches: MaxMatches = 100,
) -> str:
    """Search the whole output of an earlier call; shows line:text."""
    from ..fs.grep import LineMatcher, find_lines, read_blocks  # start-up is measured

    refuse_many_lines(before, after)
    matcher = LineMatcher(pattern, ctx.clock.monotonic, literal=not regex, ignore_case=False)
    with _open_output(ref_id, ctx) as file:
        parts = takewhile(lambda _: not ctx.cancelled.is_set(), read_blocks(file, binary=True))
        found = (("", line) for line in find_lines(parts, matcher, before, after))
        return format_matches(found, max_matches, before, after) or "[no line matches]"


def _open_output(ref_id: str, ctx: ToolContext) -> BinaryIO:
    if ctx.outputs is None:
        raise ToolError("no outputs are kept here")
    return ctx.outputs.open(ref_id.strip())
