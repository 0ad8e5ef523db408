"""Globs, as a shell replaces them: which words come out, and that nothing outside the workspace was looked at for it.

Where shells differ, or a pattern is unusual, more is matched than a shell would, never less: what is allowed then is
allowed whichever reading is right. Rules: POSIX XCU 2.14 and bash(1), without extglob, dotglob, globstar and nullglob.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .parse import Word
from .unclear import Unclear
from .workspace import Ground

MOST_WORDS = 2_000  # that one glob may become
CLASSES = re.compile(
    r"\[[!^]?[A-Za-z0-9_]*(?:\[:(?:alnum|alpha|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit):\])+"
    r"[A-Za-z0-9_]*\]"
)
PLAIN_BRACKET = re.compile(r"\[([!^]?)([A-Za-z0-9_.,@+=%-]+)\]")


class Pattern(NamedTuple):
    """A path's part: what stands between its stars, none where it is no glob, as an expression of one length each.

    `hidden`: it may match names that begin with a dot. `loose` is for names that are not ASCII: to some shells a sign
    is a byte, and `??` one letter.
    """

    literal: str
    between: tuple[re.Pattern[str], ...] = ()
    loose: tuple[re.Pattern[str], ...] = ()
    hidden: bool = False

    def matches(self, name: str) -> bool:
        """Linear in the name, however many stars there are: the first place that fits is always right."""
        first, *others = self.between if name.isascii() else self.loose
        if not others:
            return first.fullmatch(name) is not None
        begun = first.match(name)
        at = begun.end() if begun else -1
        for each in others[:-1]:
            found = each.search(name, at) if at >= 0 else None
            at = found.end() if found else -1
        return at >= 0 and any(others[-1].fullmatch(name, start) for start in range(at, len(name) + 1))


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
        if not part.between:
            found = [prefix + part.literal for prefix in found]
            if last and part.literal:
                found = [path for path in found if _is_there(path, ground)]
        else:
            found = [prefix + name for prefix in found for name in _matching(part, prefix, ground)]
        if len(found) > MOST_WORDS:
            raise Unclear(f"{word.text} matches more than {MOST_WORDS:,} files")
        if not last:
            found = [f"{path}/" for path in found]
    if any(each.startswith("-") for each in found):
        raise Unclear(f"{word.text} matches a file whose name looks like an option")
    return found or [word.text]


def _is_there(path: str, ground: Ground) -> bool:
    _refuse_outside(path.rpartition("/")[0], path, ground)
    return ground.exists(path)


def _matching(part: Pattern, prefix: str, ground: Ground) -> list[str]:
    _refuse_outside(prefix, f"{prefix}{part.literal}", ground)
    names = ground.names(prefix)
    if names is None:
        raise Unclear("the workspace has too many files to check")
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
    between, loose = [""], [""]
    at, is_glob, hidden = 0, False, text[:1] == "."
    while at < len(text):
        character, piece, end = text[at], re.escape(text[at]), at + 1
        is_sign = at not in quoted and (character in "*?" or (character == "[" and "]" in text[at:]))
        if is_sign and character == "?":
            piece = "."
        elif is_sign and character == "[":
            piece, end = _bracket(text, at, quoted)
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
    return Pattern(text, _compiled(between), _compiled(loose), hidden) if is_glob else Pattern(text)


def _compiled(pieces: list[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(each, re.DOTALL) for each in pieces)


def _bracket(text: str, at: int, quoted: frozenset[int]) -> tuple[str, int]:
    """What the bracket that opens at `at` matches, and where it ends; nothing, as for a star, where that is not clear.

    Only one of plain characters is. Any other matches whatever may stand from there on, since shells do not agree on
    what it is, nor on where it ends.
    """
    if (classes := CLASSES.match(text, at)) and quoted.isdisjoint(range(at, classes.end())):
        return ".", classes.end()
    inside = PLAIN_BRACKET.match(text, at)
    if inside is None or not quoted.isdisjoint(range(at, inside.end())):
        return "", len(text)
    sign, members = inside.groups()
    if sign and "-" in members:
        return ".", inside.end()
    # In some languages `a-z` holds B and é as well.
    letters = "A-Za-z\u0080-\U0010ffff" if "-" in members else ""
    try:
        return re.compile(f"[{'^' if sign else ''}{members}{letters}]").pattern, inside.end()
    except re.error:  # a range that runs backwards
        return "", len(text)
