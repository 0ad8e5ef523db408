"""Finds out whether a command line may run what a rule denies, or write a protected file. Unreadable lines may.

It looks at all commands of a line, however deep: in substitutions, groups, loops and functions, behind `env`, `xargs`
and the like, and in the command lines given to `sh -c` and `eval`. A word that is known only when the line runs counts
as anything.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from .launchers import LAUNCHERS, SHELLS
from .parse import MAX_LINE_CHARS, WORD_NODES, parse_tree
from .scanner import read_literal

if TYPE_CHECKING:
    from tree_sitter import Node

Words = Sequence[str | None]  # None: known only when the line runs
UNKNOWN: Words = (None,)
MAX_DEPTH = 5  # command lines inside command lines
MAX_FOLDERS = 32  # from which a redirection is resolved
MAX_WORDS = 200  # of a command that runs another
EVALUATING = frozenset({"eval", "source", ".", "trap", "alias"})
RUNNING = LAUNCHERS | frozenset({"exec", "command", "builtin", "trap", "coproc", "alias"})
COMPOSED = re.compile(r"[\s;&|()<>`{}!]")  # a word with one of these is more than a plain command name
FINDING = {"find": ("-exec", "-execdir", "-ok", "-okdir"), "fd": ("-x", "-X", "--exec", "--exec-batch")}


def can_run(line: str, denied: Sequence[str]) -> bool:
    """Whether a command of the line might begin with the denied words. Options before and between them do not count."""
    return any(_matches(words, denied) for words in _list_commands(line, 0))


def list_written_files(line: str, depth: int = 0) -> Iterator[str | None]:
    """The files that the redirections of a line write; None for one that is known only when the line runs.

    After a `cd`, a file is listed for each folder that it may be in. Lines that are given to a shell count as well.
    """
    if depth > MAX_DEPTH or _is_unreadable(line):
        return
    files: list[str | None] = []
    folders = [""]
    stack = [parse_tree(line)]
    while stack:
        node = stack.pop()
        if node.type == "file_redirect" and any(">" in child.type for child in node.children):
            files += [_get_literal(child) for child in node.named_children if child.type != "file_descriptor"]
        if node.type == "command":
            words = _list_words(node)
            if _get_name(words) in ("cd", "pushd") and words[-1] and len(folders) < MAX_FOLDERS:
                folders = [*dict.fromkeys([*folders, *(posixpath.join(folder, words[-1], "") for folder in folders)])]
            for inner in _list_inner_list_possible_lines(words):
                files += list_written_files(inner, depth + 1)
        stack.extend(reversed(node.named_children))
    for file in dict.fromkeys(files):
        yield from [None] if file is None else (posixpath.join(folder, file) for folder in folders)


def _is_unreadable(line: str) -> bool:
    return len(line) > MAX_LINE_CHARS or "\0" in line or any("\ud800" <= character <= "\udfff" for character in line)


def _list_commands(line: str, depth: int) -> Iterator[Words]:
    if depth > MAX_DEPTH or _is_unreadable(line):
        yield UNKNOWN
        return
    root = parse_tree(line)
    if root.has_error:
        yield UNKNOWN
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "command":
            yield from _list_run(_list_words(node), depth)
        stack.extend(node.named_children)


def _list_words(command: Node) -> Words:
    return [
        _get_literal(child)
        for child in command.named_children
        if child.type in WORD_NODES
        or child.type == "command_name"
        or child.type.endswith(("expansion", "substitution"))
    ]


def _list_run(words: Words, depth: int) -> Iterator[Words]:
    """The command, and those that it runs as its arguments."""
    if not words:
        return
    yield from _list_direct(words, depth)
    name = _get_name(words)
    starts: Sequence[int] = range(1, len(words)) if name in RUNNING else ()
    if name in FINDING:
        starts = [at + 1 for at, word in enumerate(words[:-1]) if word in FINDING[name]]
    if len(starts) > MAX_WORDS:
        yield UNKNOWN
        return
    for at in starts:
        yield from _list_direct(words[at:], depth)


def _list_direct(words: Words, depth: int) -> Iterator[Words]:
    """The command, and those in the command lines among its arguments."""
    yield words
    name, rest = _get_name(words), words[1:]
    if name in SHELLS and not any(word and not word.startswith("-") for word in rest):
        yield UNKNOWN  # it reads its commands from somewhere else
    if (name in EVALUATING and None in rest) or (name == "git" and _sets_alias(rest)):
        yield UNKNOWN
    for line in _list_inner_list_possible_lines(words):
        yield from _list_commands(line, depth + 1)


def _list_inner_list_possible_lines(words: Words) -> list[str]:
    """The command lines among the arguments of a command that runs them."""
    if _get_name(words) == "eval":
        return [" ".join(word or "" for word in words[1:])]
    return (
        [line for word in words[1:] if word for line in _list_possible_lines(word)]
        if _get_name(words) in RUNNING
        else []
    )


def _list_possible_lines(word: str) -> Iterator[str]:
    """The command lines in a word: the word, what follows an option's letter (`env -Sls`) or a `=` (`l=ls`)."""
    if COMPOSED.search(word):
        yield word
    if word.startswith("-") and not word.startswith("--") and len(word) > 2:
        yield word[2:]
    if "=" in word:
        yield word.partition("=")[2]


def _sets_alias(words: Words) -> bool:
    """Whether git is given an alias (`git -c alias.p=push p`)."""
    return any(word == "-c" and (name or "alias.").casefold().startswith("alias.") for word, name in pairwise(words))


def _get_name(words: Words) -> str:
    return ((words[0] if words else "") or "").rpartition("/")[2]


def _matches(words: Words, denied: Sequence[str]) -> bool:
    """Whether the words begin with the denied ones; options and their values are skipped."""
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


def _get_literal(node: Node) -> str | None:
    """The word without its quotes; None if a shell would replace something in it."""
    return read_literal((node.text or b"").decode("utf-8", "replace"))
