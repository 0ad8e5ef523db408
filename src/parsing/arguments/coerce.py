"""Converts a value to the type that a schema requires, if the value can be read as that type."""

from __future__ import annotations

import json
import re
from typing import Any

from ...types.lazy_pattern import LazyPattern
from ..decode.json_repair import read_whole
from ..decode.nodes import Node, Source, UnreadableValue
from ..decode.scalars import eval_constant
from ..decode.xml import Markup

_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_NUMBER = LazyPattern(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DESCRIPTION_KEYS = frozenset(("value", "type", "description", "title"))
MAX_SAFE_INTEGER = 2**53
MISSING = object()


def unwrap(value: Node, types: tuple[str, ...]) -> Any:
    """The value inside a list of one or an object that describes it; MISSING if there is none."""
    if isinstance(value, list) and len(value) == 1:
        return value[0] if isinstance(value[0], str) or get_kind(value[0]) in types else MISSING
    if isinstance(value, dict) and "value" in value and value.keys() <= _DESCRIPTION_KEYS:
        return value["value"]
    return MISSING


def _parse_number(text: Any, kind: type = float) -> Any:
    text = text.strip().replace("_", "")
    if not _NUMBER.fullmatch(text) or len(text) > 400:
        return MISSING
    number = float(text)
    if number == number // 1 and (kind is int or not re.search(r"[.eE]", text)) and abs(number) < 1e300:
        return int(text) if text.lstrip("+-").isdigit() else int(number)
    return number if kind is float and abs(number) != float("inf") else MISSING


def _parse(text: Any, kind: type) -> Any:
    try:
        value = read_whole(text)
    except UnreadableValue:
        return MISSING
    return value if isinstance(value, kind) else MISSING


def _calculate(source: Any, kind: type = float) -> Any:
    """The number that source text stands for: arithmetic on constants."""
    number = eval_constant(source) if isinstance(source, str) else None
    if number is None:
        return _parse_number(source, kind) if isinstance(source, str) else MISSING
    if kind is int and number != number // 1:
        return MISSING
    return int(number) if kind is int else number


def parse_literal(text: str) -> Node:
    value: Node = _parse(text, object)
    is_words = isinstance(value, Source) and eval_constant(value) is None
    return text if value is MISSING or is_words else value


def _dump(value: Any) -> Any:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return MISSING


COERCIONS: dict[tuple[str, str], Any] = {
    ("string", "integer"): lambda text: _parse_number(text, int),
    ("string", "number"): _parse_number,
    ("string", "boolean"): lambda text: _BOOLEANS.get(text.strip().lower(), MISSING),
    ("string", "null"): lambda text: None if text.strip().lower() in ("null", "none") else MISSING,
    ("string", "array"): lambda text: _parse(text, list) if text.lstrip()[:1] in ("[", "(") else MISSING,
    ("string", "object"): lambda text: _parse(text, dict),
    ("source", "boolean"): lambda text: _BOOLEANS.get(str(text).lower(), MISSING) if isinstance(text, str) else MISSING,
    ("source", "integer"): lambda text: _calculate(text, int),
    ("source", "number"): lambda text: _calculate(text),
    ("number", "integer"): lambda each: int(each) if each == each // 1 and abs(each) < MAX_SAFE_INTEGER else MISSING,
    ("integer", "boolean"): lambda number: bool(number) if number in (0, 1) else MISSING,
    ("integer", "string"): str,
    ("number", "string"): repr,
    ("boolean", "string"): lambda value: "true" if value else "false",
    ("object", "string"): _dump,
    ("array", "string"): _dump,
}


def get_kind(value: object) -> str:
    return KINDS.get(type(value), "source")


KINDS: dict[type, str] = {
    str: "string", Markup: "string", int: "integer", float: "number", bool: "boolean", list: "array", dict: "object",
    type(None): "null",
}  # fmt: skip
