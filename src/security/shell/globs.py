"""Expands a glob to words, as a shell does. It reads no folder outside the workspace.

If shells differ, or a pattern is unusual, it matches more than a shell would, never less: a command is then allowed
only if every reading is harmless. Rules: POSIX XCU 2.14 and bash(1), without extglob, dotglob, globstar and nullglob.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .scanner import ShellWord, UnsafeToParse
from .workspace import Workspace

MAX_WORDS = 2_000  # that one glob may expand to
CLASSES = re.compile(
    r"\[[!^]?[A-Za-z0-9_]*(?:\[:(?:alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit):\])+"
    r"[A-Za-z0-9_]*\]"
)
PLAIN_BRACKET = re.compile(r"\[([!^]?)([A-Za-z0-9_.,@+=%-]+)\]")


class GlobPart(NamedTuple):
    """One part of a path. `between`: expressions of fixed length, for what stands between its stars; none if it is no
    glob.

    `loose`: the same for names that are not ASCII, in which some shells let `??` match one letter of two bytes.
    `hidden`: it may match names that begin with a dot.
    """

    literal: str
    between: tuple[re.Pattern[str], ...] = ()
    loose: tuple[re.Pattern[str], ...] = ()
    hidden: bool = False

    def matches(self, name: str) -> bool:
        """Linear in the name, however many stars: the first match of each expression is the right one."""
        first, *others = self.between if name.isascii() else self.loose
        if not others:
            return first.fullmatch(name) is not None
        begun = first.match(name)
        at = begun.end() if begun else -1
        for each in others[:-1]:
            found = each.search(name, at) if at >= 0 else None
            at = found.end() if found else -1
        return at >= 0 and any(others[-1].fullmatch(name, start) for start in range(at, len(name) + 1))


def expand(word: ShellWord, workspace: Workspace) -> list[str]:
    """The words a shell makes of one word. Raises UnsafeToParse if it would look outside the workspace."""
    if not word.is_glob:
        return [word.text]
    if workspace.relative_or_none(word.text) is None:
        raise UnsafeToParse(f"{word.text} is outside the workspace")
    found = [""]
    parts = _split_parts(word)
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if not part.between:
            found = [prefix + part.literal for prefix in found]
            if last and part.literal:
                found = [path for path in found if _exists(path, workspace)]
        else:
            found = [prefix + name for prefix in found for name in _match_names(part, prefix, workspace)]
        if len(found) > MAX_WORDS:
            raise UnsafeToParse(f"{word.text} matches more than {MAX_WORDS:,} files")
        if not last:
            found = [f"{path}/" for path in found]
    if any(each.startswith("-") for each in found):
        raise UnsafeToParse(f"{word.text} matches a file whose name looks like an option")
    return found or [word.text]


def _exists(path: str, workspace: Workspace) -> bool:
    _refuse_outside(path.rpartition("/")[0], path, workspace)
    return workspace.exists(path)


def _match_names(part: GlobPart, prefix: str, workspace: Workspace) -> list[str]:
    _refuse_outside(prefix, f"{prefix}{part.literal}", workspace)
    names = workspace.list_names(prefix)
    if names is None:
        raise UnsafeToParse("the workspace has too many files to check")
    candidates = [*names, ".", ".."] if part.hidden else [name for name in names if not name.startswith(".")]
    return [name for name in candidates if part.matches(name)]


def _refuse_outside(folder: str, shown: str, workspace: Workspace) -> None:
    if workspace.relative_or_none(folder or ".") is None:
        raise UnsafeToParse(f"{shown} is outside the workspace")


def _split_parts(word: ShellWord) -> list[GlobPart]:
    parts, start = [], 0
    for at in [*(at for at, character in enumerate(word.text) if character == "/"), len(word.text)]:
        parts.append(_parse_part(word.text[start:at], frozenset(each - start for each in word.quoted)))
        start = at + 1
    return parts


def _parse_part(text: str, quoted: frozenset[int]) -> GlobPart:
    between, loose = [""], [""]
    at, is_glob, hidden = 0, False, text[:1] == "."
    while at < len(text):
        character, piece, end = text[at], re.escape(text[at]), at + 1
        is_sign = at not in quoted and (character in "*?" or (character == "[" and "]" in text[at:]))
        if is_sign and character == "?":
            piece = "."
        elif is_sign and character == "[":
            piece, end = _parse_bracket(text, at, quoted)
            hidden = hidden or (at == 0 and text[1] not in "!^")
        if is_sign and (character == "*" or not piece):
            between.append("")
        else:
            between[-1] += piece
        if is_sign:
            loose.append("")
        else:
            loose[-1] += piece
        is_glob = is_glob or is_sign
        at = end
    return GlobPart(text, _compile(between), _compile(loose), hidden) if is_glob else GlobPart(text)


def _compile(pieces: list[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each, re.DOTALL) for each in pieces)


def _parse_bracket(text: str, at: int, quoted: frozenset[int]) -> tuple[str, int]:
    """An expression for the bracket that opens at `at`, and where it ends.

    Only brackets of plain characters are understood. For any other the expression is empty, as for a star that reaches
    to the end, since shells do not agree on what it matches, nor on where it ends.
    """
    if (classes := CLASSES.match(text, at)) and quoted.isdisjoint(range(at, classes.end())):
        return ".", classes.end()
    inside = PLAIN_BRACKET.match(text, at)
    if inside is None or not quoted.isdisjoint(range(at, inside.end())):
        return "", len(text)
    sign, members = inside.groups()
    if sign and "-" in members:
        return ".", inside.end()
    # In some locales `a-z` contains B and é as well.
    letters = "A-Za-z\u0080-\U0010ffff" if "-" in members else ""
    try:
        return re.compile(f"[{'^' if sign else ''}{members}{letters}]").pattern, inside.end()
    except re.error:  # a range that runs backwards
        return "", len(text)
