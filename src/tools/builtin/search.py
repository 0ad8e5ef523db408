"""glob and grep: files by name and lines by pattern, in the workspace, less what git ignores."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Annotated

from ...errors import ToolError
from ..fs.grep import Line, Matcher, blocks, find_rg, holding, matches
from ..fs.walk import Tree
from ..sdk.context import ToolContext
from ..sdk.registry import tool

if TYPE_CHECKING:
    import regex

FILES_SHOWN = 1_000
BATCH = 2_000  # files looked at together; their paths must fit on a command line, else rg is done without
WORTH_RG = 100  # files; starting it for fewer costs more than it saves
AROUND_MOST = 100  # lines
GLOB_SECONDS = 1.0  # that a pattern may take on one name

Before = Annotated[int, "Lines to show before each match"]
After = Annotated[int, "Lines to show after each match"]
Most = Annotated[int, "Show at most this many matches; default: 100"]


@tool(risk="low")
def glob(
    pattern: Annotated[str, "Glob such as src/**/*.{js,ts}; without a / it matches in every folder"],
    ctx: ToolContext,
    path: Annotated[str, "Folder to search; default: the workspace"] = ".",
) -> str:
    """Find files by name, except those that .gitignore excludes."""
    with Tree(path, ctx).opened() as tree:
        found = list(islice(_named(pattern, tree, tree.files()), FILES_SHOWN + 1))
    notes = [f"[more than {FILES_SHOWN:,} files; narrow the pattern]"] if len(found) > FILES_SHOWN else []
    notes += [f"[{tree.cut}]"] if tree.cut else []
    return "\n".join([*found[:FILES_SHOWN], *notes]) or "[no file matches]"


@tool(risk="low")
def grep(
    pattern: Annotated[str, "Regular expression, matched line by line"],
    ctx: ToolContext,
    path: Annotated[str, "File or folder to search; default: the workspace"] = ".",
    include: Annotated[str | None, "Search only files that match this glob"] = None,
    ignore_case: Annotated[bool, "Ignore case"] = False,
    before: Before = 0,
    after: After = 0,
    max_matches: Most = 100,
) -> str:
    """Search text files, except those that .gitignore excludes; shows path:line:text."""
    refuse_many_lines(before, after)
    matcher = Matcher(pattern, ctx.clock.monotonic, literal=False, ignore_case=ignore_case)
    with Tree(path, ctx).opened() as tree:
        files = tree.files() if include is None else _named(include, tree, tree.files())
        found = (
            (file, line)
            for batch in _batches(files)
            for file in _worth_reading(batch, matcher, ctx)
            for line in _lines(tree, file, matcher, before, after)
        )
        shown = shown_matches(found, max_matches, before, after)
    return "\n".join(filter(None, [shown, tree.cut and f"[{tree.cut}]"])) or "[no line matches]"


def shown_matches(found: Iterable[tuple[str, Line]], most: int, before: int, after: int) -> str:
    """Lines as grep shows them, until as many match, with those around these; a path that is "" is left out."""
    if most < 1:
        raise ToolError("max_matches counts from 1")
    shown: list[str] = []
    count = 0
    last = match = ("", 0)
    for path, line in found:
        count += line.matches
        if count > most:
            shown.append(f"[there are more than {most:,} matches]")
            break
        if line.matches:
            match = (path, line.number)
        elif count == most and (path != match[0] or line.number > match[1] + after):
            continue  # it belongs to a match that is not shown
        if before + after and shown and last != (path, line.number - 1):
            shown.append("--")
        mark = ":" if line.matches else "-"
        shown.append(f"{path}{path and mark}{line.number}{mark}{line.text}")
        last = (path, line.number)
    return "\n".join(shown)


def refuse_many_lines(*counts: int) -> None:
    if not all(0 <= each <= AROUND_MOST for each in counts):
        raise ToolError(f"before and after are 0 to {AROUND_MOST}")


def _named(pattern: str, tree: Tree, files: Iterable[str]) -> Iterator[str]:
    """Those of the files whose path below the folder that is searched fits the pattern."""
    fits = compile_glob(pattern)
    for file in files:
        name = file.removeprefix(tree.start) if file.startswith(tree.start) else file.rpartition("/")[2]
        try:
            if fits.fullmatch(name, timeout=GLOB_SECONDS):
                yield file
        except TimeoutError as error:
            raise ToolError(f"the pattern {pattern[:80]!a} takes too long", "Use fewer stars.") from error


def _batches(files: Iterator[str]) -> Iterator[list[str]]:
    while batch := list(islice(files, BATCH)):
        yield batch


def _worth_reading(files: list[str], matcher: Matcher, ctx: ToolContext) -> list[str]:
    """Less those of which rg says that nothing in them can match."""
    if len(files) < WORTH_RG or not matcher.words or not (rg := find_rg(ctx)):
        return files
    holders = holding(rg, matcher.words, files, ctx.workspace, ignore_case=matcher.ignore_case)
    return files if holders is None else [file for file in files if file in holders]


def _lines(tree: Tree, path: str, matcher: Matcher, before: int, after: int) -> Iterator[Line]:
    """Of a file that is there, can be read and is text."""
    if tree.is_late():
        return
    try:
        file = os.fdopen(tree.open(path), "rb")
    except OSError:
        return
    with file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            parts = takewhile(lambda _: not tree.is_late(), blocks(file))
            yield from matches(parts, matcher, before, after)


def compile_glob(pattern: str) -> regex.Pattern[str]:
    """The expression for paths relative to a folder, `/` between their parts.

    `**` is any number of folders; a pattern without `/` matches in every folder. Raises ToolError for a pattern that
    leads out of the folder. Braces may expand to a thousand patterns, wcmatch's own limit.
    """
    import regex  # start-up is measured
    from wcmatch import glob as wcglob

    below = pattern.removeprefix("./")
    if below.startswith(("/", "~")) or ".." in re.split(r"[/{},]", below):
        raise ToolError(f"the pattern {below} leads outside", "Give one relative to the folder searched.")
    below = below if "/" in below.rstrip("/") else f"**/{below}"
    flags = wcglob.BRACE | wcglob.DOTGLOB | wcglob.FORCEUNIX | wcglob.GLOBSTAR
    expressions, _ = wcglob.translate(f"{below}**" if below.endswith("/") else below, flags=flags)
    return regex.compile("|".join(expressions))
