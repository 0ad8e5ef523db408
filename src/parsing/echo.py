"""Whether a call only repeats one that the model was given: in a message, a file, or any other result.

A given text is read as an answer is, and its calls are compared with the call: the tool's name, and the values of the
arguments without what quoting changes. It is read as often as its escapes were encoded; what a file or a search puts
before its lines, code marks and markers of thoughts are removed, and each call is read as if it were the first.
A text is read once for the same tools, and only if the call's name and values stand in it.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from ..types.events import ReasoningDelta, TextDelta
from ..types.lazy_pattern import LazyPattern
from ..types.messages import ToolCall
from .decode.scalars import unescape_entities
from .events import Malformed, ParsedCall, ParserEvent
from .formats.envelopes import REASONING
from .formats.table import FORMATS

_MIN_ECHO_CHARS = 12  # of a call with its markup; less is found in any text
_MAX_BLOCKS = 1_500  # in one text; what holds more takes too long, and the call counts as an echo
_MAX_READINGS = 8  # of a text, on average
_MAX_ENCODINGS = 4  # of a text in a string of a string, or in entities
_MIN_DOUBLED_QUOTES = 4
_MIN_PIECE_CHARS, _MAX_PIECE_CHARS = 64, 65_536  # that are read at once
_LINE_PREFIX = LazyPattern(  # marks of comments, lists and diffs; numbers of lines, behind a path or alone; git blame
    r"^(?:(?:[ \t]*(?:[>+#*-]+|//)|(?:[^\s:]{0,200}[:-])?[ \t]*\d{1,7}(?:[\t:|\n-]|→)"
    r"|\^?[0-9a-f]{7,40} [^()\n]{0,200}\([^()\n]{1,120}\d\))[ \t]?)+",
    re.MULTILINE,
)
_ESCAPE = LazyPattern(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([nrt\"'\\/]))")
_BLANKS = {"n": "\n", "r": "\r", "t": "\t"}
_HERE = LazyPattern(r"(?<![\w.])\./")
_QUOTES = str.maketrans("", "", "\"'`“”‘’\\")


class Parser(Protocol):
    """What reads a text: stream/parser.py."""

    def feed(self, text: str) -> list[ParserEvent]: ...

    def close(self) -> list[ParserEvent]: ...


class SoughtCall:
    """A call that is looked for in given texts, as they are compared; `raw` is the block that it came in."""

    def __init__(self, call: ToolCall, raw: str) -> None:
        self.name = call.name
        self._call, self._raw = call, raw

    @functools.cached_property
    def name_part(self) -> str:
        """Stands in every text that holds the call."""
        return max(re.split(r"[\W_]+", self.name), key=len)

    @functools.cached_property
    def written(self) -> str:
        return "".join(self._raw.split())

    @functools.cached_property
    def block(self) -> str:
        return simplify(self._raw)

    @functools.cached_property
    def strings(self) -> list[tuple[str, ...]]:
        """The strings in the arguments, each in the forms that it may have in a text."""
        return list(map(_list_forms, _iter_strings(self._call.arguments)))

    @functools.cached_property
    def arguments(self) -> object:
        return _simplify_value(self._call.arguments)


class GivenText:
    """A text that the model was given. `is_user`: of the user's, in which only a call as it stands there counts."""

    __slots__ = ("_calls", "_is_user", "_plain", "_text", "_tools")

    def __init__(self, text: str, *, is_user: bool = False) -> None:
        self._text = text
        self._is_user = is_user
        self._plain: tuple[str, ...] = ()
        self._tools: object = None  # on offer when the text was read
        self._calls: Sequence[tuple[str, object]] | None = ()  # names and arguments

    def holds_call(self, call: SoughtCall, tools: object, new_parser: Callable[[], Parser]) -> bool:
        """Whether the call stands in the text, or its block does; `new_parser` makes a parser for `tools`."""
        if call.name_part not in self._text:
            return False
        if self._is_user:
            return len(call.written) >= _MIN_ECHO_CHARS and self._holds_any((call.written,))
        if len(call.block) >= _MIN_ECHO_CHARS and self._holds_any((call.block,)):
            return True
        if not all(map(self._holds_any, call.strings)):
            return False
        if self._tools is not tools:
            self._tools, self._calls = tools, read_calls(self._text, new_parser)
        if self._calls is None:
            return True
        return any(name == call.name and _is_same(call.arguments, arguments) for name, arguments in self._calls)

    def may_hold(self, beginning: str) -> bool:
        """Whether a call may stand in the text that has a string which begins so."""
        return self._is_user or self._holds_any(_list_forms(beginning))

    def _holds_any(self, forms: tuple[str, ...]) -> bool:
        for plain in self._simplify():  # a loop, as every text of the conversation is asked for every call
            for form in forms:
                if form in plain:
                    return True
        return False

    def _simplify(self) -> tuple[str, ...]:
        if not self._plain and self._is_user:
            self._plain = ("".join(self._text.split()),)
        if not self._plain:
            lines = _unescape(self._text)  # of a result that is no text they are escaped
            self._plain = tuple({simplify(self._text): None, simplify(_LINE_PREFIX.sub("", lines)): None})
        return self._plain


