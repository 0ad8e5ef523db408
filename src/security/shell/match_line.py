"""Finds out whether a command line runs a command that begins with given words. What cannot be read may.

It is decided on the words that are left once line continuations, quoting and `time`, `xargs` and the like are taken
away. Only a line whose every command is in the closed list of src/security/shell/readable.py is clear of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .readable import PROJECT, list_programs
from .reader import UnsafeToParse, parse_line, split_names

MAX_CLUSTER_CHARS = 4  # of short options in one word: -rf


class LineMatch(Struct, frozen=True):
    """`reason`: why the line cannot be read whole, if it cannot."""

    verdict: Literal["clear", "matches", "unreadable"]
    reason: str = ""


CLEAR, MATCHES = LineMatch("clear"), LineMatch("matches")
VERDICTS = ("clear", "unreadable", "matches")


def match_line(line: str, wanted: Sequence[str]) -> LineMatch:
    """Whether a command of the line begins with the wanted words. Options before and between them do not count.

    A line that cannot be read whole matches if it mentions all the words in their order, else it is unreadable.
    """
    try:
        programs = [words for command in parse_line(line) for words in list_programs(command)]
    except UnsafeToParse as why:
        return LineMatch("matches" if _mentions(line, wanted) else "unreadable", str(why))
    verdicts = [_match_words(words, wanted) for words in programs]
    return max(verdicts, key=lambda each: VERDICTS.index(each.verdict), default=CLEAR)


def _match_words(words: Sequence[str], wanted: Sequence[str]) -> LineMatch:
    is_project = words[0] in PROJECT
    if is_project and _mentions("\n".join(words), wanted):
        return MATCHES
    arguments = [each for each in wanted[1:] if not each.startswith("-")]
    options = [each for each in wanted[1:] if each.startswith("-")]
    is_same = _get_name(words[0]) == _get_name(wanted[0])
    if not is_same or not _has_arguments(words, arguments, is_project=is_project):
        return CLEAR
    verdicts = [_match_option(words[1:], each) for each in options]
    return min(verdicts, key=lambda each: VERDICTS.index(each.verdict), default=MATCHES)


def _has_arguments(words: Sequence[str], wanted: Sequence[str], *, is_project: bool) -> bool:
    """Whether a command begins with these arguments. Options before and between them, and their values, do not count.

    `is_project`: an argument may be shortened, as in `npm i`.
    """
    at = 1
    for word in wanted:
        while at < len(words) and words[at] != word and "-" in (words[at][:1], words[at - 1][:1]):
            at += 1  # an option, or its value
        is_meant = at < len(words) and (words[at] == word or (is_project and word.startswith(words[at])))
        if not is_meant:
            return False
        at += 1
    return True


def _match_option(words: Sequence[str], wanted: str) -> LineMatch:
    """Whether the words have the wanted option, wherever it stands. It may have another name, short or long."""
    long = [each for each in words if each.startswith("--")]
    short = [each for each in words if each.startswith("-") and each not in long]
    if wanted.startswith("--"):
        is_given, may_be_given = _has_long_option(long, wanted), bool(short)
    else:
        is_given = wanted in short or _has_letters(short, wanted)
        may_be_given = bool(long) or _has_letters([each.casefold() for each in short], wanted.casefold())  # rm -R
    if is_given:
        return MATCHES
    if may_be_given:
        return LineMatch("unreadable", f"one of its options may mean {wanted}")
    return CLEAR


def _has_long_option(words: Sequence[str], wanted: str) -> bool:
    """Whether one of them is the long option, perhaps shortened or with a value."""
    return wanted in words or any(len(each) > 2 and wanted.startswith(each.partition("=")[0]) for each in words)


def _has_letters(words: Sequence[str], wanted: str) -> bool:
    """Whether the short options together are those of the cluster: `-f -r` is `-rf`, while -delete is no cluster."""
    return len(wanted) <= MAX_CLUSTER_CHARS and {*wanted} <= {*"".join(words)}


def _get_name(program: str) -> str:
    """Without its folder and version: python for /usr/bin/python3.12."""
    name = program.rpartition("/")[2].casefold()
    return name.rstrip("0123456789.-") or name


def _mentions(line: str, wanted: Sequence[str]) -> bool:
    names = iter(split_names(line.casefold()))
    return all(word.rpartition("/")[2].casefold() in names for word in wanted)
