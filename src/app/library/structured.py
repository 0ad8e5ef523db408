"""Answers in a form: a dataclass, TypedDict, NamedTuple, msgspec Struct, pydantic model or JSON Schema.

The server's grammar holds the answer to the schema where it has one. Everywhere the answer is checked, and a wrong one
gets one turn to be repaired, with what was wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

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
    """The form of an answer. `schema`: its JSON Schema. Raises ConfigError for what has none."""

    def __init__(self, wanted: Any) -> None:
        self._type: Any = None if isinstance(wanted, Mapping) else wanted
        self._is_pydantic = hasattr(wanted, "model_json_schema") and hasattr(wanted, "model_validate")
        self.schema = _describe(wanted, is_pydantic=self._is_pydantic)
        self._validator = ArgumentValidator(self.schema)
        if wrong := attempt(self._compile, str):
            raise ConfigError(f"schema: this is no JSON Schema: {wrong}.")

    def _compile(self) -> str:
        _ = self._validator.validate
        return "" if KEYWORDS.intersection(self.schema) else "it has no `type`"

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
        fenced = _FENCE.match(text.strip())
        try:
            value: JSON = json.loads(fenced[1] if fenced else text)
        except (ValueError, RecursionError) as error:
            raise BotError(f"The answer is not JSON ({error}): {text[:80]!r}.") from error
        return self._convert(value)

    def _convert(self, value: Any) -> object:
        try:
            if self._is_pydantic:
                validated: object = self._type.model_validate(value)
                return validated
            if self._type is not None:
                converted: object = msgspec.convert(value, self._type)
                return converted
            self._validator.validate(value)
        except ValueError as error:  # of pydantic, msgspec and fastjsonschema
            raise BotError(f"The answer does not fit the schema: {error}") from error
        return value


def _describe(wanted: Any, *, is_pydantic: bool) -> dict[str, JSON]:
    if isinstance(wanted, Mapping):
        return dict(wanted)
    if is_pydantic:
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
        described = {**inner[name], **({"$defs": inner} if len(inner) > 1 else {})}
    return described
