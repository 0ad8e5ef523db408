"""Tool calls out of a stream of text: feed it pieces, get events. No I/O.

Three states: prose, where one compiled alternation finds an opener and only what may still become one is
held back; gap, after an opener, until its body begins; body, followed by structure (depth, in a string,
after a backslash) to its end and then parsed once. Text passed is never looked at again.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from ..messages import JSON, MalformedCall, TextDelta, ToolCall, ToolDefinition
from .events import Malformed, ParsedCall, ParserEvent

_OPENER = re.compile(r"(?:```[\w-]*\s*)?TOOL[ _-]?CALL:?\s*(?=\{)", re.IGNORECASE)
_STRUCTURE = re.compile(r'[{}"]')
_STRING_END = re.compile(r'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_FENCE_TO_COME = re.compile(r"\s*`{0,2}\Z")
_CLOSING_FENCE = re.compile(r"\s*```")
_ARGUMENT_KEYS = ("args", "arguments", "parameters", "params", "input")
_ID_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_DIGITS = 9


def _optional_chain(atoms: list[str]) -> str:
    """A pattern for every beginning of the atoms' sequence, down to nothing."""
    chain = ""
    for atom in reversed(atoms):
        chain = f"(?:{atom}{chain})?"
    return chain


_FENCE_START = r"(?:`{1,2}\Z|```[\w-]*\s*)"
_HELD = re.compile(
    rf"(?:{_FENCE_START}{_optional_chain([*'TOOL', '[ _-]?', *'CALL', ':?', chr(92) + 's*'])}"
    rf"|T{_optional_chain([*'OOL', '[ _-]?', *'CALL', ':?', chr(92) + 's*'])})\Z",
    re.IGNORECASE,
)


def counted_ids() -> Callable[[], str]:
    """Ids of nine letters and digits, which every chat template and server accepts, counted up."""
    counter = itertools.count(1)

    def new_id() -> str:
        number, digits = next(counter), []
        for _ in range(_DIGITS):
            number, digit = divmod(number, len(_ID_ALPHABET))
            digits.append(_ID_ALPHABET[digit])
        return "".join(reversed(digits))

    return new_id


class StreamParser:
    """Text in, events out. `close()` ends the text; what is still open then is malformed."""

    def __init__(
        self, tools: Iterable[ToolDefinition | dict[str, Any]], *, new_id: Callable[[], str] | None = None
    ) -> None:
        self._tools = list(tools)
        self._new_id = new_id or counted_ids()
        self._text = ""

    def feed(self, text: str) -> list[ParserEvent]:
        self._text += text
        return self._events(at_end=False)

    def close(self) -> list[ParserEvent]:
        """What is still held: text that became no call, or a block that never ended. The parser is then empty."""
        events = self._events(at_end=True)
        self._text = ""
        return events

    def _events(self, at_end: bool) -> list[ParserEvent]:
        events: list[ParserEvent] = []
        while opener := _OPENER.search(self._text):
            end = _body_end(self._text, opener.end())
            if not at_end and (end < 0 or (opener.group()[0] == "`" and _FENCE_TO_COME.match(self._text, end))):
                self._show(opener.start(), events)
                return events
            self._show(opener.start(), events)
            opener = _OPENER.match(self._text) or opener
            end = _body_end(self._text, opener.end())
            self._block(opener, end, events)
        held = None if at_end else _HELD.search(self._text)
        self._show(held.start() if held else len(self._text), events)
        return events

    def _show(self, end: int, events: list[ParserEvent]) -> None:
        if end:
            events.append(TextDelta(self._text[:end]))
            self._text = self._text[end:]

    def _block(self, opener: re.Match[str], end: int, events: list[ParserEvent]) -> None:
        stop = end if end >= 0 else len(self._text)
        closing = _CLOSING_FENCE.match(self._text, stop) if opener.group().startswith("```") else None
        raw = self._text[: closing.end() if closing else stop]
        body = self._text[opener.end() : stop]
        name, arguments, reason = _parsed(body) if end >= 0 else ("", None, "The block has no end: it was cut off.")
        if arguments is not None:
            events.append(ParsedCall(ToolCall(self._new_id(), name, arguments, "text"), raw))
        else:
            events.append(Malformed(MalformedCall(self._new_id(), name, raw, reason, "text"), raw))
        self._text = self._text[len(raw) :]


def _body_end(text: str, position: int) -> int:
    """Where the object that starts at `position` ends, or -1 where it does not."""
    depth = 0
    while mark := _STRUCTURE.search(text, position):
        position = mark.end()
        if mark.group() == '"':
            string = _STRING_END.match(text, position)
            if not string:
                return -1
            position = string.end()
            continue
        depth += 1 if mark.group() == "{" else -1
        if not depth:
            return position
    return -1


def _parsed(body: str) -> tuple[str, dict[str, JSON] | None, str]:
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError) as error:
        return "", None, f"The block is not valid JSON: {error}."
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str):
        return "", None, 'The object has no "name".'
    arguments: JSON = next((value[key] for key in _ARGUMENT_KEYS if key in value), {})
    if not isinstance(arguments, dict):
        return name, None, 'The value of "args" is not an object.'
    return name, arguments, ""
