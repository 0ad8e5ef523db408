"""An offered tool whose schema is read as far as fitting arguments needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...types.schema_reference import find_reference

_SCALARS = {"string": str, "integer": int, "boolean": bool, "number": float}
_CONSTRAINTS = frozenset(("enum", "anyOf", "oneOf", "$ref"))
ANY: Mapping[str, Any] = {}  # the schema that requires nothing


def as_schema(value: object) -> Mapping[str, Any]:
    """The schema that a value is; what is none requires nothing."""
    return value if isinstance(value, Mapping) else ANY


def list_required(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The properties that a schema requires; none if it says that otherwise than in a list, as `true` does."""
    required = schema.get("required")
    return tuple(map(str, required)) if isinstance(required, (list, tuple)) else ()


class IndexedTool:
    """A tool, and of its schema what fitting needs. The schemas of its parameters are read when they are needed."""

    def __init__(self, name: str, schema: Mapping[str, Any]) -> None:
        self.name = name
        self.schema = schema
        self.properties = as_schema(schema.get("properties"))
        self.required = list_required(schema)
        self._alternatives: dict[int, tuple[object, Sequence[Mapping[str, Any]]]] = {}  # with the schema, by its id

    def resolve(self, schema: object) -> Mapping[str, Any]:
        """The schema behind a local `$ref`; a schema that cannot be used requires nothing."""
        for _ in range(8):
            if not isinstance(schema, Mapping):
                return ANY
            reference = schema.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                return schema
            schema = find_reference(reference, self.schema)
        return ANY

    def list_alternatives(self, schema: object) -> Sequence[Mapping[str, Any]]:
        """The schemas of which a value has to fit one: none of them has alternatives or a `$ref`."""
        entry = self._alternatives.get(id(schema))
        if entry is None:
            entry = self._alternatives[id(schema)] = schema, self._find_alternatives(schema)
        return entry[1]

    def _find_alternatives(self, schema: object) -> Sequence[Mapping[str, Any]]:
        alternatives: list[Mapping[str, Any]] = []
        opened: list[Mapping[str, Any]] = []  # those that were replaced by their alternatives: one may lead to itself
        waiting = [schema]
        while waiting:
            resolved = self.resolve(waiting.pop(0))
            options = resolved.get("anyOf") or resolved.get("oneOf")
            if not isinstance(options, list):
                alternatives.append(resolved)
            elif not any(resolved is each for each in opened):
                opened.append(resolved)
                waiting[:0] = options
        return alternatives or [ANY]

    @property
    def scalar_types(self) -> Mapping[str, type]:
        """The parameters that have one scalar type and nothing else."""
        return {
            key: _SCALARS[schema["type"]]
            for key, schema in self.properties.items()
            if isinstance(schema, Mapping) and str(schema.get("type")) in _SCALARS and _CONSTRAINTS.isdisjoint(schema)
        }
