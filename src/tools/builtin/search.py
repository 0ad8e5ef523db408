"""The tools glob and grep: they find files by name and lines by pattern, except what git ignores."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated

from ...errors import ToolError
from ...types.file_names import escape_name
from ..sdk.context import ToolContext
from ..sdk.tool import tool

if TYPE_CHECKING:
    import regex

    from ..fs.grep import FoundLine, LineMatcher
    from ..fs.walk import Tree

MAX_FILES_SHOWN = 1_000
MAX_CONTEXT_LINES = 100
GLOB_TIMEOUT_S = 1.0  # for a pattern on one name

Before = Annotated[int, "Lines before each match"]
After = Annotated[int, "Lines after each match"]
MaxMatches = Annotated[int, "Most matches; default: 100"]


@tool(risk="low")
def glob(
    pattern: Annotated[str, "Glob such as src/**/*.{js,ts}; without a / it matches in every folder"],
    ctx: ToolContext,
    path: Annotated[str, "Folder; default: the workspace"] = ".",
) -> str:
    """Find files by name, except those that .gitignore excludes."""
    from ..fs.walk import Tree  # start-up is measured

    with Tree(path, ctx, "glob").open_root() as tree:
        matching = list(islice(_filter_by_glob(pattern, tree, tree.files()), MAX_FILES_SHOWN + 1))
    lines = list(map(escape_name, matching[:MAX_FILES_SHOWN]))
    if len(matching) > MAX_FILES_SHOWN:
        lines.append(f"[more than {MAX_FILES_SHOWN:,} files; narrow the pattern]")
    return "\n".join([*lines, *tree.notes]) or "[no file matches]"


@tool(risk="low")
def grep(
    pattern: Annotated[str, "Regular expression, matched line by line"],
    ctx: ToolContext,
    path: Annotated[str, "File or folder; default: the workspace"] = ".",
    include: Annotated[str | None, "Only files that match this glob"] = None,
    ignore_case: Annotated[bool, "Ignore case"] = False,
    before: Before = 0,
    after: After = 0,
    max_matches: MaxMatches = 100,
) -> str:
    """Search text files, except those that .gitignore excludes; shows path:line:text."""
    from ..fs.grep import LineMatcher
    from ..fs.walk import Tree

    refuse_many_lines(before, after)
    matcher = LineMatcher(pattern, ctx.clock.monotonic, literal=False, ignore_case=ignore_case)
    with Tree(path, ctx, "grep").open_root() as tree:
        files = tree.files()
        if include is not None:
            files = _filter_by_glob(include, tree, files)
        lines = ((file, line) for file in files for line in _find_in_file(tree, file, matcher, before, after))
        shown = format_matches(lines, max_matches, before, after)
    return "\n".join(filter(None, [shown, *tree.notes])) or "[no line matches]"


def format_matches(lines: Iterable[tuple[str, FoundLine]], max_matches: int, before: int, after: int) -> str:
    """Lines as grep prints them, up to `max_matches` matches and the lines around them; a path "" is not printed."""
    if max_matches < 1:
        raise ToolError("max_matches counts from 1")
    shown: list[str] = []
    count = 0
    last = match = ("", 0)
    for path, line in lines:
        count += line.matches
        if count > max_matches:
            shown.append(f"[there are more than {max_matches:,} matches]")
            break
        if line.matches:
            match = (path, line.number)
        elif count == max_matches and (path != match[0] or line.number > match[1] + after):
            continue  # it stands near a match that is not shown
        if before + after and shown and last != (path, line.number - 1):
            shown.append("--")
        mark = ":" if line.matches else "-"
        shown.append(f"{escape_name(path)}{path and mark}{line.number}{mark}{line.text}")
        last = (path, line.number)
    return "\n".join(shown)


def refuse_many_lines(*counts: int) -> None:
    if not all(0 <= each <= MAX_CONTEXT_LINES for each in counts):
        raise ToolError(f"before and after are 0 to {MAX_CONTEXT_LINES}")


def _filter_by_glob(pattern: str, tree: Tree, files: Iterable[str]) -> Iterator[str]:
    """The files whose path below the searched folder matches the pattern."""
    fits = compile_glob(pattern)
    for file in files:
        name = file.rpartition("/")[2]  # of the one file that is searched
        if file.startswith(tree.start):
            name = file.removeprefix(tree.start)
        try:
            if fits.fullmatch(name, timeout=GLOB_TIMEOUT_S):
                yield file
        except TimeoutError as error:
            raise ToolError(f"the pattern {pattern[:80]!a} takes too long", "Use fewer stars.") from error


def _find_in_file(tree: Tree, path: str, matcher: LineMatcher, before: int, after: int) -> Iterator[FoundLine]:
    """Yield nothing for a file that is missing, unreadable or not text."""
    from ..fs.grep import find_lines, read_blocks

    if tree.is_late():
        return
    try:
        file = tree.open(path)
    except OSError:
        return
    with file:
        parts = takewhile(lambda _: not tree.is_late(), read_blocks(file))
        yield from find_lines(parts, matcher, before, after)


def compile_glob(pattern: str) -> regex.Pattern[str]:
    """The expression for paths relative to a folder, `/` between their parts.

    `**` is any number of folders; a pattern without `/` matches in every folder. Raises ToolError for a pattern that
    leads out of the folder. Braces may expand to a thousand patterns, wcmatch's own limit.
    """
    import regex  # start-up is measured
    from wcmatch import glob as wcglob

    below = pattern.removeprefix("./")
    if below.startswith(("/", "~")) or ".." in re.split(r"[/{},]", below):
        raise ToolError(f"the pattern {escape_name(below)} leads outside", "Give one relative to the folder searched.")
    if "/" not in below.rstrip("/"):
        below = f"**/{below}"
    if below.endswith("/"):
        below += "**"
    flags = wcglob.BRACE | wcglob.DOTGLOB | wcglob.FORCEUNIX | wcglob.GLOBSTAR
    expressions, _ = wcglob.translate(below, flags=flags)
    return regex.compile("|".join(expressions))