def _list_forms(text: str) -> tuple[str, ...]:
    """A string of a call without what quoting changes, and without the numbers of its lines."""
    return simplify(text), simplify(_LINE_PREFIX.sub("", text))


def simplify(text: str) -> str:
    """The text without what quoting, escaping and layout change."""
    text = _unescape(unescape_entities(text))
    if "./" in text:
        text = _HERE.sub("", text)
    return "".join(text.translate(_QUOTES).split())


def _unescape(text: str) -> str:
    """The text with the characters that its backslashes stand for, however often it was encoded."""
    if "\\" not in text:  # most texts: to look is faster than to replace nothing
        return text
    return _decode_escapes(re.sub(r"\\+", r"\\", text))


def _decode_escapes(text: str) -> str:
    """The text as it was before it was encoded as a string."""
    return _ESCAPE.sub(
        lambda escape: _BLANKS.get(escape[3], escape[3]) if escape[3] else chr(int(escape[1] or escape[2], 16)), text
    )


def _simplify_value(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _simplify_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_simplify_value(item) for item in value]
    return simplify(_LINE_PREFIX.sub("", value)) if isinstance(value, str) else value


def _is_same(one: object, other: object) -> bool:
    """Whether arguments are equal, but for some that only one call has."""
    if not (isinstance(one, dict) and isinstance(other, dict) and one and other):
        return one == other
    fewer, more = sorted((one, other), key=len)
    return all(key in more and more[key] == value for key, value in fewer.items())


def _iter_strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (Mapping, list)):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _iter_strings(item)


def read_calls(text: str, new_parser: Callable[[], Parser]) -> list[tuple[str, object]] | None:
    """The names and arguments of the calls that a text quotes, in any place of it; None if that takes too long."""
    calls: list[tuple[str, object]] = []
    blocks = 0
    for written in _iter_encodings(text):
        plain = _compile_mark().sub(lambda mark: mark["block"] or "\n", _LINE_PREFIX.sub("", written))
        at, unread = 0, _MAX_READINGS * len(plain) + _MAX_PIECE_CHARS
        while at < len(plain):
            block, behind, end = _read_block(plain, at, new_parser())
            calls += [(call.name, _simplify_value(call.arguments)) for call in block]
            at, unread = behind, unread - (end - at)
            blocks += 1
            if unread < 0 or blocks > _MAX_BLOCKS:
                return None
    return calls


def _iter_encodings(text: str) -> Iterator[str]:
    """The text as it is and as it was before it was encoded; and each string in a text that is JSON."""
    for _ in range(_MAX_ENCODINGS):
        yield text
        if text.count('""') >= _MIN_DOUBLED_QUOTES:  # of a table in CSV
            yield text.replace('""', '"')
        decoded = unescape_entities(text)
        if decoded == text:
            decoded = _decode_escapes(text)
        if decoded == text:
            return
        if text.lstrip()[:1] in ("{", "["):
            try:
                value = json.loads(text)
            except (ValueError, RecursionError):
                value = None
            yield from (string for string in _iter_strings(value) if len(string) >= _MIN_ECHO_CHARS)
        text = decoded


def _read_block(text: str, at: int, parser: Parser) -> tuple[list[ToolCall], int, int]:
    """The calls of the first block behind `at`, where the text behind it begins, and how far the text was read.

    Of a block that is malformed only the first character is passed: what it takes for a value may be a call.
    """
    end, calls = at, list[ToolCall]()
    for events, end in _iter_pieces(text, at, parser):
        for event in events:
            if isinstance(event, ParsedCall) and not (calls and event.raw):
                calls.append(event.call)
            elif calls:
                return calls, at, end
            elif isinstance(event, Malformed):
                return calls, at + 1, end
            at += len(event.text if isinstance(event, (TextDelta, ReasoningDelta)) else getattr(event, "raw", ""))
        if calls:
            return calls, at, end
    return calls, len(text), end


def _iter_pieces(text: str, at: int, parser: Parser) -> Iterator[tuple[list[ParserEvent], int]]:
    """The events of the text from `at` on, by pieces that grow, and how far it was read."""
    size = _MIN_PIECE_CHARS
    while at < len(text):
        yield parser.feed(text[at : at + size]), at + size
        at, size = at + size, min(2 * size, _MAX_PIECE_CHARS)
    yield parser.close(), at + size


@functools.cache
def _compile_mark() -> re.Pattern[str]:
    """Finds the marks of code and of thoughts, in which a call would be text, and the blocks that are fences."""
    markers = sorted({marker for pair in REASONING for marker in (pair.opener, pair.closer)}, key=len, reverse=True)
    thoughts = "|".join(re.escape(marker[1:]) for marker in markers)
    fences = "|".join({re.escape(row.opener) for row in FORMATS if row.opener.startswith("`")})
    return re.compile(rf"(?P<block>(?:{fences})\b.*?```)|`+|</?(?:code|pre)>|[<\[](?i:{thoughts})", re.DOTALL)
