"""Checks a call's arguments against the JSON Schema of its tool, and says what is wrong with them.

The model reads the message: it names the parameter, the type expected and the value received, shortened.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from ...errors import ToolError
from ...types.tool_schema import describe_type
from .schema_edit import drop_nulls

EXPECTED = {  # msgspec's errors about a string -> what it has to be
    "Invalid RFC3339 encoded datetime": "a date and time such as 2026-11-22T10:30:00+01:00",
    "Invalid RFC3339 encoded date": "a date such as 2026-11-22",
    "Invalid RFC3339 encoded time": "a time such as 10:30:00",
}
LIMITS = {  # keywords that a value of the right type may fail -> what it has to be
    "exclusiveMinimum": " more than {}",
    "minimum": " of at least {}",
    "exclusiveMaximum": " less than {}",
    "maximum": " of at most {}",
    "multipleOf": " that is a multiple of {}",
    "minLength": " of at least {} characters",
    "maxLength": " of at most {} characters",
    "minItems": " of at least {} items",
    "maxItems": " of at most {} items",
}
MAX_VALUE_CHARS = 80  # of a wrong value, in an error
JSON_NAMES = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}


class WrongArguments(ToolError):
    """The arguments of a call do not fit, or cannot be checked: what the model is told."""


class ArgumentValidator:
    """Checks arguments against one schema, which is compiled when it is first needed.

    A schema may come from an MCP server, so both the compilation and a check may raise any Exception.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def check(self, arguments: object) -> None:
        """Raises WrongArguments with the first mismatch, e.g. `offset: expected integer, got string "two"`."""
        from fastjsonschema import JsonSchemaValueException  # start-up is measured

        if not isinstance(arguments, Mapping):
            raise WrongArguments(f"expected an object, got {_describe(arguments)}")
        properties, required = self._schema.get("properties", {}), self._schema.get("required", ())
        for name in arguments:
            if name not in properties and self._schema.get("additionalProperties") is False:
                message = f"there is no parameter {quote(name)}"
                if near := find_near(name, properties):
                    message += f" (nearest: {', '.join(near)})"
                raise WrongArguments(message)
        for name in required:
            if name not in arguments:
                raise WrongArguments(f"{name} is missing, expected {describe_type(properties.get(name, {}))}")
        try:
            self.validate(drop_nulls(arguments, self._schema))
        except JsonSchemaValueException as error:
            limit = LIMITS.get(str(error.rule), "").format(error.rule_definition)
            expected, came = describe_type(error.definition) + limit, _describe(error.value)
            raise WrongArguments(f"{'.'.join(error.path[1:])}: expected {expected}, got {came}") from error

    @cached_property
    def validate(self) -> Callable[[object], object]:
        """The compiled schema; it raises JsonSchemaValueException for a value that does not fit."""
        import fastjsonschema

        validate: Callable[[object], object] = fastjsonschema.compile(
            _drop_patterns(self._schema), handlers=_NoDocuments()
        )
        return validate


class _NoDocuments(dict[str, Callable[[str], object]]):
    """Stands for every kind of address: a `$ref` out of the schema, to a URL or a file, is not followed."""

    def __contains__(self, scheme: object) -> bool:
        return True

    def __missing__(self, scheme: str) -> Callable[[str], object]:
        raise ValueError(f"a $ref of the schema leads out of it ({scheme or 'a path'})")


def describe_conversion_error(name: str, value: object, error: ValueError) -> str:
    """What msgspec or a pydantic model says of the value of the parameter `name`, with the place inside it."""
    reason, _, place = str(error).partition(" - at `$")
    for theirs, expected in EXPECTED.items():
        reason = reason.replace(theirs, f"expected {expected}")
    if not place:
        reason += f", got {_describe(value)}"
    return f"{name}{place.rstrip('`')}: {reason}"


def find_near(name: str, names: Mapping[str, object]) -> list[str]:
    """The known names that are similar to `name`, whatever their case; the nearest first."""
    import difflib  # only for a mistake

    by_lower = {each.lower(): each for each in names}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower()[:MAX_VALUE_CHARS], by_lower)]


def quote(value: object) -> str:
    """The value as JSON, shortened to MAX_VALUE_CHARS."""
    text = json.dumps(value, default=repr)
    return text if len(text) <= MAX_VALUE_CHARS else f"{text[:MAX_VALUE_CHARS]}... ({len(text)} characters)"


def _describe(value: object) -> str:
    return "null" if value is None else f"{JSON_NAMES.get(type(value), type(value).__name__)} {quote(value)}"


def _drop_patterns(schema: Any, *, by_name: bool = False) -> Any:
    """Drop regular expressions: they are not trusted and may backtrack without end; the tool itself checks its values.
    Drop formats: a tool checks them, and reads more forms of a date than the library that checks schemas.

    `by_name`: the keys are names of parameters, not keywords.
    """
    if isinstance(schema, list):
        return [_drop_patterns(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    named = () if by_name or "patternProperties" not in schema else ("patternProperties", "additionalProperties")
    return {
        key: _drop_patterns(value, by_name=not by_name and key in ("properties", "$defs", "definitions"))
        for key, value in schema.items()
        if by_name or not (key in ("pattern", "format") or key in named)
    }
