"""A JSON Schema reduced to what Gemini accepts for a function's parameters. No I/O.

Gemini accepts a subset of OpenAPI 3.0's schema objects and refuses a request with anything else. What the subset
can express is translated (a type list becomes `nullable` or `anyOf`, a constant an `enum`, a reference its target);
the rest is left out. That only makes the schema wider: arguments are checked against the tool's own. Subset: the
reference of Schema in the Gemini API (v1beta) and in Vertex AI (v1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...types.messages import JSON
from ...types.schema_reference import find_reference
from ..wire_json import as_dict, as_dicts, as_list, as_str

Schema = Mapping[str, Any]

_KEPT = (
    "title",
    "description",
    "nullable",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
)
_FORMATS = ("float", "double", "int32", "int64", "date-time")  # others are refused for their types
_TYPES = ("string", "number", "integer", "boolean", "array", "object")
_IMPLIED = {"properties": "object", "items": "array", "enum": "string"}  # the type of a schema that names none


def reduce_schema(schema: Schema) -> dict[str, JSON]:
    """The schema as Gemini accepts it; recursion ends where a reference would repeat."""
    return _reduce(schema, schema, frozenset())


def _reduce(schema: Schema, root: Schema, inside: frozenset[str]) -> dict[str, JSON]:
    schema, inside = _resolve(schema, root, inside)
    sent: dict[str, JSON] = {key: schema[key] for key in _KEPT if key in schema}
    if schema.get("format") in _FORMATS:
        sent["format"] = schema["format"]
    choices = _list_choices(schema)
    if choices:
        return sent | _reduce_union(choices, root, inside)
    kind = _find_type(schema)
    sent["type"] = kind.upper()
    if kind == "object":
        return sent | _reduce_object(schema, root, inside)
    if kind == "array":
        return sent | {"items": _reduce(as_dict(schema.get("items")), root, inside)}
    allowed = as_list(schema.get("enum", [schema.get("const")]))
    if kind == "string" and allowed and all(map(as_str, allowed)):  # only texts, and none that is empty
        sent |= {"enum": allowed, "format": "enum"}
    return sent


def _resolve(schema: Schema, root: Schema, inside: frozenset[str]) -> tuple[Schema, frozenset[str]]:
    """The schema with references and `allOf` merged in; its own keys win."""
    merged: dict[str, Any] = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    parts = as_dicts(schema.get("allOf"))
    if reference := as_str(schema.get("$ref")):
        target = as_dict(find_reference(reference, root))
        parts.append({"type": as_str(target.get("type")) or "object"} if reference in inside else target)
        inside |= {reference}
    for each in parts:
        part, inside = _resolve(each, root, inside)
        properties = {**as_dict(part.get("properties")), **as_dict(merged.get("properties"))}
        required = [*_list_required(part), *_list_required(merged)]
        joined = {"properties": properties, "required": required}
        merged = {**part, **merged, **{key: value for key, value in joined.items() if value}}
    return merged, inside


def _list_required(schema: Schema) -> list[str]:
    return [name for name in as_list(schema.get("required")) if isinstance(name, str)]


def _list_choices(schema: Schema) -> list[dict[str, Any]]:
    """The alternatives, if there are any; those of an object only narrow its properties and are ignored."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        own = {key: value for key, value in schema.items() if key not in _KEPT}
        return [{**own, "type": kind} for kind in kinds if isinstance(kind, str)]
    if kinds or "properties" in schema:
        return []
    return [*as_dicts(schema.get("anyOf")), *as_dicts(schema.get("oneOf"))]


def _reduce_union(choices: list[dict[str, Any]], root: Schema, inside: frozenset[str]) -> dict[str, JSON]:
    wanted = [choice for choice in choices if choice.get("type") != "null"]
    if not wanted:
        return {"type": "STRING", "nullable": True}
    reduced = [_reduce(choice, root, inside) for choice in wanted]
    union: dict[str, JSON] = {"anyOf": [*reduced]}
    if len(reduced) == 1:
        union = reduced[0]
    if len(wanted) < len(choices):
        union["nullable"] = True
    return union


def _find_type(schema: Schema) -> str:
    implied = next((kind for key, kind in _IMPLIED.items() if key in schema), "string")
    kind = as_str(schema.get("type")) or implied
    return kind if kind in _TYPES else "string"


def _reduce_object(schema: Schema, root: Schema, inside: frozenset[str]) -> dict[str, JSON]:
    properties: dict[str, JSON] = {
        name: _reduce(as_dict(each), root, inside) for name, each in as_dict(schema.get("properties")).items()
    }
    if not properties:  # an empty object is refused
        return {}
    required: list[JSON] = [name for name in dict.fromkeys(_list_required(schema)) if name in properties]
    reduced: dict[str, JSON] = {"properties": properties}
    if required:
        reduced["required"] = required
    return reduced
