"""Finds out whether a command line runs what a rule denies, or writes a protected file. What cannot be read may.

A rule that denies is decided on the words that are left once line continuations, quoting and `time`, `xargs` and the
like are taken away. Only a line whose every command is in the closed list of src/security/shell/readable.py is clear
of it. Redirections are looked for with tree-sitter-bash, also in lines that the strict reader refuses.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple, Union

from .readable import PROJECT, require_readable
from .reader import MAX_LINE_CHARS, UnsafeToParse, parse_line, read_literal

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

Words = Sequence[Union[str, None]]  # None: known only when the line runs
MAX_DEPTH = 5  # command lines inside command lines
MAX_FOLDERS = 32  # from which a redirection is resolved
QUOTING = re.compile(r"\\\n|[\\'\"]")
NO_NAME = re.compile(r"[^\w.+-]+")  # separates the names in a line
CHANGING_FOLDER = frozenset({"cd", "pushd", "popd"})
_RUNNING = (
    "eval source . trap alias exec command builtin coproc sh bash dash zsh ksh mksh fish rbash busybox env xargs nice"
    " nohup timeout time sudo doas su setsid stdbuf watch parallel flock script chroot unshare nsenter git make"
)
RUNNING = frozenset(_RUNNING.split())  # programs and builtins that run a command line, or a program in another folder
WORD_NODES = frozenset({"word", "number", "raw_string", "string", "concatenation", "command_name"})


class DenyVerdict(NamedTuple):
    """`reason`: why the line cannot be read whole, if it cannot."""

    verdict: Literal["clear", "denied", "unreadable"]
    reason: str = ""


def judge_line(line: str, denied: Sequence[str]) -> DenyVerdict:
    """Whether a command of the line begins with the denied words. Options before and between them do not count.

    A line that cannot be read whole is denied if it mentions all the words in their order, else unreadable.
    """
    try:
        commands = [require_readable(command) for command in parse_line(line)]
    except UnsafeToParse as why:
        return DenyVerdict("denied" if _mentions(line, denied) else "unreadable", str(why))
    for words in commands:
        if _matches(words, denied) or (words[0] in PROJECT and _mentions("\n".join(words), denied)):
            return DenyVerdict("denied")
    return DenyVerdict("clear")


def _mentions(line: str, denied: Sequence[str]) -> bool:
    names = iter(NO_NAME.split(QUOTING.sub("", line).casefold()))
    return all(word.rpartition("/")[2].casefold() in names for word in denied)


def _matches(words: Sequence[str], denied: Sequence[str]) -> bool:
    """Whether the words begin with the denied ones; options and their values are skipped."""
    if words[0].rpartition("/")[2].casefold() != denied[0].rpartition("/")[2].casefold():
        return False
    at = 1
    for wanted in denied[1:]:
        after_option = False
        while at < len(words) and words[at] != wanted:
            if not (words[at].startswith("-") or after_option):
                return False
            after_option = words[at].startswith("-")
            at += 1
        if at == len(words):
            return False
        at += 1
    return True


def list_written_files(line: str, depth: int = 0) -> Iterator[str | None]:
    """The files that the redirections of a line write; None for one that is known only when the line runs.

    After a `cd`, a file is listed for each folder that it may be in. Lines that are given to a shell count as well.
    """
    if ">" not in line:
        return
    if depth > MAX_DEPTH or len(line) > MAX_LINE_CHARS or "\0" in line or re.search("[\ud800-\udfff]", line):
        yield None
        return
    files: list[str | None] = []
    folders: list[str | None] = [""]
    root = _load_parser().parse(line.encode()).root_node
    if root.has_error and _has_open_redirection(line):
        files.append(None)
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type == "file_redirect" and any(">" in child.type for child in node.children):
            files += [_get_literal(child) for child in node.named_children if child.type != "file_descriptor"]
        if node.type == "command":
            words = _list_words(node)
            name = ((words[0] if words else "") or "").rpartition("/")[2]
            if name in CHANGING_FOLDER or name in RUNNING:
                entered = words[1:] or [None] if name in CHANGING_FOLDER else words[1:]
                folders = _enter(folders, entered)
                if name in RUNNING:
                    for inner in [" ".join(word or "$x" for word in words[1:]), *(word for word in words[1:] if word)]:
                        files += list_written_files(inner, depth + 1)
        stack.extend(reversed(node.named_children))
    for file in dict.fromkeys(files):
        if file is None or file.startswith("/"):
            yield file
        else:
            yield from (None if folder is None else posixpath.join(folder, file) for folder in folders)


def _enter(folders: Sequence[str | None], words: Words) -> list[str | None]:
    """The folders that a later command may run in, when a command may enter any of the words."""
    found = list(folders)
    for word in words:
        is_known = word is not None and word != "-"
        found += [
            posixpath.join(each, word, "") if each is not None and is_known and word else None for each in folders
        ]
    return list(dict.fromkeys(found))[:MAX_FOLDERS]


def _has_open_redirection(line: str) -> bool:
    """Whether there is a `>` outside of quotes, in a line that tree-sitter cannot read."""
    return ">" in re.sub(r"\\[\s\S]|'[^']*'|\"(?:[^\"\\]|\\[\s\S])*\"", "", line)


@lru_cache(maxsize=1)
def _load_parser() -> Parser:
    import tree_sitter  # loaded for the first redirection, not at start
    import tree_sitter_bash

    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def _list_words(command: Node) -> Words:
    return [
        _get_literal(child)
        for child in command.named_children
        if child.type in WORD_NODES or child.type.endswith(("expansion", "substitution"))
    ]


def _get_literal(node: Node) -> str | None:
    """The word without its quotes; None if a shell would replace something in it."""
    return read_literal((node.text or b"").decode("utf-8", "replace"))
