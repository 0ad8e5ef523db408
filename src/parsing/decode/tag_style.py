"""The tags of one block: patterns that find them, made from the format's syntax and from how the block was opened."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from ...types.lazy_pattern import LazyPattern
from ..formats.tag_syntax import (
    CALL_ELEMENTS,
    ELEMENT,
    ELEMENT_NAMES,
    NOISE,
    PARAMETER_ELEMENTS,
    PREFIX,
    TagSyntax,
    compile_opening,
)
from .call_shapes import RawCall

_LOOSE = {  # what closes a call or a value under another name
    "d": rf"</{PREFIX}(?:{'|'.join(CALL_ELEMENTS)})(?::[\w-]{{1,20}})?\s?>",
    "q": rf"</{PREFIX}(?:{'|'.join(PARAMETER_ELEMENTS)})\b[^<>\n]{{0,80}}>",
}
# What may yet become a tag where text goes on: unlike `a < b`, and no longer than most tags.
_BEGUN_TAG = r"<(?:/[^<>]{0,120}|[\w.:|｜-]{1,80}(?:[ \t=][^<>\n]{0,80})?)?"
# With special tokens in its name, unlike `a < b`; or the end of a section.
_OPEN_TAG = LazyPattern(r"<(?!\s[^｜|])(?:[^<>]|<\|\w{1,24}\|>)*(?:<(?:\|\w{0,24}\|?)?)?\Z|\]\]?\Z")
_SECTION = {"s": r"<!\[CDATA\[", "e": r"\]\]>"}
_LEAD = LazyPattern(r"(.*)<\{key\}>\s*", re.DOTALL)
_OTHER_GROUPS = LazyPattern(r"\(\?P<(?!name>)\w+>")
_ONE_TAG = LazyPattern(r"\s*(?:<[^<>]*>\s*)?")  # or nothing
_WORD = r"[^\W\d][\w.-]{0,63}"
_SPACE = LazyPattern(r"\s*")
_NOTHING = re.compile(r"(?!)")


def skip_space(text: str, at: int) -> int:
    """Where the whitespace at `at` ends."""
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string, too


class Tag(Struct, frozen=True):
    """A tag: `kind` is P or p (an argument's), C or c (a call's), B or b (the wrapping marker's), s or e (CDATA's).

    A small letter closes. `is_loose`: it closes under another name than what was opened. `is_next`: only whitespace
    stands between it and the tag before.
    """

    kind: str
    word: str
    attributes: str
    start: int
    end: int
    is_loose: bool
    is_next: bool


class Opening(Struct, frozen=True):
    """What an opening tag decides: the word that it names, what stands before its element's name, and that name."""

    word: str = ""
    prefix: str = ""
    element: str = ""


def read_opening(match: re.Match[str]) -> Opening:
    groups = match.groupdict()
    return Opening(groups["word"], groups.get("prefix") or "", groups.get("element") or "")


class Markers(Struct, frozen=True):
    """The markers around the calls of a block."""

    openers: tuple[str, ...] = ()
    closers: tuple[str, ...] = ()


NO_MARKERS = Markers()


class TagStyle:
    """The tags of one block: how a call and its first argument are opened decides how they are closed.

    `first_of_call` and `first_of_key`: the first of the several tags that begin a call or an argument; they match
    nothing where one tag does. `boundary`: the end of a value and that tag; where they stand in a value, the key
    between them is broken.
    `cuts_first` and `cuts_last`: the format writes a newline at that end of a value. `wraps_loosely`: models that
    write this format often put newlines around a value. `has_sections`: the format writes CDATA sections.
    What may yet become a tag begins with a match of `starts`; `may_end` finds what ends one. In a value,
    `value_may_end` matches an end of the text that may become a tag, which holds one of `marks_value`.
    """

    def __init__(self, call: TagSyntax, opening: Opening, argument: TagSyntax, key: Opening, markers: Markers) -> None:
        self.is_element, self.is_labelled = argument.is_element, "<" not in argument.key
        self.value_end = argument.value_end.rstrip()
        self.has_sections = key.element == "param"
        self.cuts_first, self.cuts_last = argument.key.endswith("\n"), argument.value_end.startswith("\n")
        self.wraps_loosely = not self.cuts_first and (argument == ELEMENT or call.call.startswith("<function="))
        call = replace(call, call_end=call.call_end.replace("{name}", opening.word))
        tags = _compile_argument(argument, key, call, opening) | _compile_call(call, opening) | _SECTION
        for kind, wrapping in (("B", markers.openers), ("b", markers.closers)):
            tags[kind] = "|".join(map(re.escape, sorted(wrapping, key=len, reverse=True)))
        self.first_of_call = _compile_first_tag(call.call)
        self.first_of_key = _compile_first_tag(argument.key)
        self.boundary = re.compile(tags["p"] + r"\s*" + self.first_of_key.pattern)
        if opening.element and not self.is_element:
            tags |= _LOOSE
        kinds = (kind for kind in "cCBbPpdqse" if tags.get(kind))
        flags = re.IGNORECASE if self.is_labelled else 0
        self.tags = re.compile("|".join(f"(?P<{kind}>{tags[kind]})" for kind in kinds), flags)
        closers = (argument.value_end.strip(), call.call_end.strip(), *markers.closers)
        openers = (call.call, argument.key, *markers.openers)
        if all(map(_ONE_TAG.fullmatch, (*openers, *closers))):
            self.starts: re.Pattern[str] | LazyPattern = _OPEN_TAG
        else:
            self.starts = _compile_any(text[:1] for text in (argument.key, *closers, *markers.openers, "<", "]"))
        self.value_may_end, self.marks_value = _compile_value_end(argument.value_end.strip(), flags, self.cuts_last)
        self.may_end = _compile_any(text[-1:] for text in (*closers, ">")).search

    def list_closers(self, calls: Iterable[RawCall]) -> tuple[str, ...]:
        """What ends the values of these calls and of no other format's."""
        if self.is_labelled:
            return (self.value_end,)
        if not self.is_element:
            return ()
        names = {name for call in calls for name in (call.name, *(call.arguments or ()))}
        return tuple(f"</{name}>" for name in sorted(names))

    def classify(self, match: re.Match[str], base: int = 0, *, is_next: bool = True) -> Tag:
        """The tag of a match of `tags`; `base` is added to its positions."""
        groups, kind = match.groupdict(), str(match.lastgroup)
        exact = {"d": "c", "q": "p"}.get(kind, kind)
        word = groups.get({"p": "closed", "C": "name"}.get(kind, "word"))
        start, end = base + match.start(), base + match.end()
        return Tag(exact, word or "", groups.get("attributes") or "", start, end, exact != kind, is_next)


