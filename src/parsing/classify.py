"""Raw calls into verdicts: a call that may run, a malformed one that is answered, or mere text.

What asks for a call by name is a call or malformed. What merely looks like one counts only where the tool is on
offer and the arguments fit. Placeholders are an explanation, not a call.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterable
from typing import Union

from ..types.messages import MalformedCall, ToolCall
from .arguments.fit import Fitter, Misfit
from .arguments.tool_index import Toolbox
from .decode.call_shapes import Decoded, RawCall
from .decode.nodes import Node

_PLACEHOLDER_NAMES = frozenset(
    ("tool_name", "function_name", "name", "tool", "function", "toolname", "functionname", "func", "func_name",
     "func_name1", "func_name2", "your_tool", "some_tool", "example", "example_function", "example_tool",
     "tool_name_here", "none")
)  # fmt: skip
_PLACEHOLDERS = frozenset(("...", "…", "{...}", "[...]", "<...>"))
_TO_FILL_IN = re.compile(r"YOUR_[A-Z_]{2,40}|(?i:[<\[](?:your|insert)[ _-][\w -]{2,40}[>\]])")
_TYPES = "string|str|integer|int|number|float|boolean|bool|array|object|list|dict|any"
_SIGNATURE = re.compile(  # `read(path: string, lines?: integer)`, as tools are told of
    rf"[\w.-]+\(\s*(?:\w+\??\s*:\s*(?:{_TYPES})\b(?: of \w+|\[\w*\])?\s*(?:,\s*)?)+\)[\s,;]*(?:`{{3}})?\s*"
)
_NO_FENCE = re.compile(r"\s*(?:`{3}\w*\s)?\s*")
_SCHEMA = frozenset(("type", "description", "title", "enum", "default", "items", "format", "minimum", "maximum"))
_MIN_ECHO = 12  # characters; shorter text is found anywhere

Verdict = Union[ToolCall, MalformedCall]


class Judge:
    """Decides on the calls of one answer. `given` are texts the model was given: what it repeats is an echo."""

    def __init__(self, box: Toolbox, new_id: Callable[[], str], given: Iterable[str], max_calls: int) -> None:
        self._box = box
        self._new_id = new_id
        self._given = tuple(text for text in given if len(text) >= _MIN_ECHO)
        self._bare: tuple[str, ...] | None = None  # the same without blanks and line ends, once it is asked for
        self._max_calls = max_calls
        self._count = 0
        self._made: list[ToolCall] = []
        self._ids: list[str] = []  # made and not used yet

    def knows(self, name: str) -> bool:
        return self._box.find(name) is not None

    def offered(self, name: str) -> str:
        """The offered tool's own name, or nothing."""
        tool = self._box.find(name) if name else None
        return tool.name if tool else ""

    def promised_id(self) -> str:
        """The id that the next call will have."""
        if not self._ids:
            self._ids.append(self._new_id())
        return self._ids[0]

    def _next_id(self) -> str:
        return self._ids.pop(0) if self._ids else self._new_id()

    def verdicts(self, decoded: Decoded, raw: str, origin: str, *, asks: bool, repeated: bool) -> list[Verdict]:
        """What the block is; nothing where it is text: what merely looks like a call made before, after text, too."""
        if decoded.problem:
            name = decoded.calls[0].name if decoded.calls else ""
            return (
                [self._malformed(name, raw, decoded.problem, origin)]
                if asks and not self._explains(decoded.calls, raw)
                else []
            )
        if self._explains(decoded.calls, raw):
            return []
        judged = [self._judged(call, raw, origin, decoded.repairs, asks) for call in decoded.calls]
        calls = [call for call in judged if isinstance(call, ToolCall)]
        if not asks and (not calls or (repeated and self._were_made(calls))):
            self._ids = [each.id for each in judged] + self._ids
            return []
        self._made += calls
        return [self._counted(call, raw) for call in judged]

    def forget(self) -> None:
        """The calls so far are void."""
        self._count = 0
        self._made.clear()

    def too_long(self, name: str, raw: str, origin: str, limit: int) -> MalformedCall:
        return self._malformed(name, raw, f"The block is longer than {limit} characters.", origin)

    def _were_made(self, calls: list[ToolCall]) -> bool:
        made = {_key(call) for call in self._made}
        return all(_key(call) in made for call in calls)

    def _judged(self, call: RawCall, raw: str, origin: str, repairs: tuple[str, ...], asks: bool) -> Verdict:
        tool = self._box.find(call.name)
        if tool is None:
            return self._malformed(call.name, raw, self._unknown(call.name), origin)
        if call.arguments is None:
            return self._malformed(tool.name, raw, f"{tool.name}: {call.problem}", origin)
        fitter = Fitter(tool, trusting=asks)
        try:
            arguments = fitter.fit(call.arguments, list(call.positional))
        except (Misfit, RecursionError) as error:
            reason = str(error) if isinstance(error, Misfit) else "The arguments are nested too deep."
            return self._malformed(tool.name, raw, reason, origin)
        renamed = () if call.name == tool.name else ("name",)
        repaired = (*repairs, *renamed, *fitter.changes)
        return ToolCall(self._next_id(), tool.name, arguments, origin, repaired, self._is_echo(raw))

    def _counted(self, verdict: Verdict, raw: str) -> Verdict:
        self._count += 1
        if self._count <= self._max_calls:
            return verdict
        reason = f"More than {self._max_calls} calls in one answer: nothing from here on was read."
        return MalformedCall(verdict.id, verdict.name, raw, reason, verdict.origin)

    @property
    def is_full(self) -> bool:
        """Whether there were more calls, or attempts at one, than one answer may hold."""
        return self._count > self._max_calls

    def _malformed(self, name: str, raw: str, reason: str, origin: str) -> MalformedCall:
        return MalformedCall(self._next_id(), name, raw, reason, origin)

    def _unknown(self, name: str) -> str:
        near = self._box.nearest(name) or list(self._box.tools)[:8]
        offered = ", ".join(near) or "none"
        return f"There is no tool named '{name[:80]}'; on offer: {offered}."

    def _explains(self, calls: list[RawCall], raw: str) -> bool:
        """Whether a call is a pattern to be filled in, with placeholders for its name or its arguments, or types."""
        return _is_signature(raw) or any(
            (_is_placeholder_name(call.name) and not self.knows(call.name))
            or _has_placeholder(call)
            or self._defines(call)
            for call in calls
        )

    def _defines(self, call: RawCall) -> bool:
        """Whether it says what the tool's arguments are, and no values."""
        tool = self._box.find(call.name)
        arguments = call.arguments or {}
        return bool(
            tool
            and arguments.keys() & tool.plain.keys()
            and not call.positional
            and all(map(_is_schema, arguments.values()))
        )

    def _is_echo(self, raw: str) -> bool:
        """Whether it stands in what was given, blanks and line ends aside, which change on the way."""
        block = "".join(raw.split())
        if len(block) < _MIN_ECHO:
            return False
        if self._bare is None:
            self._bare = tuple("".join(text.split()) for text in self._given)
        return any(block in text for text in self._bare)


