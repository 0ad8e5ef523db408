"""A call in the text, in JSON: its arguments leave while the model writes them. Pure.

What leaves is the beginning of what encode_arguments makes of the whole call. It ends before the first value that the
whole call may hold in another form: one whose parameter has other than a scalar type. Nothing leaves before
a string shows that the call is no echo and no pattern to fill in: it has MIN_PROOF_CHARS characters that stand in no
result of a tool. A shorter call leaves whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from ...parsing import GivenText
from ...types.messages import JSON, ToolCall
from .json_prefix import complete_json

MIN_PROOF_CHARS = 50  # more than a placeholder has
_UNSURE_CHARS = 8  # at the end of a string that goes on: they may be the half of an entity or an escape
_MAX_HEAD_CHARS = 400
_MAX_KEY_CHARS = 4096
_HEAD = re.compile(
    r'\s*\[?\s*\{\s*"(?:name|function|tool|tool_name)"\s*:\s*"([^"\\]*)"\s*,'
    r'\s*"(?:args|arguments|parameters)"\s*:\s*(?=\{)'
)
_KEY = re.compile(r'\s*"((?:[^"\\\x00-\x1f]|\\.)*)"\s*:\s*(?=\S)')
_STRING_PART = re.compile(r'(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HALF_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_SCALAR = re.compile(r"(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false)(?=\s*[,}])")
_ESCAPE_CHARS = 6  # of \u0000
_MAX_SCALAR_CHARS = 40


def encode_arguments(arguments: Mapping[str, JSON]) -> str:
    return json.dumps(arguments, ensure_ascii=False)


class TextCall:
    """`types`: of the parameters that have a scalar type; `given`: what the call may be an echo of.

    `has_head`: the text begins with an object that names the tool; otherwise it is the arguments.
    """

    def __init__(
        self, id: str, name: str, types: Mapping[str, type], given: Sequence[GivenText], *, has_head: bool
    ) -> None:
        self.id = id
        self.name = name
        self.index = -1  # among the calls of the answer, once a part was sent
        self.sent = ""  # of its arguments
        self._types = types
        self._given = given
        self._rest = ""  # of the text, not read yet
        self._made = ""  # of the arguments, not sent yet
        self._key = ""
        self._keys: set[str] = set()
        self._value = ""  # of the string that is being read, while there is no proof
        self._proof_chars = MIN_PROOF_CHARS  # that the string must have for the next look
        self._is_proven = False
        self._read: Callable[[], bool] | None = self._read_head if has_head else self._read_brace

    def feed(self, text: str) -> str:
        """Take in a piece of the block; returns the arguments that may be sent now."""
        self._rest += text
        while self._read is not None and self._read():
            pass
        return self._send() if self._is_proven else ""

    def finish(self, call: ToolCall) -> str | None:
        """The rest of the arguments of the whole call; None if it does not begin as what was sent."""
        if call.name != self.name:
            return None
        return complete_json(self.sent, call.arguments) if self.sent else encode_arguments(call.arguments)

    def _send(self) -> str:
        made, self._made = self._made, ""
        self.sent += made
        return made

    def _stop(self) -> bool:
        """What follows waits for the whole call."""
        self._read = None
        return False

    def _go_on(self, at: int, read: Callable[[], bool]) -> bool:
        self._rest, self._read = self._rest[at:], read
        return True

    def _read_head(self) -> bool:
        head = _HEAD.match(self._rest)
        if head is None:
            return len(self._rest) > _MAX_HEAD_CHARS and self._stop()
        return self._go_on(head.end(), self._read_brace) if head[1] == self.name else self._stop()

    def _read_brace(self) -> bool:
        rest = self._rest.lstrip()
        if not rest:
            return False
        self._made, self._rest = "{", rest
        return self._go_on(1, self._read_key) if rest[0] == "{" else self._stop()

    def _read_key(self) -> bool:
        key = _KEY.match(self._rest)
        if key is None:
            return len(self._rest) > _MAX_KEY_CHARS and self._stop()
        self._key, end = _decode(key[1]), key.end()
        kind, is_string = self._types.get(self._key), self._rest[end] == '"'
        if kind is None or self._key in self._keys or is_string != (kind is str):
            return self._stop()
        self._keys.add(self._key)
        if not is_string:
            return self._go_on(end, self._read_scalar)
        self._made += f'{self._make_key()}"'
        self._value, self._proof_chars = "", MIN_PROOF_CHARS
        return self._go_on(end + 1, self._read_string)

    def _make_key(self) -> str:
        return f"{', ' if len(self._keys) > 1 else ''}{json.dumps(self._key, ensure_ascii=False)}: "

    def _read_scalar(self) -> bool:
        scalar = _SCALAR.match(self._rest)
        if scalar is None:
            return len(self._rest) > _MAX_SCALAR_CHARS and self._stop()
        value = json.loads(scalar[1])
        if type(value) is not self._types[self._key]:
            return self._stop()
        self._made += self._make_key() + json.dumps(value)
        return self._go_on(scalar.end(), self._read_comma)

    def _read_comma(self) -> bool:
        rest = self._rest.lstrip()
        if not rest:
            return False
        return self._go_on(self._rest.index(",") + 1, self._read_key) if rest[0] == "," else self._stop()

    def _read_string(self) -> bool:
        rest = self._rest
        part = _STRING_PART.match(rest)
        end = part.end() if part else 0
        is_closed = rest[end : end + 1] == '"'
        if not is_closed:
            if end < len(rest) and (rest[end] != "\\" or len(rest) - end >= _ESCAPE_CHARS):
                return self._stop()  # no JSON
            if half := _HALF_PAIR.search(rest, max(0, end - _ESCAPE_CHARS), end):
                end = half.start()
        text = _decode(rest[:end])
        if _SURROGATE.search(text):
            return self._stop()
        self._made += json.dumps(text, ensure_ascii=False)[1:-1] + ('"' if is_closed else "")
        self._look_for_proof(text, is_closed)
        return self._go_on(end + is_closed, self._read_comma if is_closed else self._read_string) and is_closed

    def _look_for_proof(self, text: str, is_closed: bool) -> None:
        """A call is no echo if one of its values stands in no given text."""
        if self._is_proven:
            return
        self._value += text
        size = len(self._value)
        if size < (MIN_PROOF_CHARS if is_closed else self._proof_chars):
            return
        value = self._value if is_closed else self._value[:-_UNSURE_CHARS]
        self._is_proven = not any(given.may_hold(value) for given in self._given)
        self._proof_chars = 2 * size


def _decode(string: str) -> str:
    decoded: str = json.loads(f'"{string}"')
    return decoded
