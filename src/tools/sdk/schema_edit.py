"""Edits of JSON Schemas of tools, and of values by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from ...types.messages import JSON
from ...types.tool_schema import may_be_null

Schema = dict[str, JSON]


def object_schema(properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "properties": dict(properties), "required": [*required], "additionalProperties": False}


def describe_properties(schema: Schema, descriptions: Mapping[str, str]) -> None:
    """Add a description to each property that has none."""
    for name, each in cast(dict[str, Schema], schema["properties"]).items():
        if name in descriptions:
            each.setdefault("description", descriptions[name])


def narrow_enum(schema: Mapping[str, JSON], parameter: str, values: Sequence[str]) -> Schema:
    """The same schema, with only these values of a parameter, which is left out if there are none.

    The schema is as it was where there is no such parameter.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(described := properties.get(parameter), dict):
        return dict(schema)
    narrowed: dict[str, JSON] = {**properties, parameter: {**described, "enum": [*values]}}
    if not values:
        del narrowed[parameter]
    return {**schema, "properties": narrowed}


def drop_nulls(value: Any, schema: object) -> Any:
    """Drop each property whose null the schema does not allow: it stands for one left out. 1.0 for an integer is 1."""
    if not isinstance(schema, Mapping):  # true and false are schemas, too
        return value
    if isinstance(value, Mapping):
        return _drop_from_object(value, schema)
    items, arms = schema.get("items"), schema.get("anyOf")
    if isinstance(value, list) and isinstance(items, Mapping):
        return [drop_nulls(each, items) for each in value]
    if isinstance(arms, list):
        return _drop_by_arms(value, [arm for arm in arms if isinstance(arm, Mapping)])
    return _fit_integer(value, [schema])


def _drop_by_arms(value: Any, arms: Sequence[Mapping[str, Any]]) -> Any:
    kind = {list: "array", float: "number"}.get(type(value))
    fitting = [arm for arm in arms if arm.get("type") == kind]
    if not fitting:
        return _fit_integer(value, arms)
    if len(fitting) == 1:
        return drop_nulls(value, fitting[0])
    return value


def _drop_from_object(value: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = schema.get("properties")
    named: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    required, other = schema.get("required", ()), schema.get("additionalProperties", {})
    kept: dict[str, Any] = {}
    for name, each in value.items():
        if each is not None or name not in named or name in required or may_be_null(named[name]):
            kept[name] = drop_nulls(each, named.get(name, other))
    return kept


def _fit_integer(value: Any, schemas: Sequence[Mapping[str, Any]]) -> Any:
    """The value, or the integer that a whole float stands for where one of the schemas asks for that."""
    if isinstance(value, float) and value.is_integer() and any(each.get("type") == "integer" for each in schemas):
        return int(value)
    return value
