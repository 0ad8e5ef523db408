"""Reads the words of a command that has a row: options that the row permits, and paths.

Pure, except that it asks which operands are folders.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .option_table import FIND, Row, list_options
from .scanner import UnsafeToParse
from .scripts import FORMAT, compile_language
from .workspace import Workspace

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?[A-Za-z%]{0,3}")
COUNT = re.compile("-[0-9]+")
FIND_OPTION = re.compile("-[PHL]|-O[0-9]")
TESTS = frozenset(f"-{letter}" for letter in "defhrswxL")  # of a file


class FileAccess(NamedTuple):
    """The files that a command reaches: `paths` must be inside the workspace, and if it follows links, so must be what
    the links below `roots` lead to.
    """

    paths: Sequence[str]
    follows_links: bool = False
    roots: Sequence[str] = ()


def read_options(name: str, row: Row, words: Sequence[str], workspace: Workspace) -> FileAccess:
    """The files that the words name. Raises UnsafeToParse for a word that the row does not permit."""
    if row.operands == "anything":
        return FileAccess([])
    if row.operands == "test":
        return FileAccess([_read_test(name, words)])
    reader = _OptionReader(name, row)
    reader.read_words(words)
    if len(reader.operands) > row.max_operands:
        raise UnsafeToParse(f"{name} would be given {len(reader.operands)} operands")
    operands = _list_operand_paths(name, row, reader)
    if reader.seen and row.names and reader.seen <= set(row.names.split()):
        operands = [_get_folder(each) for each in operands]
    follows = reader.follows or (row.follows and any(workspace.is_folder(each) for each in operands))
    return FileAccess([*operands, *reader.paths], follows, operands or ["."])


def count_own_words(name: str, row: Row, words: Sequence[str]) -> int:
    """How many of the words belong to a command that runs another. Raises UnsafeToParse for any other option."""
    return len(words) - _OptionReader(name, row).read_words(words, stops=True)


def _read_test(name: str, words: Sequence[str]) -> str:
    """The file that `test` checks. The words are `! -f FILE` or `-f FILE`."""
    asked = list(words)
    if name == "[":
        if asked[-1:] != ["]"]:
            raise UnsafeToParse("[ is not closed")
        asked.pop()
    if asked[:1] == ["!"]:
        asked = asked[1:]
    if len(asked) != 2 or asked[0] not in TESTS:
        raise UnsafeToParse(f"{name} would do more than check whether a file exists")
    return asked[1]


def _get_folder(path: str) -> str:
    """The folder of a path: a command that shows a name alone looks at nothing else."""
    folder, _, name = path.rstrip("/").rpartition("/")
    return path if name in ("", ".", "..") else folder or ("/" if path.startswith("/") else ".")


def _list_operand_paths(name: str, row: Row, reader: _OptionReader) -> list[str]:
    operands = reader.operands
    if row.operands == "text":
        return []
    if row.operands == "print":
        if not operands or not FORMAT.fullmatch(operands[0]):
            raise UnsafeToParse(f"it is not known what {name} does with that format")
        return []
    if row.operands == "format" and any(not each.startswith("+") for each in operands):
        raise UnsafeToParse(f"{name} would be given something to set")
    if row.operands not in ("pattern", "script") or reader.has_pattern:
        return operands
    if row.operands == "script":
        reader.check_script(operands[0] if operands else "")
    return operands[1:]


class _OptionReader:
    """Reads words as getopt does: options anywhere before `--`, short ones in clusters."""

    def __init__(self, name: str, row: Row) -> None:
        self._name = name
        self._row = row
        self._known = list_options(row)
        self.operands: list[str] = []
        self.paths: list[str] = []
        self.follows = False
        self.has_pattern = False
        self.seen: set[str] = set()  # options

    def read_words(self, words: Sequence[str], *, stops: bool = False) -> int:
        """How many words are left: none, unless it `stops` after the operands that the row has."""
        rest = list(words)[::-1]
        while rest:
            word = rest.pop()
            is_operand = word == "-" or not word.startswith("-") or (stops and bool(self.operands))
            if is_operand and stops and len(self.operands) == self._row.max_operands:
                return len(rest) + 1
            if word == "--" and not stops:
                self.operands += rest[::-1]
                return 0
            if is_operand:
                self.operands.append(word)
            elif word.startswith("--"):
                self._read_long(word, rest)
            elif not (self._row.dash_number and COUNT.fullmatch(word)):
                self._read_cluster(word, rest)
        return 0

    def _read_long(self, word: str, rest: list[str]) -> None:
        option, equals, value = word.partition("=")
        kind = self._find_kind(option)
        if kind in ("flags", "follow"):
            if equals:
                raise UnsafeToParse(f"{option} takes no value")
        elif kind != "attached":
            self._read_value(option, kind, value if equals else None, rest)

    def _read_cluster(self, word: str, rest: list[str]) -> None:
        for at, letter in enumerate(word[1:], start=2):
            kind = self._find_kind(f"-{letter}")
            if kind in ("flags", "follow"):
                continue
            if kind != "attached":
                self._read_value(f"-{letter}", kind, word[at:] or None, rest)
            return

    def _find_kind(self, option: str) -> str:
        kind = self._known.get(option)
        if kind is None:
            raise UnsafeToParse(f"{self._name} {option} is not known to be harmless")
        self.seen.add(option)
        self.follows = self.follows or kind == "follow"
        self.has_pattern = self.has_pattern or option in self._row.patterns
        return kind

    def _read_value(self, option: str, kind: str, value: str | None, rest: list[str]) -> None:
        if value is None:
            if not rest:
                raise UnsafeToParse(f"{option} needs a value")
            value = rest.pop()
            if self.operands:  # on BSD options end at the first operand, so this may be one
                self.paths.append(value)
        if kind == "number" and not NUMBER.fullmatch(value):
            raise UnsafeToParse(f"{option} takes a number")
        if kind == "script":
            self.check_script(value)
        if kind == "path":
            self.paths.append(value)

    def check_script(self, script: str) -> None:
        if not compile_language(self._name).fullmatch(script):
            raise UnsafeToParse(f"{self._name} would be given a script that is not known to be harmless")


def read_find(words: Sequence[str]) -> FileAccess:
    """The words of find, which has a language of its own: the folders to search, then predicates."""
    rest = list(words)[::-1]
    paths: list[str] = []
    follows = False
    while rest and FIND_OPTION.fullmatch(rest[-1]):
        follows = rest.pop() == "-L" or follows
    while rest and not rest[-1].startswith("-") and rest[-1] not in ("(", ")", "!", ","):
        paths.append(rest.pop())
    roots = tuple(paths) or (".",)
    while rest:
        word = rest.pop()
        predicate = FIND.get(word)
        if predicate is None:
            raise UnsafeToParse(f"find {word} is not known to be harmless")
        follows = follows or predicate.follows
        if predicate.takes != "nothing":
            if not rest:
                raise UnsafeToParse(f"{word} needs a value")
            value = rest.pop()
            if predicate.takes == "path":
                paths.append(value)
    return FileAccess(paths, follows, roots)
