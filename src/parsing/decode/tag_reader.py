"""Calls written in tags, read piece by piece: where a block ends, its calls, and whether another reading is as good.

A value may hold every tag of its own format. So a block ends where its cheapest reading (tag_readings.py) lacks
nothing and no closing tag follows soon; at the end of the text the cheapest reading counts as it is. If a second
reading costs about the same, or a tag is missing, the calls are `guessed`.
"""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from ..formats.tag_syntax import ELEMENT, MAX_TAG_CHARS, PREFIX, TagSyntax, compile_opening, declares_string
from ..stream.brackets import BracketMatcher
from .call_shapes import NO_END, NO_NAME, DecodedBlock, RawCall
from .json_repair import MISSING_CLOSERS, read_whole
from .nodes import DeclaredText, Node, UnreadableValue, put
from .scalars import unescape_entities
from .tag_readings import Rank, Readings, ReadingStep
from .tag_style import NO_MARKERS, Markers, Opening, TagStyle, make_style, read_opening, skip_space
from .xml import NULLS, Markup

LOOK_AHEAD_CHARS = 400  # behind a block that is complete; where a closing tag stands there, it is not
_MAX_CALLS = 64  # in one block
_MAX_CALL_TAGS_CHARS = 700  # of several tags that begin a call
MAX_TAGS = 2048  # in one block, which is cut off behind them
_NEEDS_SECTION = LazyPattern(r"[<&\n]")
_MARKER_CHARS = 62
_FOREIGN_END = LazyPattern(rf"</{PREFIX}(?:function|invoke|tool_calls?|function_calls?|call|tool)>", re.IGNORECASE)
_BEGUN_MARKER = LazyPattern(rf"<(?!/).{{0,{_MARKER_CHARS - 1}}}\Z", re.DOTALL)  # of one that opens something
_OTHER_MARKER = LazyPattern(r"<(?!/)[^<>\n]{1,60}>")


class _Progress(Struct, frozen=True):
    """How far a step read, whether the block ends there, and whether the next step needs no more text."""

    at: int
    ended: bool
    goes_on: bool


