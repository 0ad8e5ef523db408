"""Might a command line do what a rule denies, or write what is protected? Wide: what cannot be read might.

All commands of a line are looked at, however deep: in substitutions, groups, loops and functions, behind `env`, `xargs`
and their like, in what `sh -c` and `eval` are given. What a word becomes only when it runs may become anything.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .harmless import LAUNCHERS, SHELLS
from .parse import LONGEST, literal
from .syntax import WORDS, parse

if TYPE_CHECKING:
    from tree_sitter import Node

Words = Sequence[str | None]  # None: not known before it runs
UNKNOWN: Words = (None,)
DEEPEST = 5  # command lines inside command lines
MOST_FOLDERS = 32  # that a redirection is looked at from
MOST_WORDS = 200  # of a command that runs another
EVALUATING = frozenset({"eval", "source", ".", "trap", "alias"})
RUNNING = LAUNCHERS | frozenset({"exec", "command", "builtin", "trap", "coproc", "alias"})
COMPOSED = re.compile(r"[\s;&|()<>`{}!]")  # what makes a word more than one plain command's name
FINDING = {"find": ("-exec", "-execdir", "-ok", "-okdir"), "fd": ("-x", "-X", "--exec", "--exec-batch")}


def could_be(line: str, denied: Sequence[str]) -> bool:
    """Whether some command of the line might begin with the denied words, options aside."""
    return any(_matches(words, denied) for words in _commands(line, 0))


def written(line: str, depth: int = 0) -> Iterator[str | None]:
    """The files that the line's redirections write; None for one that is not known before it runs.

    What is written behind a `cd` is named as from each folder that it may be in; in a line for a shell, as if it ran.
    """
    if depth > DEEPEST or _unreadable(line):
        return
    files: list[str | None] = []
    folders = [""]
    stack = [parse(line)]
    while stack:
        node = stack.pop()
        if node.type == "file_redirect" and any(">" in child.type for child in node.children):
            files += [_text(child) for child in node.named_children if child.type != "file_descriptor"]
        if node.type == "command":
            words = _words(node)
            if _name(words) in ("cd", "pushd") and words[-1] and len(folders) < MOST_FOLDERS:
                folders = [*dict.fromkeys([*folders, *(posixpath.join(folder, words[-1], "") for folder in folders)])]
            for inner in _given_lines(words):
                files += written(inner, depth + 1)
        stack.extend(reversed(node.named_children))
    for file in dict.fromkeys(files):
        yield from [None] if file is None else (posixpath.join(folder, file) for folder in folders)


def _unreadable(line: str) -> bool:
    return len(line) > LONGEST or "\0" in line or any("\ud800" <= character <= "\udfff" for character in line)


def _commands(line: str, depth: int) -> Iterator[Words]:
    if depth > DEEPEST or _unreadable(line):
        yield UNKNOWN
        return
    root = parse(line)
    if root.has_error:
        yield UNKNOWN
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "command":
            yield from _unwrapped(_words(node), depth)
        stack.extend(node.named_children)


def _words(command: Node) -> Words:
    return [
        _text(child)
        for child in command.named_children
        if child.type in WORDS or child.type == "command_name" or child.type.endswith(("expansion", "substitution"))
    ]


def _unwrapped(words: Words, depth: int) -> Iterator[Words]:
    """The command, and those that it runs."""
    if not words:
        return
    yield from _direct(words, depth)
    name = _name(words)
    starts: Sequence[int] = range(1, len(words)) if name in RUNNING else ()
    if name in FINDING:
        starts = [at + 1 for at, word in enumerate(words[:-1]) if word in FINDING[name]]
    if len(starts) > MOST_WORDS:
        yield UNKNOWN
        return
    for at in starts:
        yield from _direct(words[at:], depth)


def _direct(words: Words, depth: int) -> Iterator[Words]:
    """The command, and those in the command lines that it is given."""
    yield words
    name, rest = _name(words), words[1:]
    if name in SHELLS and not any(word and not word.startswith("-") for word in rest):
        yield UNKNOWN  # it reads what to run
    if (name in EVALUATING and None in rest) or (name == "git" and _sets_alias(rest)):
        yield UNKNOWN
    for line in _given_lines(words):
        yield from _commands(line, depth + 1)


def _given_lines(words: Words) -> list[str]:
    """The command lines that a command is given to run."""
    if _name(words) == "eval":
        return [" ".join(word or "" for word in words[1:])]
    return [line for word in words[1:] if word for line in _lines(word)] if _name(words) in RUNNING else []


def _lines(word: str) -> Iterator[str]:
    """The command lines that a word may be, hold behind an option's letter (`env -Sls`), or give a name to (`l=ls`)."""
    if COMPOSED.search(word):
        yield word
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        yield word[2:]
    if "=" in word:
        yield word.partition("=")[2]


def _sets_alias(words: Words) -> bool:
    """Whether git is told, for this once, what a word of its own shall mean."""
    return any(word == "-c" and (name or "alias.").casefold().startswith("alias.") for word, name in pairwise(words))


def _name(words: Words) -> str:
    return ((words[0] if words else "") or "").rpartition("/")[2]


def _matches(words: Words, denied: Sequence[str]) -> bool:
    """Whether the words begin with the denied ones, when options and their values are passed over."""
    if words[0] is None:
        return True
    if words[0].rpartition("/")[2].casefold() != denied[0].rpartition("/")[2].casefold():
        return False
    at = 1
    for wanted in denied[1:]:
        after_option = False
        while at < len(words) and words[at] != wanted:
            word = words[at]
            if word is None:
                return True
            if not (word.startswith("-") or after_option):
                return False
            after_option = word.startswith("-")
            at += 1
        if at == len(words):
            return False
        at += 1
    return True


def _text(node: Node) -> str | None:
    """What a word is, less its quotes; None where something may be put in its place."""
    return literal((node.text or b"").decode("utf-8", "replace"))
