"""List the files of a folder of the workspace, in order, except what git ignores. Links are not listed or followed.

Each folder is opened beneath the workspace (paths.py), so that a folder replaced by a link is refused. A .gitignore
holds with and without a repository; `.git` is never entered. pathspec makes an expression of each of its lines; which
line decides is found here, since pathspec also applies a folder's lines to what is below it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, NamedTuple

from msgspec import Struct

from ...beneath import FOLDER, READ, open_beneath, to_regular_file
from ...errors import ToolError
from ..sdk.context import ToolContext
from . import paths

IGNORE_FILE = ".gitignore"
MAX_IGNORE_BYTES = 1_000_000  # read of a .gitignore
MAX_STARS = 4  # in one of its lines: matching takes the length of a name to the power of their number
WALK_TIMEOUT_S = 30.0  # for all files
GIT_FOLDER = ".git"


class IgnoreRule(Struct, frozen=True):
    """A line of a .gitignore: pathspec's expression, whether it ignores, and whether it ends with `/**`."""

    expression: re.Pattern[str]
    ignores: bool
    only_inside: bool


class IgnoreFile(NamedTuple):
    """The rules of a .gitignore, the last line first, and its folder as a prefix: "" or "a/b/"."""

    folder: str
    rules: tuple[IgnoreRule, ...]


class Tree:
    """A folder or one file of the workspace, for a tool. `cut` says why not all files were seen, if so."""

    def __init__(self, path: str, ctx: ToolContext, tool: str = "") -> None:
        self._target = target = paths.find_target(path, ctx.workspace, ctx.call, ctx.wiring.added_folders)
        is_added = target.top in ctx.wiring.added_folders
        self._before = f"{target.top}/" if is_added else ""  # paths in an added folder are whole
        self._ctx = ctx
        self._tool = tool
        self._deadline = ctx.clock.monotonic() + WALK_TIMEOUT_S
        self._root = -1
        self.cut = ""
        self._has_left_out = False

    @property
    def notes(self) -> list[str]:
        """Lines for the model: why not all files were seen."""
        notes = [self.cut]
        if self._has_left_out:
            notes.append(f"files that a rule keeps from {self._tool} were left out")
        return [f"[{each}]" for each in notes if each]

    @contextmanager
    def open_root(self) -> Iterator[Tree]:
        """Hold the workspace, or the added folder, open, as the other methods need it."""
        self._root = os.open(self._target.top, FOLDER)
        try:
            yield self
        finally:
            os.close(self._root)

    @property
    def start(self) -> str:
        """The folder as a prefix of the paths of `files`: "" or "a/b/"."""
        return f"{self._before}{self._folder}"

    @property
    def _folder(self) -> str:
        return "".join(f"{part}/" for part in self._target.parts)

    def open(self, path: str) -> BinaryIO:
        """Open one of `files` for reading. Raises OSError."""
        return self._open(path.removeprefix(self._before))

    def _open(self, below: str) -> BinaryIO:
        return to_regular_file(open_beneath(self._root, below, READ))

    def is_late(self) -> bool:
        """Whether the time is over; `cut` then says so. Raises ToolError if the call is cancelled."""
        self._ctx.raise_if_cancelled()
        if self._ctx.clock.monotonic() > self._deadline:
            self.cut = f"not all files were seen within {WALK_TIMEOUT_S:g} s; name a folder"
        return bool(self.cut)

    def files(self) -> Iterator[str]:
        """Yield paths relative to the workspace, or whole ones, but for those that rules keep from the tool.

        Raises ToolError if it is neither a folder nor a file.
        """
        for below in self._list_all():
            path = f"{self._before}{below}"
            if self._ctx.wiring.can_show(self._tool, path):
                yield path
            else:
                self._has_left_out = True

    def _list_all(self) -> Iterator[str]:
        start = self._folder.rstrip("/")
        try:
            os.close(open_beneath(self._root, start or ".", FOLDER))
        except NotADirectoryError:
            os.close(paths.open_to_read(self._target))  # raises an error that says what it is
            yield start
            return
        except OSError as error:
            raise ToolError(f"{self._target.name}: {error.strerror}") from error
        yield from self._walk(self._folder, self._read_rules_above())

    def _read_rules_above(self) -> tuple[IgnoreFile, ...]:
        """The rules of the folders above; none if the folder is ignored itself, since the model asked for it."""
        rules: tuple[IgnoreFile, ...] = ()
        prefix = ""
        for part in self._target.parts:
            rules += self._read_rules(prefix)
            prefix += f"{part}/"
            if is_ignored(prefix, rules):
                return ()
        return rules

    def _walk(self, prefix: str, rules: tuple[IgnoreFile, ...]) -> Iterator[str]:
        waiting: list[tuple[str, tuple[IgnoreFile, ...]]] = [(prefix, rules)]
        while waiting:
            path, rules = waiting.pop()
            if path and not path.endswith("/"):
                yield path
                continue
            if self.is_late():
                return
            rules += self._read_rules(path)
            entries = sorted((f"{path}{name}" for name in self._list_folder(path)), reverse=True)
            waiting += [(entry, rules) for entry in entries if not is_ignored(entry, rules)]

    def _list_folder(self, folder: str) -> list[str]:
        """The files, and the folders with a slash; none if the folder cannot be read."""
        with suppress(OSError):
            descriptor = open_beneath(self._root, folder or ".", FOLDER)
            try:
                with os.scandir(descriptor) as entries:
                    return [
                        f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name
                        for entry in entries
                        if entry.name != GIT_FOLDER
                        and (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False))
                    ]
            finally:
                os.close(descriptor)
        return []

    def _read_rules(self, folder: str) -> tuple[IgnoreFile, ...]:
        try:
            with self._open(f"{folder}{IGNORE_FILE}") as file:
                return read_ignore_file(folder, file.read(MAX_IGNORE_BYTES))
        except OSError:
            return ()


def is_ignored(path: str, above: tuple[IgnoreFile, ...]) -> bool:
    """The nearest .gitignore with a matching line decides, and in it the last such line."""
    for folder, rules in reversed(above):
        name = path[len(folder) :]
        for rule in rules:
            if _matches(rule, name):
                return rule.ignores
    return False


def _matches(rule: IgnoreRule, name: str) -> bool:
    """Whether the rule is about this name; pathspec's expressions also match what is below it, by their group ps_d."""
    match = rule.expression.match(name.rstrip("/") if rule.only_inside else name)
    return match is not None and (match.end() == len(name) or not match.groupdict().get("ps_d"))


def read_ignore_file(folder: str, content: bytes) -> tuple[IgnoreFile, ...]:
    """The .gitignore of a folder, which may have a byte order mark, if it has rules. Other lines are skipped."""
    from pathspec import GitIgnoreSpec  # start-up is measured

    rules: list[IgnoreRule] = []
    for line in content.decode("utf-8-sig", "replace").splitlines():
        if line.replace("**", "").count("*") > MAX_STARS:
            continue
        try:
            patterns = GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue
        rules += [
            IgnoreRule(each.regex, each.include, line.rstrip().endswith("/**"))
            for each in patterns
            if each.regex is not None and each.include is not None
        ]
    if not rules:
        return ()
    return (IgnoreFile(folder, tuple(reversed(rules))),)