class TagReader:
    """Follows a block from the tag that names the tool; fed like the followers of stream/brackets.py.

    `written_name` is the name of the first call, and `arguments_at` where its arguments begin in the block: both are
    known once it is known how these are written. `style` are their tags; None if they stand in an object.
    """

    quote = ""

    def __init__(
        self,
        syntaxes: Iterable[TagSyntax],
        markers: Markers = NO_MARKERS,
        rank: Rank = lambda _name, _key: 1,
    ) -> None:
        self.parts: list[str] = []
        self.size = 0
        self.may_end: Callable[[str], object] = bool
        self.written_name = ""
        self.arguments_at = 0
        self.style: TagStyle | None = None
        self._syntaxes = tuple(syntaxes)
        self._markers = markers
        self._rank = rank
        self._step: Callable[[str, int], _Progress] = self._begin
        self._call: tuple[TagSyntax, Opening] | None = None
        self._readings: Readings | None = None
        self._json = BracketMatcher()
        self._has_foreign_end = False  # of a block that begins as none of the syntaxes does
        self._is_blank = True  # since the last tag
        self._count = 0  # tags
        self._base = 0  # added to a position in the text that is fed
        self._final = False

    @property
    def is_inside(self) -> bool:
        """Whether the block goes on with all text that was fed, also with what is not read yet."""
        return self._step == self._read_tag

    def feed(self, text: str, position: int, *, final: bool = False) -> tuple[int, bool]:
        """How far the block reaches in `text` from `position` on, and whether it ends there."""
        self._base, self._final = self.size - position, final
        progress = _Progress(position, False, True)
        while progress.goes_on:
            progress = self._step(text, progress.at)
        self.parts.append(text[position : progress.at])
        self.size = self._base + progress.at
        self.may_end = bool
        if self.style and self.is_inside:
            self.may_end = self.style.may_end
        return progress.at, progress.ended

    def _begin(self, text: str, at: int) -> _Progress:
        start = skip_space(text, at)
        end = start + MAX_TAG_CHARS  # a longer tag would be read in some pieces and not in others
        for syntax in self._syntaxes:
            if tag := compile_opening(syntax.call, of_call=True, key=syntax.key).match(text, start, end):
                self._call = syntax, read_opening(tag)
                step = ReadingStep(None, "call", tag["word"], self._base + tag.start(), self._base + tag.end())
                is_wrapped, has_end = bool(self._markers.openers), bool(syntax.call_end)
                self._readings = Readings(step, self._rank, is_wrapped=is_wrapped, has_call_end=has_end)
                self._step = self._choose_style
                return _Progress(tag.end(), False, True)
        is_foreign = self._final or len(text) - start > MAX_TAG_CHARS
        if is_foreign:
            self._step = self._pass_foreign
        return _Progress(at, False, is_foreign)

    def _pass_foreign(self, text: str, at: int) -> _Progress:
        """Ends the block with a tag that closes a call in some format."""
        if closing := _FOREIGN_END.search(text, at):
            self._has_foreign_end = True
            return _Progress(closing.end(), True, False)
        return _Progress(max(at, len(text) - _MARKER_CHARS), False, False)

    def _choose_style(self, text: str, at: int) -> _Progress:
        """The first argument decides how arguments are written; all may also stand in an object."""
        assert self._call  # noqa: S101 - the call begins before its arguments
        syntax, opening = self._call
        start = skip_space(text, at)
        if text[start : start + 1] == "{":
            self._step = self._follow_json
        elif style := self._find_style(syntax, opening, text, start):
            self.style, self._step = style, self._read_tag
        else:
            return _Progress(start, False, False)
        self.written_name, self.arguments_at = opening.word, self._base + start
        return _Progress(start, False, True)

    def _find_style(self, syntax: TagSyntax, opening: Opening, text: str, start: int) -> TagStyle | None:
        """What the tag at `start` shows of how arguments are written, if it shows that, or that none is."""
        own = self._make_own_style(syntax, opening)
        for argument in (syntax, *self._syntaxes):
            if not argument.is_element and (key := compile_opening(argument.key, of_call=False).match(text, start)):
                return make_style(syntax, opening, argument, read_opening(key), self._markers)
        if own.tags.match(text, start):
            return own
        if syntax.call_end and compile_opening(ELEMENT.key, of_call=False).match(text, start):
            return make_style(syntax, opening, ELEMENT, Opening(), self._markers)
        if self._final or len(text) - start > MAX_TAG_CHARS:
            return own
        return None

    def _make_own_style(self, syntax: TagSyntax, opening: Opening) -> TagStyle:
        """The style of a call without arguments in tags."""
        return make_style(syntax, opening, syntax, Opening(prefix=opening.prefix), self._markers)

    def _follow_json(self, text: str, at: int) -> _Progress:
        assert self._call and self._readings  # noqa: S101 - the call begins before its arguments
        end, ended = self._json.feed(text, at)
        if ended:
            self._readings.add_object(self._base + end - self._json.size, self._base + end)
            self.style, self._step = self._make_own_style(*self._call), self._read_tag
        return _Progress(end, False, ended)

    def _read_tag(self, text: str, at: int) -> _Progress:
        style, readings = self.style, self._readings
        assert style and readings  # noqa: S101 - the step before found them
        if self._count == MAX_TAGS:
            return _Progress(len(text), False, False)
        match = style.tags.search(text, at)
        if match and not self._final and self._may_become_other(style, text, at, match):
            return _Progress(at, False, False)
        if match is None:
            hold = style.starts.search(text, max(at, len(text) - MAX_TAG_CHARS))
            end = hold.start() if hold else len(text)
            self._is_blank = self._is_blank and not text[at:end].strip()
            return _Progress(end, False, False)
        is_next = self._is_blank and not text[at : match.start()].strip()
        tag = style.classify(match, self._base, is_next=is_next)
        readings.add(tag, style)
        self._count += 1
        self._is_blank = True
        if readings.is_complete(tag):
            self._step = functools.partial(self._look_ahead, style)
        return _Progress(match.end(), False, True)

    def _may_become_other(self, style: TagStyle, text: str, at: int, match: re.Match[str]) -> bool:
        """Whether more text may make it a longer marker, or part of the tags that begin a call."""
        if style.is_labelled and "\n" not in text[match.start() :]:
            return True  # the line may be a label with more behind it
        if match.lastgroup in ("b", "B"):
            return self._may_be_longer(text, match)
        low = max(at, len(text) - _MAX_CALL_TAGS_CHARS)
        return low < match.start() and style.first_of_call.search(text, low, match.start()) is not None

    def _may_be_longer(self, text: str, match: re.Match[str]) -> bool:
        """Whether more text may make a marker a longer one."""
        rest = text[match.start() : match.start() + MAX_TAG_CHARS].casefold()
        markers = (*self._markers.openers, *self._markers.closers)
        return any(marker.casefold().startswith(rest) and marker != match[0] for marker in markers)

    def _look_ahead(self, style: TagStyle, text: str, at: int) -> _Progress:
        """Ends the block, unless a closing tag follows soon."""
        start = skip_space(text, at)
        own = style.tags.match(text, start)
        if own and own.lastgroup == "P" and not style.is_element:  # no argument may follow
            return self._resume(at)
        if not _closes(own, style) and _OTHER_MARKER.match(text, start):
            # More text may make it an argument that several tags begin.
            may_begin = len(text) - start <= MAX_TAG_CHARS and style.first_of_key.match(text, start)
            return _Progress(at, not may_begin, False)
        if not own and not self._final and _BEGUN_MARKER.match(text, start):
            return _Progress(at, False, False)
        return self._look_for_closer(style, text, at, start)

    def _look_for_closer(self, style: TagStyle, text: str, at: int, start: int) -> _Progress:
        window = at + LOOK_AHEAD_CHARS
        for tag in style.tags.finditer(text, start, min(window, len(text))):
            if not self._final and tag.lastgroup in ("b", "B") and self._may_be_longer(text, tag):
                return _Progress(at, False, False)
            if _closes(tag, style):
                return self._resume(at)
            if tag.lastgroup in ("C", "B"):
                return _Progress(at, True, False)
        return _Progress(at, len(text) >= window, False)

    def _resume(self, at: int) -> _Progress:
        """The block goes on where it seemed to be complete."""
        self._step = self._read_tag
        return _Progress(at, False, True)

    def read(self, text: str) -> tuple[DecodedBlock, int]:
        """The calls of the block, whose text, and what came behind it, is `text`; and where the block ends."""
        if self._readings is None:
            if self._has_foreign_end:
                return DecodedBlock([], problem=NO_NAME), self.size
            return DecodedBlock([], problem=NO_END, cut=True), len(text)
        best = self._readings.choose()
        if best is None or self.style is None or self._count == MAX_TAGS:
            calls = [RawCall(self._readings.step.call_name, None, [])]
            return DecodedBlock(calls, problem=NO_END, cut=True), len(text)
        builder = _TagCallBuilder(text, self.style)
        builder.build(best.list_steps())
        calls = builder.calls[:_MAX_CALLS]
        repairs = () if best.is_clean else (MISSING_CLOSERS,)
        guessed = builder.guessed or best.is_doubtful
        return DecodedBlock(calls, repairs, guessed=guessed, closers=self.style.list_closers(calls)), best.step.end


