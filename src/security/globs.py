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
ANY_SIGN = "(?:.)"
LETTERS = re.compile("[A-Za-z]-[A-Za-z]")


class Pattern(NamedTuple):
    """A path's part. `hidden`: it may match names that begin with a dot."""

    literal: str
    regex: re.Pattern[str] | None
    hidden: bool


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
    return found or [word.text]


def _is_there(path: str, ground: Ground) -> bool:
    _refuse_outside(path.rpartition("/")[0], path, ground)
    return ground.exists(path)


def _matching(part: Pattern, prefix: str, ground: Ground) -> list[str]:
    _refuse_outside(prefix, f"{prefix}{part.literal}", ground)
    names = ground.names(prefix)
    if names is None:
        raise Unclear("the workspace holds too many files to look at")
    assert part.regex  # noqa: S101 - nobody else comes here
    candidates = [*names, ".", ".."] if part.hidden else [name for name in names if not name.startswith(".")]
    return [name for name in candidates if part.regex.fullmatch(name)]


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
    regex, at, is_glob, hidden = [], 0, False, text[:1] == "."
    while at < len(text):
        character = text[at]
        piece, end = re.escape(character), at + 1
        if at not in quoted:
            if character == "*":
                piece = ".*"
            elif character == "?":
                piece = ANY_SIGN
            elif character == "[" and (close := _close(text, at, quoted)):
                piece, end = _bracket(text, at, close, quoted), close + 1
                hidden = hidden or (at == 0 and text[1] not in "!^")
            is_glob = is_glob or piece != re.escape(character)
        regex.append(piece)
        at = end
    return Pattern(text, re.compile("".join(regex), re.DOTALL) if is_glob else None, hidden)


def _close(text: str, at: int, quoted: frozenset[int]) -> int:
    """Where the bracket that opens at `at` closes; 0 where it does not, and is a character like any other."""
    first = at + 2 if text[at + 1 : at + 2] in ("!", "^") else at + 1
    closing = (each for each in range(first + 1, len(text)) if text[each] == "]" and each not in quoted)
    return next(closing, 0)


def _bracket(text: str, at: int, close: int, quoted: frozenset[int]) -> str:
    """A class of characters, or of all characters where shells do not agree which they are."""
    inner = text[at + 1 : close]
    negated = inner[:1] in ("!", "^")
    members = inner[1:] if negated else inner
    unusual = any(at < each < close for each in quoted) or not members.isascii() or "[" in members or "\\" in members
    if unusual or (negated and "-" in members) or not members:
        return ANY_SIGN
    sign = "^" if negated else ""
    letters = "A-Za-z\u0080-\U0010ffff" if LETTERS.search(members) else ""  # in some languages, `a-z` holds B and é
    escaped = re.sub(r"([\]^&~|])", r"\\\1", members)
    try:
        re.compile(f"[{escaped}]")
    except re.error:  # a range that runs backwards
        return ANY_SIGN
    return f"[{sign}{escaped}{letters}]"
