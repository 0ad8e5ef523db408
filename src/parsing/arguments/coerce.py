"""A value as another type: what a string, a number or an object can be taken for, and what it cannot. Pure."""

from __future__ import annotations

import json
import re
from typing import Any

from ..decode.json_repair import Reader
from ..decode.nodes import CallNode, Node, Source, Unreadable
from ..decode.xml import Markup

_BOOLEANS = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_CONVERSIONS = frozenset(("int", "float", "str", "bool", "list", "tuple", "set"))  # around a value they add nothing
_ABOUT_VALUE = frozenset(("value", "type", "description", "title"))
_UNSAFE = 2**53
NOTHING = object()


def held(value: Node, types: tuple[str, ...]) -> Any:
    """The value in a list of one, in an object that describes it, or in a conversion, where none of them is asked."""
    if isinstance(value, list) and len(value) == 1:
        return value[0] if isinstance(value[0], str) or kind_of(value[0]) in types else NOTHING
    if isinstance(value, dict) and "value" in value and value.keys() <= _ABOUT_VALUE:
        return value["value"]
    if isinstance(value, CallNode) and "string" not in types:
        if value.name == "dict" and not value.positional:
            return value.keywords
        if value.name in _CONVERSIONS and len(value.positional) == 1 and not value.keywords:
            return value.positional[0]
    return NOTHING


def _number(text: Any, kind: type = float) -> Any:
    text = text.strip()
    if _THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    if not _NUMBER.fullmatch(text) or len(text) > 400:
        return NOTHING
    text = text.replace("_", "")
    number = float(text)
    if number == number // 1 and (kind is int or not re.search(r"[.eE]", text)) and abs(number) < 1e300:
        return int(text) if text.lstrip("+-").isdigit() else int(number)
    return number if kind is float and abs(number) != float("inf") else NOTHING


def _parsed(text: Any, kind: type) -> Any:
    try:
        reader = Reader(text)
        value = reader.value()
        reader.skip()
    except (Unreadable, RecursionError):
        return NOTHING
    whole = reader.position >= len(text) and not reader.unclosed
    return value if whole and isinstance(value, kind) else NOTHING


def literal(text: str) -> Node:
    value: Node = _parsed(text, object)
    return text if value is NOTHING or isinstance(value, Source) else value


def _comma_list(text: Any) -> Any:
    return _parsed(text, list) if text.lstrip()[:1] in ("[", "(") else NOTHING


COERCIONS: dict[tuple[str, str], Any] = {
    ("string", "integer"): lambda text: _number(text, int),
    ("string", "number"): _number,
    ("string", "boolean"): lambda text: _BOOLEANS.get(text.strip().lower(), NOTHING),
    ("string", "null"): lambda text: None if text.strip().lower() in ("null", "none") else NOTHING,
    ("string", "array"): _comma_list,
    ("string", "object"): lambda text: _parsed(text, dict),
    ("source", "boolean"): lambda text: _BOOLEANS.get(str(text).lower(), NOTHING) if isinstance(text, str) else NOTHING,
    ("number", "integer"): lambda number: int(number) if number == number // 1 and abs(number) < _UNSAFE else NOTHING,
    ("integer", "boolean"): lambda number: bool(number) if number in (0, 1) else NOTHING,
    ("integer", "string"): str,
    ("number", "string"): repr,
    ("boolean", "string"): lambda value: "true" if value else "false",
    ("object", "string"): lambda value: _dumped(value),
    ("array", "string"): lambda value: _dumped(value),
}


def _dumped(value: Any) -> Any:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return NOTHING


def kind_of(value: Node) -> str:
    return KINDS.get(type(value), "source")


KINDS: dict[type, str] = {
    str: "string",
    Markup: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    type(None): "null",
}