def _closes(match: re.Match[str] | None, style: TagStyle) -> bool:
    """Whether a tag closes a call, a wrapping marker, or a value that is not named after its argument."""
    if match is None:
        return False
    kind = style.classify(match).kind
    return kind in "cb" or (kind == "p" and not style.is_element)


class _Value(Struct, frozen=True):
    """The text of a value, where it is no section with the newlines that the format writes around it cut off."""

    key: ReadingStep
    text: str
    is_section: bool


class _TagCallBuilder:
    """The calls of a reading, out of its steps. `guessed`: a value may have had what was cut off from it."""

    def __init__(self, text: str, style: TagStyle) -> None:
        self._text = text
        self._style = style
        self.guessed = False
        self.calls: list[RawCall] = []

    def build(self, steps: Iterable[ReadingStep]) -> None:
        name, values, members = "", list[_Value](), None
        for step in steps:
            if step.kind == "call":
                if name:
                    self._add_call(name, values, members)
                name, values, members = step.text, [], None
            elif step.kind == "json":
                members = step
            elif step.kind == "end":
                values.append(self._cut_value(step))
        self._add_call(name, values, members)

    def _add_call(self, name: str, values: list[_Value], members: ReadingStep | None) -> None:
        arguments: dict[str, Node] = {}
        try:
            if members:
                arguments = self._read_object(members)
            for key, text in self._unquote(values):
                # A key that stands twice is refused with the same value, too: one may be a part of another value.
                put(arguments, unescape_entities(key.text.strip()), _read_value(text, key.attributes, self._style))
            self.calls.append(RawCall(name, arguments, []))
        except UnreadableValue as error:
            self.calls.append(RawCall(name, None, [], error))

    def _read_object(self, step: ReadingStep) -> dict[str, Node]:
        """Raises UnreadableValue."""
        members = read_whole(self._text[step.start : step.end])
        if not isinstance(members, dict):
            raise UnreadableValue("The arguments are no object.")
        return members

    def _cut_value(self, end: ReadingStep) -> _Value:
        """The value that ends there."""
        _, begin, *before = itertools.islice(end.iter_back(), 3)
        value, is_section = self._text[begin.end : end.start], begin.kind == "section"
        if is_section:
            begin = before[0]
            self.guessed |= not _NEEDS_SECTION.search(value)
        else:
            value = self._cut_newlines(self._cut_indentation(begin, value))
        self.guessed |= self._style.boundary.search(value) is not None
        return _Value(begin, value, is_section)

    def _cut_indentation(self, key: ReadingStep, value: str) -> str:
        """The value without the indentation of its tags: no format indents them, so a model indented the block."""
        indent = self._text[self._text.rfind("\n", 0, key.start) + 1 : key.start]
        first, *lines = value.split("\n")
        if first or not indent or not indent.isspace() or lines[-1:] != [indent]:
            return value
        if not all(line.startswith(indent) or not line.strip() for line in lines):
            self.guessed = True
            return "\n".join(("", *lines[:-1], ""))
        return "\n".join(("", *(line.removeprefix(indent) for line in lines)))

    def _cut_newlines(self, value: str) -> str:
        """The value without the newlines that the format writes around it, or that many models write there."""
        style = self._style
        if style.wraps_loosely and value[:1] == "\n" == value[-1:] and len(value) > 1:
            self.guessed = True
            return value[1:-1]
        if style.cuts_first:
            value = value.removeprefix("\n")
        if style.cuts_last:
            value = value.removesuffix("\n")
        return value

    def _unquote(self, values: list[_Value]) -> Iterator[tuple[ReadingStep, str]]:
        """The values, without quotes as in JSON around one.

        Continue writes so, and other models behind a blank. Some templates write all values as JSON: a value of which
        the quotes are a part stands beside one that is no JSON, or the call is guessed.
        """
        strings = [self._read_quoted(value) for value in values]
        count = len(strings) - strings.count(None)
        is_json = count > 0 and all(map(_is_json, values))
        may_be_part = not is_json and not self._style.is_labelled
        for value, string in zip(values, strings, strict=True):
            if string is None or (may_be_part and value.text[0] == '"'):
                yield value.key, value.text
                continue
            self.guessed = self.guessed or not is_json or count == 1
            yield value.key, string

    def _read_quoted(self, value: _Value) -> str | None:
        """The string that a value is in JSON; None for a value of another type."""
        text = value.text.strip()
        if self._style.is_element or value.is_section or not text.startswith('"'):
            return None
        try:
            return str(json.loads(text))
        except ValueError:
            return None


def _is_json(value: _Value) -> bool:
    try:
        json.loads(value.text)
    except (ValueError, RecursionError):
        return False
    return True


def _read_value(value: str, attributes: str, style: TagStyle) -> Node:
    """The value: its text, of a class that says what else the text may stand for."""
    is_string = declares_string(attributes)
    if is_string is None and (style.is_element or value in NULLS):
        return Markup(value)
    return DeclaredText(value) if is_string is False else value
