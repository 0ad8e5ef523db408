"""The tools tool_output_cache and tool_output_cache_grep: they read and search a stored output as a stream."""

from __future__ import annotations

from itertools import takewhile
from typing import Annotated, BinaryIO

from msgspec.structs import replace

from ...errors import ToolError
from ..fs.line_window import read_part, read_window
from ..sdk.context import ToolContext
from ..sdk.tool import tool
from .search import After, Before, MaxMatches, format_matches, refuse_many_lines

MAX_LINE_WINDOW_CHARS = 8_000  # of a line, shown at once


@tool(risk="low")
def tool_output_cache(
    ref_id: Annotated[str, "Reference, such as o1a2b3c4d"],
    ctx: ToolContext,
    offset: Annotated[int | None, "First line, from 1"] = None,
    limit: Annotated[int | None, "Number of lines"] = None,
    line: Annotated[int, "Only this line; offset and limit count characters"] = 0,
) -> str:
    """Read the whole output of an earlier call that was cut or trimmed."""
    name, file = f"output {ref_id}", _open_output(ref_id, ctx)
    first = 1 if offset is None else offset
    if line:
        limit = min(limit or MAX_LINE_WINDOW_CHARS, MAX_LINE_WINDOW_CHARS)
        text, has_more = read_part(name, file, line, first, limit)
        if not text and first > 1:
            raise ToolError(f"line {line} of {name} has no character {first:,}")
        if has_more:
            text += f"\n[more characters follow; read on with line={line}, offset={first + limit}]"
        return text
    seen = read_window(name, file, "utf-8", first, limit)
    if seen.next:
        return f"{seen.text}[more lines follow; read on with offset={seen.next}]"
    return seen.text or "[the output is empty]"


tool_output_cache = replace(  # many models know reading in a line by that name
    tool_output_cache, definition=replace(tool_output_cache.definition, aliases=("tool_output_cache_line",))
)


@tool(risk="low")
def tool_output_cache_grep(
    ref_id: Annotated[str, "Reference"],
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
        lines = (("", line) for line in find_lines(parts, matcher, before, after))
        return format_matches(lines, max_matches, before, after) or "[no line matches]"


def _open_output(ref_id: str, ctx: ToolContext) -> BinaryIO:
    if ctx.wiring.outputs is None:
        raise ToolError("no outputs are kept here")
    return ctx.wiring.outputs.open(ref_id.strip())
