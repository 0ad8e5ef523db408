"""What rules say of a command line: whether they allow all of it, and what a rule would have to say.

Allowing is strict: every command of the line, read to the last word, must be allowed and harmless. Denying is wide
(src/security/shell/deny.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..permissions.rules import Rule
from .harmless import View, launched, require_harmless, require_inside, require_systems_own, row_of
from .option_table import ROWS
from .parse import Command, read, words_of
from .unclear import Unclear

NO_LABEL = ""  # of a command that needs no rule beside one that does: `|| true`, `cd src`


class Entry(NamedTuple):
    """A command that is allowed, by its first words, or as a whole line; `label` names the rule for people."""

    words: tuple[str, ...]
    label: str
    line: str = ""


class Verdict(NamedTuple):
    """`why`: what allows the line, or why it is not known to be harmless."""

    allowed: bool
    why: str
    label: str = ""


def entry_of(rule: Rule) -> Entry:
    return Entry((), str(rule), rule.command.strip()) if rule.exact else Entry(words_of(rule.command), str(rule))


def judge(line: object, entries: Sequence[Entry], build_view: View) -> Verdict:
    """Whether the entries allow a command line."""
    if not isinstance(line, str):
        return Verdict(False, "there is no command")
    for entry in entries:
        if entry.line and entry.line == line.strip(" \t\n"):
            return Verdict(True, "it is allowed as it stands", entry.label)
    try:
        labels = dict.fromkeys(_label(command, entries, build_view) for command in read(line))
    except Unclear as unclear:
        return Verdict(False, str(unclear))
    labels.pop(NO_LABEL, None)
    if not labels:
        return Verdict(False, "no rule allows it")
    return Verdict(True, "all of its commands are allowed, and stay in the workspace", ", ".join(labels))


def _label(command: Command, entries: Sequence[Entry], build_view: View) -> str:
    if command.name != "cd":
        return _allowing(command, entries, build_view)
    require_inside(command, build_view)
    return NO_LABEL


def _allowing(command: Command, entries: Sequence[Entry], build_view: View) -> str:
    """The label of the entry that allows the command. Unclear where none does."""
    said = Unclear(f"no rule allows {command.name}")
    for entry in entries:
        if entry.words and command.texts[: len(entry.words)] == entry.words:
            try:
                require_harmless(command, entry.words, build_view)
            except Unclear as unclear:
                said = unclear
            else:
                return entry.label
    if command.texts in (("true",), ("false",)):
        return NO_LABEL
    inner = launched(command)
    if inner is None:
        raise said
    require_systems_own(command.name, build_view)
    return _allowing(inner, entries, build_view)


def narrowest(line: object) -> list[Rule]:
    """Rules that might let a line run without asking, that which says least first.

    A line of one command that has a row is allowed by its name, since the row says what it may do; any other as it
    stands, and no other.
    """
    if not isinstance(line, str):
        return []
    try:
        names = {row_of(launched(command) or command) for command in read(line)}
    except Unclear:
        return []
    known = [name for name in names if name in ROWS or name == "find"]
    by_name = [Rule("exec", "allow", name) for name in known]
    return [*by_name, Rule("exec", "allow", line.strip(" \t\n"), exact=True)]
