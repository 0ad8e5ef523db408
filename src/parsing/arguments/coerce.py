"""Converts a value to the type that a schema requires, if the value can be read as that type."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...types.lazy_pattern import LazyPattern
from ..decode import nodes
from ..decode.json_repair import read_whole
from ..decode.nodes import DeclaredText, Node, Source, UnreadableValue
from ..decode.scalars import eval_constant
from ..decode.xml import Markup

_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_NULLS = {"null": None, "none": None}
_NUMBER = LazyPattern(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DESCRIPTION_KEYS = frozenset(("value", "type", "description", "title"))
MAX_SAFE_INTEGER = 2**53
MISSING = object()


def unwrap(value: Node, types: tuple[str, ...]) -> Any:
    """The value inside a list of one or an object that describes it; MISSING if there is none."""
    if isinstance(value, list) and len(value) == 1 and (isinstance(value[0], str) or get_kind(value[0]) in types):
        return value[0]
    if isinstance(value, dict) and "value" in value and value.keys() <= _DESCRIPTION_KEYS:
        return value["value"]
    return MISSING


def coerce(value: Any, kind: str, target: str) -> Any:
    """The value, whose type is `kind`, as a `target`; MISSING if it cannot be read as one."""
    try:
        return _CONVERTERS[kind, target](value)
    except (LookupError, ValueError, TypeError, RecursionError):
        return MISSING


def parse_literal(text: str) -> Node:
    """The value that a text is; the text itself where it is none, or words."""
    try:
        value = read_whole(text)
    except UnreadableValue:
        return text
    is_words = isinstance(value, Source) and eval_constant(value) is None
    return text if is_words else value


# A converter raises where the value cannot be read as the type.


def _parse_number(text: str, kind: type = float) -> float:
    text = text.strip().replace("_", "")
    if not _NUMBER.fullmatch(text) or len(text) > 400:
        raise ValueError(text)
    number = float(text)
    if abs(number) < 1e300 and text.lstrip("+-").isdigit():
        return int(text)
    if kind is int:
        return _to_integer(number, 1e300)
    if abs(number) == float("inf"):
        raise ValueError(text)
    return number


def _parse(text: str, kind: type, starts: tuple[str, ...] = ("",)) -> Node:
    value = read_whole(text)
    if not isinstance(value, kind) or not text.lstrip().startswith(starts):
        raise UnreadableValue(text)
    return value


def _calculate(source: object, kind: type = float) -> float:
    """The number that source text stands for: arithmetic on constants."""
    number = eval_constant(str(source))
    if number is None:
        return _parse_number(str(source), kind)
    return _to_integer(number) if kind is int else number


def _to_integer(number: float, limit: float = float("inf")) -> int:
    if number != number // 1 or abs(number) >= limit:
        raise ValueError(number)
    return int(number)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_CONVERTERS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("string", "integer"): lambda text: _parse_number(text, int),
    ("string", "number"): _parse_number,
    ("string", "boolean"): lambda text: _BOOLEANS[text.strip().lower()],
    ("string", "null"): lambda text: _NULLS[text.strip().lower()],
    ("string", "array"): lambda text: _parse(text, list, ("[", "(")),
    ("string", "object"): lambda text: _parse(text, dict),
    ("source", "boolean"): lambda source: _BOOLEANS[str(source).lower()],
    ("source", "integer"): lambda source: _calculate(source, int),
    ("source", "number"): _calculate,
    ("number", "integer"): lambda number: _to_integer(number, MAX_SAFE_INTEGER),
    ("integer", "boolean"): lambda number: _BOOLEANS[str(number)],
    ("integer", "string"): str,
    ("number", "string"): repr,
    ("boolean", "string"): _dump,
    ("object", "string"): _dump,
    ("array", "string"): _dump,
}


def get_kind(value: object) -> str:
    return KINDS.get(type(value), "source")


KINDS: dict[type, str] = {**nodes.KINDS, Markup: "string", DeclaredText: "string"}
