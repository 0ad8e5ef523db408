"""Globs, as a shell replaces them: which words come out, and that nothing outside the workspace was looked at for it.

Where shells differ, or a pattern is unusual, more is matched than a shell would, never less: what is allowed then is
allowed whichever reading is right. Rules: POSIX XCU 2.14 and bash(1), without extglob, dotglob, globstar and nullglob.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .places import Ground
from .shell import Word
from .unclear import Unclear

MOST_WORDS = 2_000  # that one glob may become
PLAIN_BRACKET = re.compile(r"\[([!^]?)([A-Za-z0-9_.,@+=%-]+)\]")


class Pattern(NamedTuple):
    """A path's part. `hidden`: it may match names that begin with a dot.

    `loose` is for names that are not ASCII: to some shells a sign is a byte, and `??` one letter.
    """

    literal: str
    regex: re.Pattern[str] | None
    loose: re.Pattern[str] | None
    hidden: bool

    def matches(self, name: str) -> bool:
        regex = self.regex if name.isascii() else self.loose
        return regex is not None and regex.fullmatch(name) is not None


def expand(word: Word, ground: Ground) -> list[str]:
    """The words a shell makes of one. Unclear where it would look out of the workspace."""
    if not word.is_glob:
        return [word.text]
    if ground.where(word.text) is None:
        raise Unclear(f"{word.text} is outside the workspace")
    found = [""]
    parts = _parts(word)
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part.regex is None:
            found = [prefix + part.literal for prefix in found]
            if last and part.literal:
                found = [path for path in found if _is_there(path, ground)]
        else:
            found = [prefix + name for prefix in found for name in _matching(part, prefix, ground)]
        if len(found) > MOST_WORDS:
            raise Unclear(f"{word.text} stands for more than {MOST_WORDS:,} files")
        if not last:
            found = [f"{path}/" for path in found]
    if found and word.text.startswith("-"):
        raise Unclear(f"{word.text} is an option, or stands for files of such names")
    return found or [word.text]


def _is_there(path: str, ground: Ground) -> bool:
    _refuse_outside(path.rpartition("/")[0], path, ground)
    return ground.exists(path)


def _matching(part: Pattern, prefix: str, ground: Ground) -> list[str]:
    _refuse_outside(prefix, f"{prefix}{part.literal}", ground)
    names = ground.names(prefix)
    if names is None:
        raise Unclear("the workspace holds too many files to look at")
    candidates = [*names, ".", ".."] if part.hidden else [name for name in names if not name.startswith(".")]
    return [name for name in candidates if part.matches(name)]


def _refuse_outside(folder: str, shown: str, ground: Ground) -> None:
    if ground.where(folder or ".") is None:
        raise Unclear(f"{shown} is outside the workspace")


def _parts(word: Word) -> list[Pattern]:
    parts, start = [], 0
    for at in [*(at for at, character in enumerate(word.text) if character == "/"), len(word.text)]:
        parts.append(_pattern(word.text[start:at], frozenset(each - start for each in word.quoted)))
        start = at + 1
    return parts


def _pattern(text: str, quoted: frozenset[int]) -> Pattern:
    regex: list[str] = []
    loose: list[str] = []
    at, is_glob, hidden = 0, False, text[:1] == "."
    while at < len(text):
        character = text[at]
        piece, end = re.escape(character), at + 1
        any_piece = piece
        if at not in quoted and character in "*?":
            piece, any_piece, is_glob = (".*", ".*", True) if character == "*" else (".", ".?", True)
        elif at not in quoted and character == "[" and "]" in text[at:]:
            piece, end = _bracket(text, at, quoted)
            any_piece, is_glob, hidden = ".*", True, hidden or (at == 0 and text[1] not in "!^")
        regex.append(piece)
        loose.append(any_piece)
        at = end
    if not is_glob:
        return Pattern(text, None, None, hidden)
    return Pattern(text, _compiled(regex), _compiled(loose), hidden)


def _compiled(pieces: list[str]) -> re.Pattern[str]:
    return re.compile("".join(pieces), re.DOTALL)


def _bracket(text: str, at: int, quoted: frozenset[int]) -> tuple[str, int]:
    """What the bracket that opens at `at` matches, and where it ends.

    Only one of plain characters is read as it is; any other matches whatever may stand from there on, since shells
    do not agree on what it is, nor on where it ends.
    """
    inside = PLAIN_BRACKET.match(text, at)
    if inside is None or not quoted.isdisjoint(range(at, inside.end())):
        return ".*", len(text)
    sign, members = inside.groups()
    if sign and "-" in members:
        return ".*", len(text)
    # In some languages `a-z` holds B and é as well.
    letters = "A-Za-z\u0080-\U0010ffff" if "-" in members else ""
    try:
        return re.compile(f"[{'^' if sign else ''}{members}{letters}]").pattern, inside.end()
    except re.error:  # a range that runs backwards
        return ".*", len(text)
