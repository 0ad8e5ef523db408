"""What a value in a call may be, and strict JSON, which is tried before any repair.

A key that is repeated is an error (types/strict_json.py says why).
"""

from __future__ import annotations

import json
from typing import NoReturn, Union

from msgspec import Struct

from ...types.strict_json import build_unique


class UnreadableValue(ValueError):
    """The text cannot be read as a value; the message is for the model."""


class RepeatedKey(UnreadableValue):
    """A key stands twice in one object or call."""

    def __init__(self, key: str) -> None:
        super().__init__(f"The key {key[:64]!r} stands twice.")


class Guess(str):
    """What was repaired in a call, if a part of an argument may be lost by it, or given to another parameter."""

    __slots__ = ()


class DeclaredText(str):
    """The text of a value that its tag declares to be no string."""

    __slots__ = ()


class Source(str):
    """Source text in place of a value: an unquoted word or an expression."""

    __slots__ = ()


class Pair(dict[str, "Node"]):
    """A name and its value inside a list: `["read", path="a"]`."""

    __slots__ = ()


class CallNode(Struct, frozen=True):
    """`name(...)` as written: its keyword arguments, its positional ones, and the source of the whole."""

    name: str
    keywords: dict[str, Node]
    positional: list[Node]
    source: str

    def __str__(self) -> str:
        return self.source


KINDS: dict[type, str] = {  # by the names of JSON Schema
    str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null", list: "array", dict: "object"
}  # fmt: skip

Node = Union[None, bool, int, float, str, list["Node"], dict[str, "Node"], CallNode]


def refuse_constant(constant: str) -> NoReturn:
    raise UnreadableValue(f"{constant} is not a JSON value.")


def put(members: dict[str, Node], key: str, value: Node) -> None:
    """Adds a member. Raises UnreadableValue if the key stands there already."""
    if key in members:
        raise RepeatedKey(key)
    members[key] = value


_build_object = build_unique(RepeatedKey)
# The JSON value at a position, and where it ends. They raise ValueError and RecursionError as `json` does.
parse_strict = json.JSONDecoder(parse_constant=refuse_constant, object_pairs_hook=_build_object).raw_decode
parse_lenient = json.JSONDecoder(  # strings may hold control characters
    parse_constant=refuse_constant, object_pairs_hook=_build_object, strict=False
).raw_decode
