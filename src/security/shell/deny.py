"""Finds out whether a command line runs what a rule denies, or writes a protected file. What cannot be read may.

A rule that denies is decided on the words that are left once line continuations, quoting and `time`, `xargs` and the
like are taken away. Only a line whose every command is in the closed list of src/security/shell/readable.py is clear
of it. Redirections are looked for wherever they may be, also in lines that the strict reader refuses.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from ...types.file_names import UNPASSABLE
from ...types.lazy_pattern import LazyPattern
from .readable import PROJECT, list_programs
from .reader import MAX_LINE_CHARS, ReadWord, UnsafeToParse, list_tokens, parse_line

MAX_DEPTH = 5  # command lines inside command lines
MAX_CLUSTER_CHARS = 4  # of short options in one word: -rf
MAX_FOLDERS = 32  # from which a redirection is resolved
QUOTING = LazyPattern(r"\\\n|[\\'\"]")
NO_NAME = LazyPattern(r"[^\w.+-]+")  # separates the names in a line
_RUNNING = "eval trap alias sh ash bash dash zsh ksh mksh fish rbash busybox env su watch parallel flock script"
RUNNING = frozenset(_RUNNING.split())  # programs and builtins that take a command line as a word


class DenyVerdict(Struct, frozen=True):
    """`reason`: why the line cannot be read whole, if it cannot."""

    verdict: Literal["clear", "denied", "unreadable"]
    reason: str = ""


CLEAR, DENIED = DenyVerdict("clear"), DenyVerdict("denied")
VERDICTS = ("clear", "unreadable", "denied")


def judge_line(line: str, denied: Sequence[str]) -> DenyVerdict:
    """Whether a command of the line begins with the denied words. Options before and between them do not count.

    A line that cannot be read whole is denied if it mentions all the words in their order, else unreadable.
    """
    try:
        programs = [words for command in parse_line(line) for words in list_programs(command)]
    except UnsafeToParse as why:
        return DenyVerdict("denied" if _mentions(line, denied) else "unreadable", str(why))
    verdicts = [_judge_words(words, denied) for words in programs]
    return max(verdicts, key=lambda each: VERDICTS.index(each.verdict), default=CLEAR)


def _judge_words(words: Sequence[str], denied: Sequence[str]) -> DenyVerdict:
    is_project = words[0] in PROJECT
    if is_project and _mentions("\n".join(words), denied):
        return DENIED
    arguments = [each for each in denied[1:] if not each.startswith("-")]
    options = [each for each in denied[1:] if each.startswith("-")]
    is_same = _get_name(words[0]) == _get_name(denied[0])
    if not is_same or not _has_arguments(words, arguments, is_project=is_project):
        return CLEAR
    verdicts = [_judge_option(words[1:], each) for each in options]
    return min(verdicts, key=lambda each: VERDICTS.index(each.verdict), default=DENIED)


def _has_arguments(words: Sequence[str], denied: Sequence[str], *, is_project: bool) -> bool:
    """Whether a command begins with these arguments. Options before and between them, and their values, do not count.

    `is_project`: an argument may be shortened, as in `npm i`.
    """
    at = 1
    for wanted in denied:
        while at < len(words) and words[at] != wanted and "-" in (words[at][:1], words[at - 1][:1]):
            at += 1  # an option, or its value
        is_meant = at < len(words) and (words[at] == wanted or (is_project and wanted.startswith(words[at])))
        if not is_meant:
            return False
        at += 1
    return True


def _judge_option(words: Sequence[str], denied: str) -> DenyVerdict:
    """Whether the words have the denied option, wherever it stands. It may have another name, short or long."""
    long = [each for each in words if each.startswith("--")]
    short = [each for each in words if each.startswith("-") and each not in long]
    if denied.startswith("--"):
        is_given, may_be_given = _has_long_option(long, denied), bool(short)
    else:
        is_given = denied in short or _has_letters(short, denied)
        may_be_given = bool(long) or _has_letters([each.casefold() for each in short], denied.casefold())  # rm -R
    if is_given:
        return DENIED
    if may_be_given:
        return DenyVerdict("unreadable", f"one of its options may mean {denied}")
    return CLEAR


def _has_long_option(words: Sequence[str], denied: str) -> bool:
    """Whether one of them is the long option, perhaps shortened or with a value."""
    return denied in words or any(len(each) > 2 and denied.startswith(each.partition("=")[0]) for each in words)


def _has_letters(words: Sequence[str], denied: str) -> bool:
    """Whether the short options together are those of the cluster: `-f -r` is `-rf`, while -delete is no cluster."""
    return len(denied) <= MAX_CLUSTER_CHARS and {*denied} <= {*"".join(words)}


def _get_name(program: str) -> str:
    """Without its folder and version: python for /usr/bin/python3.12."""
    name = program.rpartition("/")[2].casefold()
    return name.rstrip("0123456789.-") or name


def _mentions(line: str, denied: Sequence[str]) -> bool:
    names = iter(NO_NAME.split(QUOTING.sub("", line).casefold()))
    return all(word.rpartition("/")[2].casefold() in names for word in denied)


def list_written_files(line: str, depth: int = 0) -> Iterator[str | None]:
    """The files that the redirections of a line write; None for one that is known only when the line runs.

    After a `cd`, a file is listed for each folder that it may be in. Lines that are given to a shell count as well.
    """
    if ">" not in line:
        return
    if depth > MAX_DEPTH or len(line) > MAX_LINE_CHARS or UNPASSABLE.search(line):
        yield None
        return
    is_for_shell = not RUNNING.isdisjoint(NO_NAME.split(QUOTING.sub("", line)))
    for operator, word, folders in _list_words(line, is_bash=not depth):
        if not operator and is_for_shell:
            yield from list_written_files(word.text, depth + 1)
        if ">" in operator:
            name = _get_known_text(word)
            yield from dict.fromkeys(_join(folder, name) for folder in folders)


def _list_words(line: str, *, is_bash: bool) -> Iterator[tuple[str, ReadWord, Sequence[str | None]]]:
    """The words of a line, each with the operator before it and the folders that its command may run in."""
    folders: Sequence[str | None] = [""]
    enters = False  # whether the next word is the folder of a `cd`
    for token in list_tokens(line, is_bash=is_bash):
        operator, word = token.operator, token.word
        name = _get_known_text(word)
        if word:
            yield operator, word, folders
        if word and ">" in operator:
            continue
        if enters and not re.fullmatch("-.+", name or ""):
            folders, enters = _enter(folders, name), False
        elif name in ("cd", "pushd", "popd") and not operator:
            enters = True


def _get_known_text(word: ReadWord | None) -> str | None:
    # bash takes \ and a line end out of the target of >&, also in quotes
    if word is None or word.unknown or word.is_glob or "\n" in word.text:
        return None
    return word.text


def _enter(folders: Sequence[str | None], word: str | None) -> list[str | None]:
    """The folders that a later command may run in, if a command may enter another one."""
    if word == "-":
        word = None
    return list(dict.fromkeys([*folders, *(_join(folder, word) for folder in folders)]))[:MAX_FOLDERS]


def _join(folder: str | None, name: str | None) -> str | None:
    """Where a file of this name is, if it is opened in the folder; None if that is not known."""
    if name is None or (folder is None and not name.startswith("/")):
        return None
    return posixpath.join(folder or "", name)
