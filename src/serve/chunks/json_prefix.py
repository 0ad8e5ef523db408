"""Follows a JSON object that is still arriving, and says as soon as it cannot become one. Pure, linear."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from itertools import product

from ...types.messages import JSON

_STRING_PART = re.compile(r'[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*', re.DOTALL)
_LITERAL_PART = re.compile(r"[-+.0-9a-zA-Z]+")
_LITERAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_BLANKS = re.compile(r"[ \t\r\n]+")
_START, _KEY, _KEY_OR_END, _VALUE, _VALUE_OR_END, _COLON, _COMMA_OR_END, _NOTHING = range(8)
# Which characters may follow: an object at the start, a key or } after {, a value or ] after [, and so on.
_ALLOWED = {
    _START: "{",
    _KEY: '"',
    _KEY_OR_END: '"}',
    _VALUE: '"{[',
    _VALUE_OR_END: '"{[]',
    _COLON: ":",
    _COMMA_OR_END: ",}]",
    _NOTHING: "",
}
_OPENERS = {"{": ("}", _KEY_OR_END), "[": ("]", _VALUE_OR_END)}  # what ends it, and what may follow


class JsonPrefix:
    """`is_valid`: all so far can begin a JSON object. `is_settled`: and it does not end behind a comma or colon.

    So what is settled can be completed to an object with the members that have begun. `is_complete`: it is one.
    """

    def __init__(self) -> None:
        self.is_valid = True
        self._closers: list[str] = []
        self._next = _START
        self._in_string = False
        self._is_escaped = False  # the text ended in a backslash
        self._literal = ""

    @property
    def is_settled(self) -> bool:
        return self.is_valid and (self._in_string or bool(self._literal) or self._next not in (_START, _KEY, _VALUE))

    @property
    def is_inside_value(self) -> bool:
        """Whether it ends in a key or a value that may go on."""
        return self.is_valid and (self._in_string or bool(self._literal))

    @property
    def is_complete(self) -> bool:
        return self.is_valid and self._next == _NOTHING

    def feed(self, text: str) -> None:
        position = 0
        while position < len(text) and self.is_valid:
            if self._in_string:
                position = self._pass_string(text, position)
            elif literal := _LITERAL_PART.match(text, position):
                self._literal += literal[0]
                self.is_valid = self._next in (_VALUE, _VALUE_OR_END)
                position = literal.end()
            else:
                if self._literal:
                    self.is_valid = _LITERAL.fullmatch(self._literal) is not None
                    self._literal, self._next = "", _COMMA_OR_END
                position = self._pass_token(text, position)

    def _pass_string(self, text: str, position: int) -> int:
        if self._is_escaped:
            self._is_escaped = False
            return position + 1
        part = _STRING_PART.match(text, position)
        end = part.end() if part else position
        if end == len(text):
            return end
        if text[end] == '"':
            self._in_string = False
            self._next = _COLON if self._next in (_KEY, _KEY_OR_END) else _COMMA_OR_END
        elif text[end] == "\\":  # the last character
            self._is_escaped = True
        else:
            self.is_valid = False
        return end + 1

    def _pass_token(self, text: str, position: int) -> int:
        """Pass blanks, or one character."""
        blanks = _BLANKS.match(text, position)
        if blanks:
            return blanks.end()
        if self.is_valid:
            self._take(text[position])
        return position + 1

    def _take(self, char: str) -> None:
        self.is_valid = char in _ALLOWED[self._next]
        if not self.is_valid:
            return
        if char == '"':
            self._in_string = True
        elif char in _OPENERS:
            closer, self._next = _OPENERS[char]
            self._closers.append(closer)
        elif char == ",":
            self._next = _KEY if self._closers[-1] == "}" else _VALUE
        elif char == ":":
            self._next = _VALUE
        else:
            self.is_valid = self._closers.pop() == char
            self._next = _COMMA_OR_END if self._closers else _NOTHING


def complete_json(prefix: str, value: Mapping[str, JSON]) -> str | None:
    """The rest of the JSON text of `value` that begins with `prefix`; None if no usual way to write it does."""
    for separators, is_ascii in product(((", ", ": "), (",", ":")), (False, True)):
        text = json.dumps(value, separators=separators, ensure_ascii=is_ascii)
        if text.startswith(prefix):
            return text[len(prefix) :]
    return None
