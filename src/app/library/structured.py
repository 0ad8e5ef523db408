"""Answers in a form: a dataclass, TypedDict, NamedTuple, msgspec Struct, pydantic model or JSON Schema.

The server's grammar holds the answer to the schema where it has one. Everywhere the answer is checked, and a wrong one
gets one turn to be repaired, with what was wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from types import UnionType
from typing import Any, Union, get_args, get_origin

import msgspec

from ...errors import BotError, ConfigError
from ...tools.sdk.result import attempt
from ...tools.sdk.validation import ArgumentValidator
from ...types.messages import JSON

INSTRUCTIONS = "Give your answer as JSON alone, without any other text, in the form of this JSON Schema:\n{schema}"
REPAIR = "That answer does not have the form that was asked for: {mistake}\n{instructions}"
_FENCE = re.compile(r"^```\w*\n(.*?)\n?```$", re.DOTALL)
KEYWORDS = {"type", "properties", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"}  # a schema has one of them


class Form:
    """The form of an answer. `schema`: its JSON Schema. Raises ConfigError, with the place, for what has none."""

    def __init__(self, wanted: Any, place: str = "schema") -> None:
        self._types: tuple[Any, ...] = ()
        if isinstance(wanted, Mapping):
            self.schema = dict(wanted)
        else:
            self._types = (wanted,)
            if get_origin(wanted) in (
                Union,
                UnionType,
            ):  # each is tried: msgspec takes no two objects, and no two lists
                self._types = get_args(wanted)
            self.schema = _describe_arms(self._types)
        self._validator = ArgumentValidator(self.schema)
        if wrong := attempt(self._compile, str):
            raise ConfigError(f"{place}: this is no JSON Schema: {wrong}.")

    def _compile(self) -> str:
        _ = self._validator.validate
        if KEYWORDS.isdisjoint(self.schema):
            return "it has no `type`"
        return ""

    @property
    def instructions(self) -> str:
        """For the model."""
        return INSTRUCTIONS.format(schema=json.dumps(self.schema, ensure_ascii=False))

    def describe_mistake(self, mistake: str) -> str:
        """For the model."""
        return REPAIR.format(mistake=mistake, instructions=self.instructions)

    def find_mistake(self, text: str) -> str:
        """What is wrong with the text of an answer; "" if nothing is."""
        try:
            self.read(text)
        except BotError as error:
            return error.message
        return ""

    def read(self, text: str) -> object:
        """The value in the text of an answer. Raises BotError."""
        if fenced := _FENCE.match(text.strip()):
            text = fenced[1]
        try:
            value: JSON = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BotError(f"The answer is not JSON ({error}): {text[:80]!r}.") from error
        return self._convert(value)

    def _convert(self, value: Any) -> object:
        """The value in the type that is wanted; of several in the first with all its keys, else the first it fits."""
        fitting: list[object] = []
        errors: list[str] = []
        for wanted in self._types:
            try:
                made = _make(wanted, value)
            except ValueError as error:  # of pydantic and msgspec
                errors.append(str(error))
                continue
            if _has_all(made, value):
                return made
            fitting.append(made)
        if fitting:
            return fitting[0]
        try:
            self._validator.validate(value)
        except ValueError as error:  # of fastjsonschema
            errors = errors or [str(error)]
        if errors:
            raise BotError(f"The answer does not fit the schema: {'; or: '.join(errors)}")
        return value


def _is_pydantic(wanted: Any) -> bool:
    return hasattr(wanted, "model_json_schema") and hasattr(wanted, "model_validate")


def _make(wanted: Any, value: Any) -> object:
    """Raises ValueError."""
    if _is_pydantic(wanted):
        validated: object = wanted.model_validate(value)
        return validated
    converted: object = msgspec.convert(value, wanted)
    return converted


def _has_all(made: Any, value: Any) -> bool:
    """Whether the object has a field for each key of the value, so that none was left out."""
    if not isinstance(value, Mapping):
        return True
    if isinstance(made, Mapping):
        return all(name in made for name in value)
    return all(hasattr(made, str(name)) for name in value)


def _describe_arms(arms: Sequence[Any]) -> dict[str, JSON]:
    schemas = [_describe(arm) for arm in arms]
    if len(schemas) == 1:
        return schemas[0]
    inner: dict[str, JSON] = {}
    for schema in schemas:
        definitions = schema.pop("$defs", None)
        if isinstance(definitions, dict):
            inner |= definitions
    if not inner:
        return {"anyOf": [*schemas]}
    return {"anyOf": [*schemas], "$defs": inner}


def _describe(wanted: Any) -> dict[str, JSON]:
    if _is_pydantic(wanted):
        schema: dict[str, JSON] = wanted.model_json_schema()
        return schema
    try:
        described = msgspec.json.schema(wanted)
    except (TypeError, ValueError, NameError) as error:
        raise ConfigError(
            f"schema: {wanted!r} has no JSON Schema: {error}.",
            "Use a dataclass, a TypedDict, a pydantic model, or a JSON Schema as a dict.",
        ) from error
    name = str(described.get("$ref", "")).rpartition("/")[2]
    inner = described.get("$defs", {})
    if name and name in inner:
        described = dict(inner[name])
        if len(inner) > 1:
            described["$defs"] = inner
    return described
