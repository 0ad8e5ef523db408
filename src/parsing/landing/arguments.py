"""The arguments of a call while the model still writes them: as much of their JSON text as can no longer change. Pure.

Only long strings are worth it, so in JSON only members with one scalar type in the tool's schema are followed; at
anything else the reader stops, and the rest comes with the whole call. A string's closing quote is held back until the
next member begins, since an unescaped quote may be part of the string. The work is linear in the text.
tag_arguments.py reads arguments in tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from ...types.messages import JSON
from ..decode.call_shapes import ARGUMENT_KEYS, NAME_KEYS
from ..stream.brackets import TOKEN_QUOTES

MAX_PENDING_CHARS = 400  # of what is not decided
# An id of the call may come first, as Command R writes it.
_ID = r'(?:"(?:id|tool_call_id)"\s*:\s*(?:"[^"\\]{0,200}"|\d{1,9})\s*,\s*)?'
HEAD = re.compile(
    rf'\s*(?:\[\s*)?\{{\s*{_ID}"(?:{"|".join(NAME_KEYS)})"\s*:\s*"(?P<name>[^"\\]{{1,200}})"\s*,'
    rf'\s*"(?:{"|".join(ARGUMENT_KEYS)})"\s*:\s*(?=\{{)'
)
# The first key is the name, which only a tool's may be: an object follows it.
KEY_HEAD = re.compile(r'\s*(?:\[\s*)?\{\s*"(?P<name>[\w.:-]{1,80})"\s*:\s*(?=\{)')
_KEY = r'\s*"(?P<key>[^"\\]{1,200})"\s*:\s*(?=\S)'
_FIRST = re.compile(r"\s*\{" + _KEY)
_AFTER_STRING = re.compile(r'"\s*,' + _KEY)
_AFTER_SCALAR = re.compile(r"(?P<value>[-+.\w]{1,40})\s*," + _KEY)
_KEYWORD = r"\s*(?P<key>[^\W\d]\w{0,199})\s*=(?!=)\s*(?=\S)"
_KEYWORD_PATTERNS = (
    re.compile(_KEYWORD),
    re.compile(r'"\s*,' + _KEYWORD),
    re.compile(r"(?P<value>[-+.\w]{1,40})\s*," + _KEYWORD),
)
_TOKEN_QUOTE = "|".join(map(re.escape, TOKEN_QUOTES))
_BARE = rf"\s*(?P<key>[^\W\d]\w{{0,63}})\s*:\s*(?={_TOKEN_QUOTE}|[^\s<])"
_BARE_PATTERNS = (
    re.compile(r"\s*\{" + _BARE),
    re.compile(rf"(?:{_TOKEN_QUOTE})\s*,{_BARE}"),
    re.compile(r"(?P<value>[-+.\w]{1,40})\s*," + _BARE),
)
_OBJECT_HEAD = re.compile(r"\s*\{\s*(?P<first>\S)")
CALL_HEAD = re.compile(r"\s*(?:\[\s*)?(?P<name>[\w.:-]{0,80})\(\s*(?=\S)")  # in Python's notation
_LOOK_CHARS = 3  # of a string, which show what it is
_OTHER_STRING = re.compile(r'""|\\|[A-Za-z]:\\')  # in three quotes, or a path of Windows
_SPECIAL = re.compile(r'["\\\x00-\x1f]')
_SPECIAL_BARE = re.compile(r'[<"\\\x00-\x1f]')
_CONTROL = re.compile(r"[\x00-\x1f]")
_STRING_PART = re.compile(  # neither half an escape nor half a surrogate pair ends it
    r'(?:[^"\\]|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}))*'
)
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,4}(?:\\(?:u[0-9a-fA-F]{0,4})?)?)?\Z")  # that is not complete


def find_arguments(text: str, head: re.Pattern[str]) -> tuple[str, str]:
    """The name in the head of a call, and what is written of its arguments; empty where the head has not ended."""
    match = head.match(text)
    return (match["name"], text[match.end() :]) if match else ("", "")


def encode_arguments(arguments: Mapping[str, JSON]) -> str:
    """The JSON text of arguments."""
    return _dump(arguments)


def has_bare_keys(text: str) -> bool | None:
    """Whether the keys of an object stand without quotes; None where that is not known yet."""
    head = _OBJECT_HEAD.match(text)
    return head["first"] != '"' if head else None


class ArgumentReader:
    """What has been given of the arguments of a call, and what reads more of them.

    `types`: the tool's parameters of one scalar type. `sent` tells whether anything was given by `feed`.
    """

    def __init__(self, types: Mapping[str, type]) -> None:
        self.sent = False
        self._types = types
        self._done: dict[str, JSON] = {}  # the members that were given
        self._key = ""  # of the member that is being written
        self._value: list[str] | None = None  # of the string that is open, as JSON text
        self._lead = "{"  # before the next member
        self.open_chars = 0  # so far, as they are written, of the string that is open
        self._ended: list[str] = []
        self._step: Callable[[], str | None] | None = None  # None: no more text is followed

    def feed(self, text: str) -> str:
        """The JSON text that follows what was given before."""
        raise NotImplementedError

    def stop(self) -> None:
        """No more text is followed."""
        self._step = None

    def take_strings(self) -> list[str]:
        """The strings that have ended since the last time."""
        ended, self._ended = self._ended, []
        return ended

    def read_open_string(self) -> str:
        """The string that is open, so far."""
        return str(json.loads(f'"{"".join(self._value or ())}"'))

    def finish(self, arguments: Mapping[str, JSON]) -> str | None:
        """The rest of the JSON text of `arguments`; None if what was given is no beginning of it."""
        if not self.sent:
            return encode_arguments(arguments)
        if any(name not in arguments or arguments[name] != value for name, value in self._done.items()):
            return None
        rest, sent_names = "", set(self._done)
        if self._value is not None:
            sent_names.add(self._key)
            written, value = self.read_open_string(), arguments.get(self._key)
            if not isinstance(value, str) or not value.startswith(written):
                return None
            rest = _dump(value[len(written) :])[1:]
        unsent_names = [name for name in arguments if name not in sent_names]
        return rest + "".join(f", {_dump(name)}: {_dump(arguments[name])}" for name in unsent_names) + "}"

    def _take_steps(self) -> str:
        """What the steps give until one needs more text, or stops."""
        pieces: list[str] = []
        while self._step is not None and (piece := self._step()) is not None:
            pieces.append(piece)
        self.sent = self.sent or any(pieces)
        return "".join(pieces)

    def _open_string(self, key: str) -> str:
        self._key, self._value = key, []
        return f'{self._take_lead()}{_dump(key)}: "'

    def _take_lead(self) -> str:
        lead, self._lead = self._lead, ", "
        return lead

    def _add(self, text: str) -> str:
        """Takes in JSON text of the string that is open, and gives it; "" if none is open."""
        if self._value is None:
            return ""
        self._value.append(text)
        self.open_chars += len(text)
        return text

    def _end_string(self) -> str:
        string = self.read_open_string()
        self._done[self._key], self._value, self.open_chars = string, None, 0
        self._ended.append(string)
        return '"'


class JSONArgumentReader(ArgumentReader):
    """Of arguments that are written as an object."""

    _first = _FIRST
    _after_string = _AFTER_STRING
    _after_scalar = _AFTER_SCALAR
    _quotes: tuple[str, ...] = ('"',)
    _special = _SPECIAL  # what does not stand in the text of a string as in JSON

    def __init__(self, types: Mapping[str, type]) -> None:
        super().__init__(types)
        self._pending = ""
        self._quote = ""  # of the string that is open
        self._step = self._begin

    def feed(self, text: str) -> str:
        if self._step is None:
            return ""
        if self._step == self._go_on and not self._pending and not self._special.search(text):
            return self._add(text)
        self._pending += text
        piece = self._take_steps()
        if len(self._pending) > MAX_PENDING_CHARS:
            self._step = None
        return piece

    # A step gives the text that is certain; None if it needs more text, or if the stream stops.

    def _begin(self) -> str | None:
        match = self._first.match(self._pending)
        return self._open(match) if match else None

    def _open(self, found: re.Match[str]) -> str | None:
        """A member begins."""
        key, rest = found["key"], self._pending[found.end() :]
        self._quote = next(filter(rest.startswith, self._quotes), "")
        kind = self._types.get(key)
        if kind is None or key in self._done or bool(self._quote) != (kind is str):
            self._step = None
            return None
        self._key, self._pending = key, rest.removeprefix(self._quote)
        if not self._quote:
            self._step = self._pass_scalar
            return ""
        self._step = self._go_on
        return self._open_string(key)

    def _go_on(self) -> str | None:
        """What is certainly inside the string."""
        part = _STRING_PART.match(self._pending)
        if part and part[0]:
            self._pending = self._pending[part.end() :]
            return self._add(_CONTROL.sub(lambda found: encode_text(found[0]), part[0]))
        if self._pending.startswith('"'):
            self._step = self._close_string
            return ""
        if self._pending and not _ESCAPE.match(self._pending):
            self._step = None
        return None

    def _close_string(self) -> str | None:
        match = self._after_string.match(self._pending)
        if match is None or match["key"] not in self._types:
            return None
        return self._end_string() + (self._open(match) or "")

    def _pass_scalar(self) -> str | None:
        match = self._after_scalar.match(self._pending)
        if match is None:
            return None
        try:
            value: JSON = json.loads(match["value"])
        except ValueError:
            value = None
        kind = self._types[self._key]
        if type(value) is not kind and not (kind is float and type(value) is int):
            self._step = None
            return None
        self._done[self._key] = value
        return f"{self._take_lead()}{_dump(self._key)}: {_dump(value)}{self._open(match) or ''}"


class BareArgumentReader(JSONArgumentReader):
    """Of an object with bare keys, as Gemma writes it: nothing is escaped between the quotes, which are tokens."""

    _first, _after_string, _after_scalar = _BARE_PATTERNS
    _quotes = TOKEN_QUOTES
    _special = _SPECIAL_BARE

    def _go_on(self) -> str | None:
        """Up to where the closing quote stands, or may begin."""
        text, quote = self._pending, self._quote
        end = text.find(quote)
        if end >= 0:
            self._step = self._close_string
        else:
            held = next(size for size in reversed(range(len(quote))) if text.endswith(quote[:size]))
            end = len(text) - held
        self._pending = text[end:]
        piece = self._add(encode_text(text[:end]))
        if not piece and self._step == self._go_on:
            return None
        return piece


class CallArgumentReader(JSONArgumentReader):
    """Of a call in Python's notation, behind its bracket: `key="value", ...` or an object.

    Its strings are followed in double quotes only, and where a backslash means the same as in JSON.
    """

    def __init__(self, types: Mapping[str, type], *, has_keywords: bool) -> None:
        super().__init__(types)
        if has_keywords:
            self._first, self._after_string, self._after_scalar = _KEYWORD_PATTERNS

    def _open_string(self, key: str) -> str:
        self._step = self._look
        return super()._open_string(key)

    def _look(self) -> str | None:
        """Whether the string is one that is followed."""
        if len(self._pending) < _LOOK_CHARS:
            return None
        self._step = self._go_on
        if _OTHER_STRING.match(self._pending):
            self.stop()
        return ""


def encode_text(text: str) -> str:
    """Text as it stands between the quotes of a string in JSON."""
    return _dump(text)[1:-1]


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