@functools.lru_cache(maxsize=256)
def make_style(call: TagSyntax, opening: Opening, argument: TagSyntax, key: Opening, markers: Markers) -> TagStyle:
    return TagStyle(call, opening, argument, key, markers)


def _compile_argument(argument: TagSyntax, key: Opening, call: TagSyntax, opening: Opening) -> dict[str, str]:
    lead = _LEAD.match(argument.key)
    if lead is None:
        opens = compile_opening(argument.key, of_call=False).pattern
        return {"P": opens, "p": _compile_closing(argument.value_end, key)}
    before, ends = re.escape(lead[1]), call.call_end.split()
    # The first of several tags that end a call ends no argument.
    other = rf"(?!{_compile_closing(ends[0], opening)})" if len(ends) > 1 else ""
    opens = rf"{before}<(?P<word>{_WORD})(?:\s[^<>]{{0,200}})?>"
    if not before:
        opens = rf"(?!{_compile_first_tag(call.call).pattern}){opens}"
    return {"P": opens, "p": rf"{other}{before}</(?P<closed>{_WORD})\s?>"}


def _compile_first_tag(template: str) -> re.Pattern[str]:
    """The pattern of the first of several tags in a template; it matches nothing if that is alone or holds a name."""
    template = template.replace(NOISE, "")
    first = template.partition(">")[0] + ">"
    if template.count("<") < 2 or "{" in first:
        return _NOTHING
    return re.compile(_OTHER_GROUPS.sub("(?:", compile_opening(first, of_call=False).pattern))


def _compile_call(call: TagSyntax, opening: Opening) -> dict[str, str]:
    if not call.call_end:
        return {}
    template = call.call
    if "<{name}" in template:  # the newline behind a tag that is named after the tool may be missing
        template = template.replace("<{name}", f"<{opening.word}").rstrip()
    opens = compile_opening(template, of_call=True).pattern.replace("(?P<word>", "(?P<name>")
    return {"C": _OTHER_GROUPS.sub("(?:", opens), "c": _compile_closing(call.call_end, opening)}


def _compile_closing(template: str, opening: Opening) -> str:
    """The pattern of a closing template, with the prefix and the name of the element that was opened."""
    source = ""
    for part in re.split(r"(</\w+|\s+)", template.strip()):
        if part.startswith("</"):
            tag = part[2:]
            element = ELEMENT_NAMES.get(tag) or re.escape(tag)
            if opening.element and tag in (*CALL_ELEMENTS, *PARAMETER_ELEMENTS):
                element = re.escape(opening.element)
            source += rf"</{re.escape(opening.prefix)}{element}(?::[\w-]{{1,20}})?"
        elif part.isspace():
            source += r"\s{0,64}"
        else:
            source += re.escape(part)
    return source


def _compile_value_end(closer: str, flags: int, cuts_last: bool) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The patterns of what may begin the tag behind a value at the end of a text, and of its characters."""
    literal = closer.partition("</")[0]  # of closers that are no mere tags
    begins = _BEGUN_TAG
    for character in reversed(literal):
        begins = rf"{re.escape(character)}(?:{begins})?"
    marks, pattern = {"<", *literal[:1]}, rf"(?:{begins}|{_BEGUN_TAG})\Z"
    if cuts_last:
        marks.add("\n")
        pattern = rf"\n?{pattern}|\n\Z"
    return re.compile(pattern, flags), _compile_any(marks)


def _compile_any(characters: Iterable[str]) -> re.Pattern[str]:
    return re.compile("[" + re.escape("".join(sorted(set(characters)))) + "]", re.IGNORECASE)
