"""Messages to JSON objects and back, exactly: what is read is equal to what was written.

"type" names the class of each object; fields with their default value are left out. Journals may have been edited,
so reading checks everything the program relies on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from ..types.messages import (
    JSON,
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)

TYPES: Mapping[str, type] = {
    "system": SystemMessage,
    "user": UserMessage,
    "response": Response,
    "results": ToolResults,
    "text": Text,
    "reasoning": Reasoning,
    "call": ToolCall,
    "malformed": MalformedCall,
    "result": ToolResult,
    "usage": Usage,
}
BLOCKS = ("text", "reasoning", "call", "malformed")
MESSAGES = ("system", "user", "response", "results")


class Field(NamedTuple):
    """How a field is written and read; the value `omitted` is left out."""

    name: str
    omitted: object
    write: Callable[[Any], JSON]
    read: Callable[[JSON], object]


def to_json(value: object) -> dict[str, JSON]:
    """A message, or a part of one, as an object."""
    name = NAMES[type(value)]
    written: dict[str, JSON] = {"type": name}
    for each in FIELDS[name]:
        held = getattr(value, each.name)
        if held != each.omitted or type(held) is not type(each.omitted):
            written[each.name] = each.write(held)
    return written


def from_json(value: JSON, allowed: tuple[str, ...] = MESSAGES) -> Any:
    """The value that an object stands for, of one of the `allowed` types. Raises ValueError."""
    name = value.get("type") if isinstance(value, dict) else None
    if not isinstance(value, dict) or name not in allowed or not isinstance(name, str):
        raise ValueError(f"expected an object of type {' or '.join(allowed)}")
    readers = READERS[name]
    try:
        return TYPES[name](**{field: readers[field](held) for field, held in value.items() if field in readers})
    except TypeError as error:
        raise ValueError(f"{name}: {error}") from error


def _same(value: Any) -> Any:
    return value


def _checked(kind: type) -> Callable[[JSON], object]:
    def read(value: JSON) -> object:
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")

    return read


def _many(*allowed: str) -> tuple[Callable[[Any], JSON], Callable[[JSON], object]]:
    def read(value: JSON) -> object:
        if not isinstance(value, list):
            raise ValueError("expected a list")
        return tuple(from_json(each, allowed) for each in value)

    return (lambda values: [to_json(each) for each in values]), read


def _strings(value: JSON) -> object:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError("expected a list of strings")
    return tuple(value)


WAYS: Mapping[str, tuple[Callable[[Any], JSON], Callable[[JSON], object]]] = {  # by the field's type, as written
    "str": (_same, _checked(str)),
    "Origin": (_same, _checked(str)),
    "StopReason": (_same, _checked(str)),
    "Literal['text', 'data', 'error', 'multimodal']": (_same, _checked(str)),
    "int": (_same, _checked(int)),
    "bool": (_same, _checked(bool)),
    "JSON": (_same, _same),
    "Mapping[str, JSON]": (dict, _checked(dict)),
    "tuple[str, ...]": (list, _strings),
    "tuple[Block, ...]": _many(*BLOCKS),
    "tuple[ToolResult, ...]": _many("result"),
    "Usage | None": (
        lambda usage: None if usage is None else to_json(usage),
        lambda value: None if value is None else from_json(value, ("usage",)),
    ),
}
NAMES = {kind: name for name, kind in TYPES.items()}


def _default(each: Any) -> object:
    return each.default_factory() if each.default_factory is not MISSING else each.default


FIELDS: Mapping[str, tuple[Field, ...]] = {
    name: tuple(Field(each.name, _default(each), *WAYS[str(each.type)]) for each in fields(kind))
    for name, kind in TYPES.items()
}
READERS = {name: {each.name: each.read for each in fields} for name, fields in FIELDS.items()}
