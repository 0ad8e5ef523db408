"""Regular expressions with partial matching, so that a stream can be read piece by piece.

Python's `re` cannot tell that a text which does not match yet may match once more of it arrives. A PrefixPattern is
built from a few kinds of parts and gives two regular expressions: `whole`, and `prefix`, which matches where all the
rest of the text is a prefix of a match. Every part is bounded, and so is every match: MAX_MATCH_CHARS.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Union

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern

END = r"\Z"
MAX_MATCH_CHARS = 1200  # more than any pattern of this room can match
_GROUP = LazyPattern(r"\(\?P<\w+>")  # a prefix expression repeats its parts, and a group name may stand once


class PrefixPattern(Struct, frozen=True):
    """The sources of the two regular expressions."""

    whole: str
    prefix: str


Part = Union[PrefixPattern, str]  # a string is matched literally


def any_of(texts: Iterable[str]) -> PrefixPattern:
    """The longest of `texts` that matches; a tree, so that a common beginning is compared once."""
    distinct = dict.fromkeys(texts)
    if len(distinct) < 2:  # the tree has a single branch, or none
        text, prefix = "".join(distinct), END
        for character in reversed(text):
            prefix = f"(?:{END}|{re.escape(character)}{prefix})"
        return PrefixPattern(re.escape(text), prefix)
    branches: dict[str, list[str]] = {}
    for text in filter(None, distinct):
        branches.setdefault(text[0], []).append(text[1:])
    trees = {re.escape(character): any_of(rest) for character, rest in branches.items()}
    whole = "|".join(character + tree.whole for character, tree in trees.items())
    prefix = "|".join((END, *(character + tree.prefix for character, tree in trees.items())))
    if "" in distinct:
        whole = f"(?:{whole})?"
    elif len(trees) > 1:
        whole = f"(?:{whole})"
    return PrefixPattern(whole, f"(?:{prefix})")


def any_begun(texts: Iterable[str]) -> str:
    """The source of a pattern of one of `texts`, or of the beginning of one at the end of the input."""
    branches: dict[str, list[str]] = {}
    for text in texts:
        if not text:
            return ""
        branches.setdefault(text[0], []).append(text[1:])
    trees = (re.escape(character) + any_begun(rest) for character, rest in branches.items())
    return f"(?:{'|'.join((END, *trees))})"


def any_of_caseless(texts: Iterable[str]) -> PrefixPattern:
    """The same for a pattern that is matched in any case: texts that differ in case alone count once."""
    return any_of(sorted({text.casefold() for text in texts}))


def some(characters: str, least: int, most: int) -> PrefixPattern:
    """From `least` to `most` of a character class."""
    return PrefixPattern(f"{characters}{{{least},{most}}}", f"{characters}{{0,{most}}}{END}")


def whole_run(characters: str, most: int) -> PrefixPattern:
    """One to `most` of a character class and not one less than there are: a repeated run divides in one way only."""
    return PrefixPattern(f"{characters}{{1,{most}}}(?!{characters})", f"{characters}{{0,{most}}}{END}")


def sequence(*parts: Part) -> PrefixPattern:
    patterns = [any_of([part]) if isinstance(part, str) else part for part in parts]
    whole = "".join(pattern.whole for pattern in patterns)
    prefix = patterns[-1].prefix
    for pattern in reversed(patterns[:-1]):
        prefix = f"(?:{pattern.prefix}|{pattern.whole}{prefix})"
    return PrefixPattern(whole, prefix)


def either(*parts: Part) -> PrefixPattern:
    patterns = [sequence(part) for part in parts]
    wholes = "|".join(pattern.whole for pattern in patterns)
    prefixes = "|".join(pattern.prefix for pattern in patterns)
    return PrefixPattern(f"(?:{wholes})", f"(?:{prefixes})")


def maybe(*parts: Part) -> PrefixPattern:
    """The parts in sequence, or nothing."""
    pattern = sequence(*parts)
    return PrefixPattern(f"(?:{pattern.whole})?", pattern.prefix)


def repeat(part: Part, most: int) -> PrefixPattern:
    """From one to `most` of `part`."""
    pattern = sequence(part)
    return PrefixPattern(f"(?:{pattern.whole}){{1,{most}}}", f"(?:{pattern.whole}){{0,{most - 1}}}{pattern.prefix}")


def group(name: str, *parts: Part) -> PrefixPattern:
    """The parts in sequence, as a named group of the whole."""
    pattern = sequence(*parts)
    return PrefixPattern(f"(?P<{name}>{pattern.whole})", pattern.prefix)


def before(part: Part) -> PrefixPattern:
    """Nothing, where `part` follows."""
    pattern = sequence(part)
    return PrefixPattern(f"(?={pattern.whole})", pattern.prefix)


class PrefixMatcher:
    """A pattern's expressions, each compiled when it is first used: start-up does not pay for them.

    Nor for a long pattern that is built then, by the function given instead.
    """

    def __init__(self, pattern: PrefixPattern | Callable[[], PrefixPattern], flags: int = 0) -> None:
        self._source = pattern
        self._flags = flags

    @functools.cached_property
    def _pattern(self) -> PrefixPattern:
        return self._source if isinstance(self._source, PrefixPattern) else self._source()

    @functools.cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        return re.compile(self._pattern.whole, self._flags).match

    @functools.cached_property
    def _match_prefix(self) -> Callable[..., re.Match[str] | None]:
        return re.compile(_GROUP.sub("(?:", self._pattern.prefix), self._flags).match

    def is_prefix(self, text: str, at: int) -> bool:
        """Whether all of `text` from `at` on may become a match; text of MAX_MATCH_CHARS or more may not."""
        return len(text) - at <= MAX_MATCH_CHARS and self._match_prefix(text, at) is not None
