"""The word that ends a text: a tool's name may stand there, before the bracket that makes it a call.

Names hold dots and colons, and so does running text ("this integral.calculate\n{"): the whole word is offered
first, then what follows each of its dots and colons.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_WORD = re.compile(r"(@?\*{0,3}`?)(?<!\w)([^\W\d][\w.\\/:$-]{0,80})([`*\"']{0,4}(?::\**)?)(\s{0,16})\Z")
_JOINT = re.compile(r"[.:/]+(?=[^\W\d])")
_OWN = re.compile(r"tool|calls\Z", re.IGNORECASE)
CHANNELS = ("assistantcommentary", "assistantanalysis", "assistant", "commentary", "analysis", "final")
KEYWORDS = frozenset(
    (*CHANNELS, "action", "tool", "name", "function", "tool_name", "function_name", "tool name", "function name",
     "function call", "to", "functools", "call", "observation")
)  # fmt: skip
KEYWORD_BEGINNINGS = frozenset(word[:end] for word in KEYWORDS for end in range(len(word) + 1))
_MAX_GAP, _MAX_WORD = 16, 90


class Word(NamedTuple):
    """`start` is where its decoration begins, `begin` the name; `mark` and `gap` follow, `previous` stands before."""

    start: int
    begin: int
    name: str
    mark: str
    gap: str
    previous: str


def last_words(text: str, end: int, floor: int, before: str = "") -> Iterator[Word]:
    """The word that ends at `end`, whole and without its first parts; `before` stands before `floor`."""
    gap_start = max(floor, end - _MAX_GAP - 1)
    solid = gap_start + len(text[gap_start:end].rstrip())
    low = max(floor, solid - _MAX_WORD)
    parts = text[low:solid].rsplit(None, 1)
    match = _WORD.search(text, solid - len(parts[-1]), end) if parts else None
    if not match:
        return
    _, name, mark, gap = match.groups()
    start = match.start()
    yield Word(start, match.start(2), name, mark, gap, text[start - 1] if start > floor else before)
    for joint in _JOINT.finditer(name):
        at = match.start(2) + joint.end()
        yield Word(at, at, name[joint.end() :], mark, gap, text[at - 1])


def plain_word(text: str, floor: int) -> str:
    """The number or word of letters, after a space, that a text ends in; empty where it may be of our own format."""
    space = text.rfind(" ")
    word = text[space + 1 :]
    plain = word.isascii() and (word.isalpha() or word.isdigit()) and not _OWN.match(word)
    return word if plain and space >= floor and text.find("to=", floor) < 0 else ""


def in_word(character: str) -> bool:
    return character.isalnum() or character == "_"
