"""Finds out whether a command line runs what a rule denies, or writes a protected file. What cannot be read may.

A rule that denies is decided on the words that are left once line continuations, quoting and `time`, `xargs` and the
like are taken away. Only a line whose every command is in the closed list of src/security/shell/readable.py is clear
of it. Redirections are looked for wherever they may be, also in lines that the strict reader refuses.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from .readable import PROJECT, require_readable
from .reader import MAX_LINE_CHARS, UnsafeToParse, parse_line, read_word_at

MAX_DEPTH = 5  # command lines inside command lines
MAX_FOLDERS = 32  # from which a redirection is resolved
QUOTING = re.compile(r"\\\n|[\\'\"]")
NO_NAME = re.compile(r"[^\w.+-]+")  # separates the names in a line
UNPASSABLE = re.compile("[\0\ud800-\udfff]")
DOCUMENT = re.compile(  # a here-document in which nothing is replaced by what a command prints
    r"<<-?[ \t]*\\?(?P<mark>['\"])?(?P<end>\w[\w.-]*)(?(mark)(?P=mark))(?P<rest>[^\n]*)"
    r"(?:\n(?!\t*(?P=end)(?:\n|$))(?:(?(mark)|(?!\$\(|`))[^\n])*)*\n\t*(?P=end)(?=\n|$)"
)
_OPERAND = r"(?:\$?\w+|\"\$?\w+\")"
TEST = (  # a command [[ ]] that compares two words
    r"(?:\A|&&|\|\||[;\n])[ \t]*(?:(?:if|while|until|elif|then|do|else|!)[ \t]+)*"
    rf"\[\[[ \t]+{_OPERAND}[ \t]+[<>][ \t]+{_OPERAND}[ \t]+\]\]"
)
SCANNED = re.compile(
    r"\\[\s\S]|(?P<quoted>\$'(?:[^'\\]|\\[\s\S])*'|'[^']*'|\"(?:[^\"\\`$]|\\[\s\S]|\$(?!\())*\")|<<<?"
    r"|\(\([^()]*\)\)|(?<![^\s;|&()])#[^\n]*"
    rf"|(?P<test>{TEST})"
    r"|(?P<writes>&>>|&>|<>|>>|>&|>\||>(?!\())|(?<![^\s;|&({])(?P<enters>cd|pushd|popd)(?![^\s;|&)}])"
)
_RUNNING = (
    "eval source . trap alias exec command builtin coproc sh bash dash zsh ksh mksh fish rbash busybox env xargs nice"
    " nohup timeout time sudo doas su setsid stdbuf watch parallel flock script chroot unshare nsenter"
)
RUNNING = frozenset(_RUNNING.split())  # programs and builtins that run a command line


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
    if depth > MAX_DEPTH or len(line) > MAX_LINE_CHARS or UNPASSABLE.search(line):
        yield None
        return
    line = DOCUMENT.sub(r"\g<rest>", line)
    is_for_shell = not RUNNING.isdisjoint(NO_NAME.split(line))
    folders: list[str | None] = [""]
    at = 0
    while found := SCANNED.search(line, at):
        at = found.end()
        if found["test"] and depth:  # a shell other than bash may not know it
            at = line.index("[[", found.start()) + 2
        if found["quoted"] and is_for_shell:
            yield from list_written_files(found["quoted"].lstrip("$")[1:-1], depth + 1)
        if not line[at:].strip():
            return  # a redirection to nothing is an error of the shell
        word = read_word_at(line, at) if found["writes"] or found["enters"] else ""
        if found["enters"]:
            folders = _enter(folders, word)
        elif found["writes"] and not (found["writes"].endswith("&") and re.fullmatch("[0-9]|-", word or "")):
            yield from [word] if word is None or word.startswith("/") else _join_all(folders, word)


def _enter(folders: Sequence[str | None], word: str | None) -> list[str | None]:
    """The folders that a later command may run in, if a command may enter another one."""
    entered = _join_all(folders, None if word in ("", "-") else word)
    return list(dict.fromkeys([*folders, *entered]))[:MAX_FOLDERS]


def _join_all(folders: Sequence[str | None], name: str | None) -> list[str | None]:
    return [None if name is None or folder is None else posixpath.join(folder, name) for folder in folders]
