"""Whether a block begins at an anchor of prose: it does, it does not, or more text has to decide.

Each anchor character has a method that tries the patterns of openers.py; what precedes the anchor and belongs to the
block (a name, `TOOL_CALL`) is found by lookback.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Union

from msgspec.structs import replace

from ...types.lazy_pattern import LazyPattern
from ..arguments.tool_index import NameIndex
from ..decode.call_shapes import CALL_KEYS, NAME_KEYS
from ..formats.format_set import FORMAT_SET, FormatSet
from . import openers
from .lookback import (
    CHANNELS,
    LINE_START,
    LOOK_BACK_CHARS,
    TO,
    Position,
    PrecedingWord,
    begins_inside_word,
    ends_line_start,
    find_hold,
    find_own_marker,
    find_preceding_name,
    search_back,
    starts_line,
)
from .openers import BlockStart, NeedMore, Skip, await_match
from .reasoning import MARKER

_RECIPIENT = LazyPattern(TO + r"\Z")
_FUNCTOOLS = LazyPattern(r"(?<!\w)functools\Z")
_FUNCTOOLS_CHARS = len("functools")
_BODY_KINDS = {"(": "pythonic", "{": "named", '"': "named"}  # by the first character behind a name
_LABEL = LazyPattern(
    r"(?<![\w.\\/:$-])\*{0,3}`?(action|(?:tool|function)(?:[ _]name|[ _]call)?|name)[*`\"']{0,4}\Z",
    re.IGNORECASE,
)


Detection = Union[BlockStart, NeedMore, Skip, None]


class BlockDetector:
    """Tries the patterns, for the offered tools."""

    def __init__(self, names: NameIndex, formats: FormatSet = FORMAT_SET) -> None:
        self._names = names
        self._formats = formats
        self.count_held = lru_cache(maxsize=16_384)(self._count_held)  # answers repeat their tokens
        self._detectors: dict[str, Callable[[Position], Detection]] = {
            "<": self._detect_angle,
            "{": self._detect_brace,
            "[": self._detect_bracket,
            "(": self._detect_parenthesis,
            "`": self._detect_backtick,
            ":": self._detect_colon,
            ">": self._detect_chevron,
            "=": self._detect_recipient,
        }

    def _count_held(self, text: str) -> int:
        """How many characters at the end of a short text are held back before any call.

        -1 if a block begins in the text, or what precedes the text decides whether one does.
        """
        anchor = self._formats.find_anchor(text)
        while anchor:
            at = anchor.start()
            if text[at] in "`=" or MARKER.match(text, at) or MARKER.is_prefix(text, at):
                return -1
            if (before := text[:at].rstrip()) and begins_inside_word(before):
                return -1
            detection = self.detect(Position(text, at, 0, text[text.rfind("\n", 0, at) + 1 : at]))
            if isinstance(detection, NeedMore):
                return len(text) - min(detection.start, find_hold(self._names, text[: at + 1], 0))
            if detection or ends_line_start(text, at):
                return -1
            anchor = self._formats.anchor.search(text, at + 1)
        return len(text) - find_hold(self._names, text, 0)

    def count_held_after_call(self, text: str) -> int:
        """The same after a call."""
        if self._formats.anchor_after_call.search(text):
            return -1
        return len(text) - find_hold(self._names, text, 0)

    def detect(self, position: Position) -> Detection:
        """What begins at the anchor."""
        start, text = position.at, position.text
        detection: Detection = None
        unusual = self._formats.unusual
        if text[start] not in "<[" and (unusual.match(text, start) or unusual.is_prefix(text, start)):
            detection = self._detect_opener(text, start)
        if not isinstance(detection, (BlockStart, NeedMore)) and text[start] in self._detectors:
            detection = self._detectors[text[start]](position)
        if isinstance(detection, BlockStart) and text[start] in "{=":
            inside = text[detection.body + 1 : detection.body + 67]
            if not inside.removeprefix("{").strip():
                return NeedMore(detection.start)  # what follows decides whether the brace opens an object at all
        return detection

    def _detect_opener(self, text: str, at: int) -> Detection:
        """What begins with a marker of a format."""
        if detection := self._formats.find_text_call(text, at, self._names) or self._detect_markers(text, at, at):
            return detection
        lone = self._formats.lone_element
        if match := lone.match(text, at):
            return BlockStart(at, at, "tags", self._formats.name_lone_marker(match[0]))
        return await_match(lone, text, at, at)

    def _detect_angle(self, position: Position) -> Detection:
        """A marker, or an element that is named after a tool."""
        text, at = position.text, position.at
        if detection := self._detect_pairs(position) or self._detect_opener(text, at):
            return detection
        match = openers.ELEMENT.match(text, at)
        if match and self._names.find(match["name"]) == match["name"] and starts_line(position.line, after_colon=True):
            return BlockStart(at, at, "element", "", match["name"], False)
        if not match and openers.ELEMENT.is_prefix(text, at) and self._names.is_name_prefix(text[at + 1 : at + 100]):
            return NeedMore(at)
        return None

    def _detect_pairs(self, position: Position) -> Detection:
        """A tool's name on a line of its own, then its arguments as pairs."""
        text, at = position.text, position.at
        match = self._formats.pair.match(text, at)
        if not match and not self._formats.pair.is_prefix(text, at):
            return None
        word = find_preceding_name(self._names, position)
        if not word or "\n" not in word.gap:
            return None
        if not starts_line(text[max(position.edge, word.start - LOOK_BACK_CHARS) : word.start].rpartition("\n")[2]):
            return None
        if not match:
            return NeedMore(word.start)
        return BlockStart(word.start, word.begin, "pairs", "", word.name, explicit=False)

    def _detect_markers(self, text: str, at: int, start: int, opener: str = "") -> Detection:
        """Wrapping markers at `at` and the beginning of a body; markers without a body are prose."""
        run = self._formats.opener_run.match(text, at)
        markers = run[0] if run else ""
        body = at + len(markers)
        if opener or markers:
            match = self._formats.body.match(text, body)
            if match and not self._may_continue(match, text):
                return self._read_body(match, start, opener or markers)
            if match or self._formats.body.is_prefix(text, body):
                return NeedMore(start)
        if self._formats.opener.is_prefix(text, body):
            return NeedMore(start)
        return Skip(body) if markers else None

    def _may_continue(self, match: re.Match[str], text: str) -> bool:
        """Whether the bracket that opens the body may yet become one more marker."""
        body = match.end() - 1
        return text[body] == "[" and self._formats.opener.is_prefix(text, body)

    def _read_body(self, match: re.Match[str], start: int, opener: str) -> Detection:
        """The body behind wrapping markers; a bare name there has to be a tool's."""
        kind = match.lastgroup or ""
        if kind == "json":
            return BlockStart(start, match.end() - 1, kind, opener)
        if kind == "tags":
            return BlockStart(start, match.start("tags"), kind, opener)
        if kind == "pairs":
            return BlockStart(start, match.start("name"), kind, opener, match["name"])
        if kind in ("attributes", "empty"):
            return self._read_known_name(match, start, opener)
        return self._read_named(match, start, opener)

    def _read_named(self, match: re.Match[str], start: int, opener: str) -> Detection:
        """A name behind wrapping markers, and the bracket behind it."""
        name, bracket = match["called"], match["bracket"]
        explicit = bracket != "(" and "[TOOL_CALLS]" not in opener and opener != openers.OWN
        if name in CHANNELS or (not explicit and self._names.find(name) is None):
            return Skip(match.end() - (name in CHANNELS))  # before a channel the name may stand, and the brace tells
        return BlockStart(start, match.start("bracket"), _BODY_KINDS[bracket[0]], opener, name)

    def _read_known_name(self, match: re.Match[str], start: int, opener: str) -> Detection:
        """A tool's name behind wrapping markers, with attributes or alone."""
        kind = str(match.lastgroup)
        name, begin = match[f"{kind}_name"], match.start(f"{kind}_name")
        if self._names.find(name) is None:
            return Skip(match.end())
        if kind == "attributes":
            # Of `[Calling tool=`, which nothing but the end of the call closes.
            bracket = match.string.rfind("[", start, begin)
            if bracket > match.string.rfind("]", start, begin):
                begin = bracket
        return BlockStart(start, begin, kind, opener, name)

    def _detect_brace(self, position: Position) -> Detection:
        text, at = position.text, position.at
        if (own := find_own_marker(position)) >= 0:
            return BlockStart(own, at, "json", openers.OWN)
        word = find_preceding_name(self._names, position)
        if word and (named := self._detect_named_object(position, word)):
            return named
        return self._detect_object(text, at, at)

    def _detect_named_object(self, position: Position, word: PrecedingWord) -> Detection:
        """A name, then its arguments as an object."""
        text, at, line = position.text, position.at, position.line
        if text[word.start] == "@":
            return None
        is_apart = word.gap or word.mark or "\n" in text[word.start : at] or word.name.startswith("call:")
        before = line[: len(line) - (at - word.start)].rstrip()
        if not (is_apart or before[-1:] in ("", *"`>.:")):
            return None
        return BlockStart(word.start, at, "named", "", word.name.rstrip(":"), False)

    def _detect_object(self, text: str, at: int, start: int) -> Detection:
        """An object whose first key is one of a call's or a tool's name."""
        key = openers.OBJECT_KEY.match(text, at)
        if not key:
            return await_match(openers.OBJECT_KEY, text, at, start)
        body = key.start() + key[0].startswith("{{")
        if key["key"] not in CALL_KEYS and not self._names.find(key["key"]):
            return None
        if key["key"] in NAME_KEYS:
            value = openers.OBJECT_NAME.match(text, at)
            if value and not self._names.find(value["value"]) and "(" not in value["value"]:
                return None
            if not value and openers.OBJECT_NAME.is_prefix(text, at):
                return NeedMore(start)
        return BlockStart(start, body, "json", "", explicit=False)

    def _detect_bracket(self, position: Position) -> Detection:
        text, at = position.text, position.at
        lead, opener = find_own_marker(position), openers.OWN
        if lead < 0:
            match, base = search_back(_FUNCTOOLS, text, max(position.floor, at - _FUNCTOOLS_CHARS), at, position.edge)
            if match:
                lead, opener = base + match.start(), match[0]
        if lead >= 0:
            inside = text[at + 1 : at + 66].lstrip()
            if not inside or text[at + 1 :] == "[":  # three brackets begin no block
                return NeedMore(lead)
            if inside[0] not in "/!":
                return BlockStart(lead, at, "json", opener)
        return self._detect_args_marker(position) or self._detect_opener(text, at) or self._detect_list(text, at)

    def _detect_args_marker(self, position: Position) -> Detection:
        match = openers.ARGS_MARKER.match(position.text, position.at)
        if not match and not openers.ARGS_MARKER.is_prefix(position.text, position.at):
            return None
        word = find_preceding_name(self._names, position)
        if not word or word.gap:
            return None
        if not match:
            return NeedMore(word.start)
        return BlockStart(word.start, match.end() - 1, "named", "[TOOL_CALLS]", word.name)

    def _detect_list(self, text: str, at: int) -> Detection:
        match = openers.CALL_LIST.match(text, at)
        if (not match or match["object"]) and openers.CALL_LIST.is_prefix(text, at):
            return NeedMore(at)  # what looks like a key may become a call in a string
        if not match:
            return None
        if match["object"]:
            inner = self._detect_object(text, match.start("object"), at)
            return replace(inner, body=at) if isinstance(inner, BlockStart) else inner
        name = match["name"] or match["set_name"]
        return BlockStart(at, at, "pythonic", "", explicit=False) if self._names.find(name) else None

    def _detect_parenthesis(self, position: Position) -> Detection:
        text, at, line = position.text, position.at, position.line
        word = find_preceding_name(self._names, position)
        if not word or word.gap:
            return None
        if word.mark and word.mark != text[word.start : word.begin]:  # a decoration stands on both sides of the name
            return None
        if text[word.start] == "@":
            if match := openers.NUMBERED_CALL.match(text, at):
                return BlockStart(word.start, match.end() - 1, "named", "@", word.name)
            return await_match(openers.NUMBERED_CALL, text, at, word.start)
        before = line[: len(line) - (at - word.begin)]
        if not starts_line(before, after_colon=True):
            return None
        return BlockStart(
            word.begin - len(word.mark), at, "pythonic", "", word.name, explicit=False, must_end_line=True
        )

    def _detect_backtick(self, position: Position) -> Detection:
        """A fence or a quoting backtick belongs to the block that it begins with."""
        text, at, line = position.text, position.at, position.line
        if (own := find_own_marker(position)) >= 0 and (detection := self._detect_after_own(text, at, own)):
            return detection
        is_fence = "```".startswith(text[at : at + 3])  # or may become one at the end of the text
        if not text.startswith("``", at) and not starts_line(line):
            return NeedMore(at) if at + 1 == len(text) else None
        if is_fence:
            word = find_preceding_name(self._names, position)
            if word and "\n" in word.gap and (detection := self._detect_named_fence(text, at, word)):
                return detection
        inner = self._detect_quoted(text, at)
        if isinstance(inner, NeedMore):
            return NeedMore(at)
        return replace(inner, start=at, must_end_line=False) if isinstance(inner, BlockStart) else None

    def _detect_named_fence(self, text: str, at: int, word: PrecedingWord) -> Detection:
        """A name, then its arguments in a fence."""
        match = openers.FENCE_START.match(text, at)
        if not match:
            return await_match(openers.FENCE_START, text, at, word.start)
        if match[0][-1] != "{":
            return None
        return BlockStart(word.start, match.end() - 1, "named", "", word.name.rstrip(":"), False)

    def _detect_quoted(self, text: str, at: int) -> Detection:
        """The block that stands first behind the backticks: directly, or behind a language and whitespace."""
        ticks = len(text[at : at + 4]) - len(text[at : at + 4].lstrip("`"))
        if detection := self._detect_fenced(text, at + ticks, is_language=True):
            return detection
        if (block := openers.TOOL_FENCE.match(text, at)) and self._names.find(block["name"]):
            if block["argument"]:
                return BlockStart(at, block.start("name"), "pairs", "```tool", block["name"])
            return BlockStart(at, block.end("name"), "text", "```tool", block["name"], closer="```")
        if openers.FENCE_START.is_prefix(text, at):
            return NeedMore(at)  # the first word may become a variable, before the block
        match = openers.FENCE_START.match(text, at)
        if not match:
            return None
        if not block and openers.TOOL_FENCE.is_prefix(text, at):
            return NeedMore(at)
        first = match.end() - 1
        if text[first] in "<{[":
            return self.detect(Position(text, first, first, ""))
        return self._detect_fenced(text, first)

    def _detect_fenced(self, text: str, at: int, *, is_language: bool = False) -> Detection:
        """The block whose first word is at `at`; `is_language`: directly behind backticks, where a language may be."""
        own, matcher = openers.OWN_MARKER, openers.FENCED_CALL
        if match := own.match(text, at):
            return self._detect_after_own(text, match.end(), at)
        match = matcher.match(text, at)
        if at < len(text) and (own.is_prefix(text, at) or matcher.is_prefix(text, at)):
            return NeedMore(at)  # what follows a match may make it part of a name, too
        if not match:
            return None
        mark = match.start("mark")
        if not is_language or (match["mark"] in "({" and self._names.find(match["name"])):
            if text[mark] == ":":
                return self._detect_colon(Position(text, mark, at, ""))
            return self.detect(Position(text, mark, match.start("name"), text[at:mark]))
        return None

    def _detect_colon(self, position: Position) -> Detection:
        text, at, floor = position.text, position.at, position.floor
        if (own := find_own_marker(position)) >= 0:
            return self._detect_after_own(text, at, own)
        label, base = search_back(_LABEL, text, max(floor, at - 32), at, position.edge)
        if not label:
            return None
        start = base + label.start()
        if not LINE_START.fullmatch(position.line[: len(position.line) - (at - start)]):
            return None
        if label[1] == "TOOL_NAME" or (label[1].casefold() == "tool_name" and openers.ARGUMENT_BLOCK.match(text, at)):
            return BlockStart(start, start, "tags", "TOOL_NAME:")
        detection = self._detect_labelled(text, base + label.start(1), start)
        if detection is None and label[1].casefold() == "tool_name":
            return await_match(openers.ARGUMENT_BLOCK, text, at, start)
        return detection

    def _detect_after_own(self, text: str, at: int, start: int) -> Detection:
        """The body behind `TOOL_CALL`."""
        gap = openers.OWN_GAP.match(text, at)
        assert gap  # noqa: S101 - it matches the empty string, too
        return self._detect_markers(text, gap.end(), start, openers.OWN)

    def _detect_labelled(self, text: str, at: int, start: int) -> Detection:
        """A name and its arguments on labelled lines, or an object behind `Action:`."""
        if match := openers.LABELLED_CALL.match(text, at):
            return self._read_labelled(match, start)
        if match := openers.ACTION_OBJECT.match(text, at):
            if self._may_continue(match, text):
                return NeedMore(start)
            return BlockStart(start, match.end() - 1, "json", "Action:", explicit=False)
        return await_match(openers.LABELLED_CALL, text, at, start) or await_match(
            openers.ACTION_OBJECT, text, at, start
        )

    def _read_labelled(self, match: re.Match[str], start: int) -> Detection:
        """Only `Action:` asks for a call; behind another label a tool's name and an object have to stand."""
        name, is_json, is_action = match["name"], match["json"] is not None, match[0][:6].casefold() == "action"
        if not is_action and not (is_json and self._names.find(name)):
            return None
        if not is_json:
            return BlockStart(start, match.start("line"), "labels", "Action:", name)
        if self._may_continue(match, match.string):
            return NeedMore(start)
        return BlockStart(start, match.end() - 1, "named", "Action:", name, is_action)

    def _detect_recipient(self, position: Position) -> Detection:
        """A recipient of Harmony, a name behind `to=`."""
        text, at, floor = position.text, position.at, position.floor
        recipient, base = search_back(_RECIPIENT, text, max(floor, at - LOOK_BACK_CHARS), at + 1, position.edge)
        if not recipient:
            return None
        lead = base + recipient.start()
        match = openers.RECIPIENT_CALL.match(text, at + 1)
        if not match:
            return await_match(openers.RECIPIENT_CALL, text, at + 1, lead)
        body = match.end() - 1
        if not openers.OBJECT_START.match(text, body):
            return None
        return BlockStart(lead, body, "named", "<|channel|>", match["name"])

    def _detect_chevron(self, position: Position) -> Detection:
        text, at, line = position.text, position.at, position.line
        matcher = openers.CHEVRON_CALL
        match = matcher.match(text, at)
        if not match:
            return await_match(matcher, text, at, at)
        kind = _BODY_KINDS[match["bracket"][0]]
        if not self._names.find(match["name"]) or not (kind == "named" or starts_line(line)):
            return None
        return BlockStart(at, match.start("bracket"), kind, ">>>", match["name"], False)


make_detector = lru_cache(maxsize=8)(BlockDetector)  # the next answer mostly has the same tools on offer
