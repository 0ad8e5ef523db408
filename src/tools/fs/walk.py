"""The files of a folder of the workspace, in order, less what git ignores. No link is followed or listed.

Each folder is opened beneath the workspace (paths.py), so that whatever is swapped for a link meanwhile
leads nowhere. What a .gitignore says holds with and without a repository; git's own folder is never entered.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...errors import ToolError
from ..sdk.context import ToolContext
from . import paths
from .paths import FOLDER, open_beneath

IGNORE = ".gitignore"
IGNORE_MOST = 1_000_000  # bytes of a .gitignore that are read
STARS_MOST = 4  # in one of its lines: a pattern's cost grows with the length of a name to their power
SECONDS = 30.0  # for going through all files
NEVER = {".git"}


class Rule(NamedTuple):
    """A line of a .gitignore: the expression of pathspec, whether it ignores, and whether it ends with `/**`."""

    expression: re.Pattern[str]
    ignores: bool
    only_inside: bool


class Rules(NamedTuple):
    """What one .gitignore says, the last line first, and the folder it stands in, as a prefix: "" or "a/b/"."""

    folder: str
    rules: tuple[Rule, ...]


class Tree:
    """A folder or one file of the workspace to go through. `cut` says why not all was seen, if so."""

    def __init__(self, path: str, ctx: ToolContext) -> None:
        self._target = paths.resolve(path, ctx.workspace)
        self._ctx = ctx
        self._deadline = ctx.clock.monotonic() + SECONDS
        self._root = -1
        self.cut = ""

    @contextmanager
    def opened(self) -> Iterator[Tree]:
        """With the workspace's folder held open, as the other methods need it."""
        self._root = os.open(self._target.workspace, FOLDER)
        try:
            yield self
        finally:
            os.close(self._root)

    @property
    def start(self) -> str:
        """Where it begins, as a prefix of paths: "" or "a/b/"; a file's own path where it is one."""
        return "".join(f"{part}/" for part in self._target.parts)

    def open(self, path: str) -> int:
        """A descriptor of a regular file, by its path in the workspace. Raises OSError."""
        return open_beneath(self._root, path, paths.READ)

    def is_late(self) -> bool:
        """Whether the time is over, which `cut` then says. Raises ToolError where the call is cancelled."""
        self._ctx.raise_if_cancelled()
        if self._ctx.clock.monotonic() > self._deadline:
            self.cut = f"not all files were seen within {SECONDS:g} s; name a folder"
        return bool(self.cut)

    def files(self) -> Iterator[str]:
        """Paths relative to the workspace. Raises ToolError for what is neither folder nor file."""
        whole = self.start.rstrip("/")
        try:
            os.close(open_beneath(self._root, whole or ".", FOLDER))
        except NotADirectoryError:
            os.close(paths.open_to_read(self._target))  # or the error says what it is
            yield whole
            return
        except OSError as error:
            raise ToolError(f"{self._target.given}: {error.strerror}") from error
        yield from self._below(self.start, self._rules_above())

    def _rules_above(self) -> tuple[Rules, ...]:
        """Of the folders that the start lies in; none where it is itself ignored and yet was asked for."""
        rules: tuple[Rules, ...] = ()
        prefix = ""
        for part in self._target.parts:
            rules += self._rules_of(prefix)
            prefix += f"{part}/"
            if _is_ignored(prefix, rules):
                return ()
        return rules

    def _below(self, prefix: str, rules: tuple[Rules, ...]) -> Iterator[str]:
        waiting: list[tuple[str, tuple[Rules, ...]]] = [(prefix, rules)]
        while waiting:
            path, rules = waiting.pop()
            if path and not path.endswith("/"):
                yield path
                continue
            if self.is_late():
                return
            rules += self._rules_of(path)
            entries = sorted((f"{path}{name}" for name in self._names(path)), reverse=True)
            waiting += [(entry, rules) for entry in entries if not _is_ignored(entry, rules)]

    def _names(self, folder: str) -> list[str]:
        """What is in a folder: files, and folders with a slash. One that cannot be read is taken for empty."""
        try:
            descriptor = open_beneath(self._root, folder or ".", FOLDER)
        except OSError:
            return []
        try:
            with os.scandir(descriptor) as entries:
                return [
                    f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                    for entry in entries
                    if entry.name not in NEVER
                    and (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False))
                ]
        except OSError:
            return []
        finally:
            os.close(descriptor)

    def _rules_of(self, folder: str) -> tuple[Rules, ...]:
        try:
            with os.fdopen(self.open(f"{folder}{IGNORE}"), "rb") as file:
                lines = file.read(IGNORE_MOST).decode("utf-8", "replace").splitlines()
        except OSError:
            return ()
        return (Rules(folder, rules),) if (rules := _rules(lines)) else ()


def _is_ignored(path: str, above: tuple[Rules, ...]) -> bool:
    """By the nearest .gitignore that says anything of it, and in that by the last line that does."""
    for folder, rules in reversed(above):
        name = path[len(folder) :]
        for rule in rules:
            if _fits(rule, name):
                return rule.ignores
    return False


def _fits(rule: Rule, name: str) -> bool:
    """Whether it speaks of this very name: pathspec's expressions also fit what is below (by their group ps_d)."""
    found = rule.expression.match(name.rstrip("/") if rule.only_inside else name)
    return found is not None and (found.end() == len(name) or not found.groupdict().get("ps_d"))


def _rules(lines: list[str]) -> tuple[Rule, ...]:
    """The rules of a .gitignore, less the lines that are none."""
    from pathspec import GitIgnoreSpec  # start-up is measured

    rules: list[Rule] = []
    for line in lines:
        if line.replace("**", "").count("*") > STARS_MOST:
            continue
        try:
            patterns = GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue
        rules += [
            Rule(each.regex, each.include, line.rstrip().endswith("/**"))
            for each in patterns
            if each.regex is not None and each.include is not None
        ]
    return tuple(reversed(rules))
