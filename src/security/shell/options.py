"""What the words of a known command are: options that its row permits, and paths. Pure but for what a folder is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .option_table import FIND, Row, options_of
from .scripts import AWK, FORMAT, JQ, SED
from .unclear import Unclear
from .workspace import Ground

NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?[A-Za-z%]{0,3}")
COUNT = re.compile("-[0-9]+")
FIND_OPTION = re.compile("-[PHL]|-O[0-9]")
TESTS = frozenset(f"-{letter}" for letter in "defhrswxL")  # of a file
LANGUAGES = {"sed": SED, "awk": AWK, "jq": JQ}


class Given(NamedTuple):
    """What a command is given: words that must be paths inside the workspace, and whether links are followed below
    those where it looks.
    """

    paths: Sequence[str]
    follows: bool = False
    tops: Sequence[str] = ()


def read_options(name: str, row: Row, words: Sequence[str], ground: Ground) -> Given:
    """What the words are by the row. Unclear for one that it does not permit."""
    if row.operands == "anything":
        return Given([])
    if row.operands == "test":
        return Given([_tested(name, words)])
    reader = _Reader(name, row)
    reader.read(words)
    if len(reader.operands) > row.most:
        raise Unclear(f"{name} would be given {len(reader.operands)} operands")
    operands = _paths_of(name, row, reader)
    if reader.seen and row.names and reader.seen <= set(row.names.split()):
        operands = [_holder(each) for each in operands]
    follows = reader.follows or (row.follows and any(ground.is_folder(each) for each in operands))
    return Given([*operands, *reader.paths], follows, operands or ["."])


def own_words(name: str, row: Row, words: Sequence[str]) -> int:
    """How many of the words are those of a command that runs another. Unclear where it is given more than that."""
    return len(words) - _Reader(name, row).read(words, stops=True)


def _tested(name: str, words: Sequence[str]) -> str:
    """The file that is asked for: the words are `! -f file` or less."""
    asked = list(words)
    if name == "[":
        if asked[-1:] != ["]"]:
            raise Unclear("[ is not closed")
        asked.pop()
    if asked[:1] == ["!"]:
        asked = asked[1:]
    if len(asked) != 2 or asked[0] not in TESTS:
        raise Unclear(f"{name} would do more than check whether a file exists")
    return asked[1]


def _holder(path: str) -> str:
    """The folder that a name stands in: whoever shows the name alone looks no further."""
    folder, _, name = path.rstrip("/").rpartition("/")
    return path if name in ("", ".", "..") else folder or ("/" if path.startswith("/") else ".")


def _paths_of(name: str, row: Row, reader: _Reader) -> list[str]:
    operands = reader.operands
    if row.operands == "text":
        return []
    if row.operands == "print":
        if not operands or not FORMAT.fullmatch(operands[0]):
            raise Unclear(f"it is not known what {name} does with that format")
        return []
    if row.operands == "format" and any(not each.startswith("+") for each in operands):
        raise Unclear(f"{name} would be given something to set")
    if row.operands not in ("pattern", "script") or reader.has_pattern:
        return operands
    if row.operands == "script":
        reader.check_script(operands[0] if operands else "")
    return operands[1:]


class _Reader:
    """Words as getopt reads them: options anywhere before --, short ones in clusters."""

    def __init__(self, name: str, row: Row) -> None:
        self._name = name
        self._row = row
        self._known = options_of(row)
        self.operands: list[str] = []
        self.paths: list[str] = []
        self.follows = False
        self.has_pattern = False
        self.seen: set[str] = set()  # options

    def read(self, words: Sequence[str], *, stops: bool = False) -> int:
        """How many words are left over: none, unless it `stops` behind the operands that the row has."""
        rest = list(words)[::-1]
        while rest:
            word = rest.pop()
            is_operand = word == "-" or not word.startswith("-") or (stops and bool(self.operands))
            if is_operand and stops and len(self.operands) == self._row.most:
                return len(rest) + 1
            if word == "--" and not stops:
                self.operands += rest[::-1]
                return 0
            if is_operand:
                self.operands.append(word)
            elif word.startswith("--"):
                self._long(word, rest)
            elif not (self._row.dash_number and COUNT.fullmatch(word)):
                self._cluster(word, rest)
        return 0

    def _long(self, word: str, rest: list[str]) -> None:
        option, equals, value = word.partition("=")
        kind = self._kind(option)
        if kind in ("flags", "follow"):
            if equals:
                raise Unclear(f"{option} takes no value")
        elif kind != "attached":
            self._value(option, kind, value if equals else None, rest)

    def _cluster(self, word: str, rest: list[str]) -> None:
        for at, letter in enumerate(word[1:], start=2):
            kind = self._kind(f"-{letter}")
            if kind in ("flags", "follow"):
                continue
            if kind != "attached":
                self._value(f"-{letter}", kind, word[at:] or None, rest)
            return

    def _kind(self, option: str) -> str:
        kind = self._known.get(option)
        if kind is None:
            raise Unclear(f"{self._name} {option} is not known to be harmless")
        self.seen.add(option)
        self.follows = self.follows or kind == "follow"
        self.has_pattern = self.has_pattern or option in self._row.patterns
        return kind

    def _value(self, option: str, kind: str, value: str | None, rest: list[str]) -> None:
        if value is None:
            if not rest:
                raise Unclear(f"{option} needs a value")
            value = rest.pop()
            if self.operands:  # where options end at the first operand, as on BSD, it is an operand
                self.paths.append(value)
        if kind == "number" and not NUMBER.fullmatch(value):
            raise Unclear(f"{option} takes a number")
        if kind == "script":
            self.check_script(value)
        if kind == "path":
            self.paths.append(value)

    def check_script(self, script: str) -> None:
        if not LANGUAGES[self._name].fullmatch(script):
            raise Unclear(f"{self._name} would be given a script that is not known to be harmless")


def read_find(words: Sequence[str]) -> Given:
    """find has a language of its own: where to look, then what for."""
    rest = list(words)[::-1]
    paths: list[str] = []
    follows = False
    while rest and FIND_OPTION.fullmatch(rest[-1]):
        follows = rest.pop() == "-L" or follows
    while rest and not rest[-1].startswith("-") and rest[-1] not in ("(", ")", "!", ","):
        paths.append(rest.pop())
    tops = tuple(paths) or (".",)
    while rest:
        word = rest.pop()
        predicate = FIND.get(word)
        if predicate is None:
            raise Unclear(f"find {word} is not known to be harmless")
        follows = follows or predicate.follows
        if predicate.takes != "nothing":
            if not rest:
                raise Unclear(f"{word} needs a value")
            value = rest.pop()
            if predicate.takes == "path":
                paths.append(value)
    return Given(paths, follows, tops)