def counted_ids() -> Callable[[], str]:
    """A source of ids that counts up; two sources give the same ones."""
    counter = itertools.count(1)
    return lambda: f"{next(counter):09d}"


def _is_placeholder_name(name: str) -> bool:
    bare = name.strip("<>[]{}$ ").casefold().replace("-", "_").replace(" ", "_")
    return name in _PLACEHOLDERS or (bare in _PLACEHOLDER_NAMES and name != bare) or bare in _PLACEHOLDER_NAMES


def _has_placeholder(call: RawCall) -> bool:
    for name, value in (call.arguments or {}).items():
        if _is_placeholder(value, name):
            return True
    return any(_is_placeholder(value, "") for value in call.positional)


def _is_placeholder(value: Node, name: str) -> bool:
    if not isinstance(value, str):
        return False
    return value.strip() in _PLACEHOLDERS or value == f"<{name}>" or _TO_FILL_IN.fullmatch(value) is not None


def _is_signature(raw: str) -> bool:
    start = _NO_FENCE.match(raw)
    return _SIGNATURE.fullmatch(raw, start.end() if start else 0) is not None


def _is_schema(value: Node) -> bool:
    return isinstance(value, dict) and value.get("type") in _TYPES.split("|") and value.keys() <= _SCHEMA


def _key(call: ToolCall) -> str:
    return json.dumps([call.name, call.arguments], sort_keys=True, default=str)
