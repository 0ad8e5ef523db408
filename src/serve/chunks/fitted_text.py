"""The arguments of a native call as a stream brings them, with values fitted to the tool's schema. Pure, linear.

Whether a value may have to be fitted shows at its first character. Such a value is held to its end, with what stands
behind it in its piece; all else is as it came. A text that is no JSON is followed no further.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

from ...parsing.arguments.native import NativeFitter, Schema

# The kind of a value by its first character; any other character begins a number.
_KINDS = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}
_TOKEN = re.compile(r'[ \t\r\n]+|[{}\[\],:"]|[^ \t\r\n{}\[\],:"]+')
_STRING_PART = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)


class _Container(NamedTuple):
    """An object or a list that is open. `inner`: the schema of an object, or that of the items of a list."""

    kind: str
    inner: Schema


class FittedText:
    """`pieces`: for each piece that came, what the client gets in its place.

    While a value is held (`is_holding`), the piece in which it began and those behind it may still change.
    """

    def __init__(self, fitter: NativeFitter) -> None:
        self.pieces: list[str] = []
        self.count = 0  # of the values that were fitted
        self._fitter = fitter
        self._open: list[_Container] = []
        self._key: list[str] | None = None  # that is being written, with its quotes
        self._name = ""  # the last key
        self._expects_key = False
        self._is_in_string = False
        self._has_escape = False  # at the end of the last piece
        self._in_literal = False
        self._held: list[tuple[int, str]] | None = None  # parts of the value that is held, and whose piece they are
        self._held_schema: Schema = {}
        self._held_depth = 0
        self._is_followed = True  # the text is read further; else each piece is as it came

    @property
    def is_holding(self) -> bool:
        return self._held is not None

    def feed(self, piece: str) -> None:
        if self._is_plain(piece):
            self.pieces.append(piece)
            return
        self.pieces.append("")
        position = 0
        while position < len(piece) and self._is_followed:
            if self._is_in_string:
                position = self._pass_string(piece, position)
                continue
            token = _TOKEN.match(piece, position)
            if token is None:  # no character is left out of the pattern
                break
            self._pass_token(token[0])
            position = token.end()
        if position < len(piece):
            self._emit(piece[position:])

    def _is_plain(self, piece: str) -> bool:
        """Whether the piece goes on with a string that is not held, and does not end it."""
        is_free = self._is_in_string and self._held is None and self._key is None and not self._has_escape
        return is_free and '"' not in piece and "\\" not in piece

    def release(self) -> None:
        """No more text comes: what is held is as it came."""
        held, self._held = self._held or (), None
        self._is_followed = False
        for place, part in held:
            self.pieces[place] += part

    def _emit(self, part: str) -> None:
        if self._key is not None:
            self._key.append(part)
        if self._held is None:
            self.pieces[-1] += part
        else:
            self._held.append((len(self.pieces) - 1, part))

    def _pass_string(self, piece: str, position: int) -> int:
        start = position
        if self._has_escape:
            self._has_escape, position = False, position + 1
        part = _STRING_PART.match(piece, position)
        end = part.end() if part else position
        if end == len(piece):
            self._emit(piece[start:])
            return end
        if piece[end] == "\\":  # the last character
            self._has_escape = True
            self._emit(piece[start:])
            return len(piece)
        self._emit(piece[start : end + 1])
        self._is_in_string = False
        if self._key is None:
            self._end_value()
            return end + 1
        raw, self._key = "".join(self._key), None
        try:
            self._name = json.loads(raw)
        except ValueError:
            self.release()
        return end + 1

    def _pass_token(self, token: str) -> None:
        first = token[0]
        if self._in_literal and first in ' \t\r\n{}[],:"':
            self._in_literal = False
            self._end_value()
        if first == '"':
            self._open_string(token)
        elif first in "{[":
            self._open_container(_KINDS[first], token)
        elif first in "}]":
            self._close_container(token)
        elif first == ",":
            self._expects_key = bool(self._open) and self._open[-1].kind == "object"
            self._emit(token)
        else:
            if first not in " \t\r\n:" and not self._in_literal:
                self._in_literal = True
                self._begin_value(_KINDS.get(first, "number"))
            self._emit(token)

    def _open_string(self, token: str) -> None:
        self._is_in_string = True
        if self._expects_key:
            self._expects_key, self._key = False, []
        else:
            self._begin_value("string")
        self._emit(token)

    def _find_schema(self) -> Schema:
        """Of the value that begins."""
        if not self._open:
            return self._fitter.root
        kind, inner = self._open[-1]
        if kind == "object":
            return self._fitter.find_inner(inner, "object", self._name)
        return inner

    def _begin_value(self, kind: str) -> Schema:
        if not self._open and kind != "object":
            self.release()
        if self._held is not None:
            return {}
        schema = self._find_schema()
        if self._open and self._fitter.may_refuse(schema, kind):
            self._held, self._held_schema, self._held_depth = [], schema, len(self._open)
        return schema

    def _open_container(self, kind: str, token: str) -> None:
        inner = self._begin_value(kind)
        if kind != "object" and self._held is None:
            inner = self._fitter.find_inner(inner, kind)
        self._open.append(_Container(kind, inner))
        self._expects_key = kind == "object"
        self._emit(token)

    def _close_container(self, token: str) -> None:
        self._expects_key = False
        self._emit(token)
        if self._open:
            self._open.pop()
            self._end_value()
        else:
            self.release()

    def _end_value(self) -> None:
        if self._held is None or len(self._open) != self._held_depth:
            return
        held, self._held = self._held, None
        raw = "".join([part for _, part in held])
        try:
            value, changes = self._fitter.fit(json.loads(raw), self._held_schema)
        except (ValueError, RecursionError):
            changes = ()
        if not changes:
            for place, part in held:
                self.pieces[place] += part
            return
        self.count += len(changes)
        self.pieces[held[0][0]] += json.dumps(value, ensure_ascii=False)
