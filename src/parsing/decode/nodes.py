"""What a value in a call may be, and strict JSON, which is tried before any repair.

A key that is repeated is an error (types/strict_json.py says why).
"""

from __future__ import annotations

import json
from typing import NamedTuple, NoReturn, Union

from ...types.strict_json import build_unique


class UnreadableValue(ValueError):
    """The text cannot be read as a value; the message is for the model."""


class Source(str):
    """Source text in place of a value: an unquoted word or an expression."""

    __slots__ = ()


class Pair(dict[str, "Node"]):
    """A name and its value inside a list: `["read", path="a"]`."""

    __slots__ = ()


class CallNode(NamedTuple):
    """`name(...)` as written: its keyword arguments, its positional ones, and the source of the whole."""

    name: str
    keywords: dict[str, Node]
    positional: list[Node]
    source: str


Node = Union[None, bool, int, float, str, list["Node"], dict[str, "Node"], CallNode]


STANDS_TWICE = " stands twice."  # ends what the model is told about a key


def _refuse(constant: str) -> NoReturn:
    raise UnreadableValue(f"{constant} is not a JSON value.")


def put(members: dict[str, Node], key: str, value: Node) -> None:
    """Adds a member. Raises UnreadableValue if the key stands there already."""
    if key in members:
        raise _make_repeat_error(key)
    members[key] = value


def _make_repeat_error(key: str) -> UnreadableValue:
    return UnreadableValue(f"The key {key[:64]!r}{STANDS_TWICE}")


_build_object = build_unique(_make_repeat_error)
# The JSON value at a position, and where it ends. They raise ValueError and RecursionError as `json` does.
parse_strict = json.JSONDecoder(parse_constant=_refuse, object_pairs_hook=_build_object).raw_decode
parse_lenient = json.JSONDecoder(  # strings may hold control characters
    parse_constant=_refuse, object_pairs_hook=_build_object, strict=False
).raw_decode
