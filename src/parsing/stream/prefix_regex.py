"""Patterns that know their own beginnings, so that a stream can be read piece by piece.

Python's `re` cannot say that a text which does not match yet might match once more of it is there. A Pattern
here is built from few kinds of parts, and gives two regular expressions: `whole`, and `begun`, which matches
where all the rest of the text is a beginning of the whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

END = r"\Z"
LONGEST = 1200  # characters: more than any pattern here can match
_GROUP = re.compile(r"\(\?P<\w+>")  # a beginning repeats its parts, and a group may have its name once


class Pattern(NamedTuple):
    """`whole` and `begun` as sources of regular expressions."""

    whole: str
    begun: str


def literal(text: str) -> Pattern:
    """Exactly `text`."""
    begun = END
    for character in reversed(text):
        begun = f"(?:{END}|{re.escape(character)}{begun})"
    return Pattern(re.escape(text), begun)


def any_of(texts: Iterable[str]) -> Pattern:
    """The longest of `texts` that is there. A tree: what several begin with is compared once."""
    branches: dict[str, list[str]] = {}
    ends = False
    for text in texts:
        if text:
            branches.setdefault(text[0], []).append(text[1:])
        else:
            ends = True
    if not branches:
        return Pattern("", END)
    trees = {re.escape(character): any_of(rest) for character, rest in branches.items()}
    whole = "|".join(character + tree.whole for character, tree in trees.items())
    begun = "|".join((END, *(character + tree.begun for character, tree in trees.items())))
    if ends or len(trees) > 1:
        whole = f"(?:{whole})?" if ends else f"(?:{whole})"
    return Pattern(whole, f"(?:{begun})")


def some(characters: str, least: int, most: int) -> Pattern:
    """From `least` to `most` of a character class."""
    return Pattern(f"{characters}{{{least},{most}}}", f"{characters}{{0,{most}}}{END}")


def whole_run(characters: str, most: int) -> Pattern:
    """All that stand there of a character class, from one to `most`: repeated, there is one way to divide them."""
    return Pattern(f"{characters}{{1,{most}}}(?!{characters})", f"{characters}{{0,{most}}}{END}")


def sequence(*parts: Pattern) -> Pattern:
    whole = "".join(part.whole for part in parts)
    begun = parts[-1].begun
    for part in reversed(parts[:-1]):
        begun = f"(?:{part.begun}|{part.whole}{begun})"
    return Pattern(whole, begun)


def either(*parts: Pattern) -> Pattern:
    return Pattern(
        "(?:" + "|".join(part.whole for part in parts) + ")", "(?:" + "|".join(part.begun for part in parts) + ")"
    )


def maybe(part: Pattern) -> Pattern:
    return Pattern(f"(?:{part.whole})?", part.begun)


def repeated(part: Pattern, most: int) -> Pattern:
    """From one to `most` of `part`."""
    return Pattern(f"(?:{part.whole}){{1,{most}}}", f"(?:{part.whole}){{0,{most - 1}}}{part.begun}")


def named(name: str, part: Pattern) -> Pattern:
    """The part as a group of the whole."""
    return Pattern(f"(?P<{name}>{part.whole})", part.begun)


class Matcher:
    """Both expressions, compiled."""

    def __init__(self, pattern: Pattern, flags: int = 0) -> None:
        self.match = re.compile(pattern.whole, flags).match
        self._begun = re.compile(_GROUP.sub("(?:", pattern.begun), flags).match

    def begun(self, text: str, at: int) -> bool:
        """Whether all of `text` from `at` on is a beginning of the pattern; longer text than any whole is none."""
        return len(text) - at <= LONGEST and self._begun(text, at) is not None
