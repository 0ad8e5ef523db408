"""Type hints -> JSON Schema, for the parameters of a tool.

The dialect is small on purpose: str, int, float, bool, list[T], dict[str, T], Literal, T | None, a TypedDict, a
dataclass, and Annotated[T, "description"]. Any other hint raises TypeError when the tool is registered, so that no
schema says less than its function needs.

A parameter that defaults to None gets the schema of a plain optional one, since many chat templates cannot print
`T | null`; a null for it means that it is left out.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

from ...types.messages import JSON

Schema = dict[str, JSON]

Convert = Callable[[Any], Any]  # from a value that fits the schema to one of the hint's type


class HintSchema(NamedTuple):
    """The schema of a type hint, and a conversion of values that fit it: 1.0 for an int becomes 1."""

    schema: Schema
    convert: Convert


class Parameters(NamedTuple):
    """A function's parameters as one schema. `context_parameter` names the one for the injected value, if any."""

    schema: Schema
    context_parameter: str
    converts: Mapping[str, Convert]


def read_parameters(function: Callable[..., object], name: str, injected: type) -> Parameters:
    """The parameters of a function, without the one of type `injected`.

    Raises TypeError, with `name`, the tool's, and the parameter, for a hint outside the dialect.
    """
    properties: dict[str, HintSchema] = {}
    required: list[str] = []
    context_parameter = ""
    for parameter in _read_signature(function, name).parameters.values():
        if parameter.annotation is injected:
            context_parameter = parameter.name
            continue
        try:
            properties[parameter.name] = _convert_parameter(parameter)
        except TypeError as error:
            raise TypeError(f"{name}({parameter.name}): {error}") from error
        except RecursionError as error:
            raise TypeError(f"{name}({parameter.name}): the type holds itself") from error
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return Parameters(
        _object(properties, required), context_parameter, {key: each.convert for key, each in properties.items()}
    )


def _object(properties: Mapping[str, HintSchema], required: Sequence[str]) -> Schema:
    return object_schema({name: each.schema for name, each in properties.items()}, required)


def object_schema(properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "properties": dict(properties), "required": [*required], "additionalProperties": False}


def _read_signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"{name}: a type hint cannot be read: {error}") from error


def _convert_parameter(parameter: inspect.Parameter) -> HintSchema:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError("a tool takes named parameters only")
    if parameter.annotation is parameter.empty:
        is_method = parameter.name == "self"
        way_out = "a method becomes a tool when it belongs to an object: tool(thing.method)"
        raise TypeError(way_out if is_method else "a type hint is missing")
    return _convert_optional(parameter.annotation, parameter.default)


def _convert_optional(hint: object, default: object) -> HintSchema:
    schema, convert = convert_hint(hint)
    return HintSchema(_drop_null(schema) if default is None else schema, convert)


def _drop_null(schema: Schema) -> Schema:
    match schema:
        case {"anyOf": [dict(some), _], **rest}:
            return some | rest
        case _:
            return schema


def convert_hint(hint: Any) -> HintSchema:
    """Raises TypeError for a hint outside the dialect."""
    if hint in SCALARS:
        return SCALARS[hint]
    if is_typeddict(hint):
        return _from_typed_dict(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _from_dataclass(hint)
    build = GENERICS.get(get_origin(hint))
    if build is None:
        raise TypeError(f"no JSON Schema for the type hint {hint!r}")
    return build(*get_args(hint))


def _keep(value: Any) -> Any:
    return value


def _from_list(item: object) -> HintSchema:
    schema, convert = convert_hint(item)
    return HintSchema({"type": "array", "items": schema}, lambda value: [convert(each) for each in value])


def _from_dict(key: object, value: object) -> HintSchema:
    if key is not str:
        raise TypeError("the keys of a JSON object are strings")
    schema, convert = convert_hint(value)
    return HintSchema(
        {"type": "object", "additionalProperties": schema},
        lambda value: {name: convert(each) for name, each in value.items()},
    )


def _from_literal(*values: JSON) -> HintSchema:
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= SCALARS.keys():
        raise TypeError("the values of a Literal are strings, or numbers, or booleans: all of one kind")
    kind = SCALARS[kinds.pop()]
    return HintSchema({**kind.schema, "enum": list(values)}, kind.convert)


def _from_annotated(hint: object, *notes: object) -> HintSchema:
    if len(notes) != 1 or not isinstance(notes[0], str):
        raise TypeError("Annotated takes one description, a string")
    schema, convert = convert_hint(hint)
    return HintSchema({**schema, "description": notes[0]}, convert)


def _from_union(*arms: object) -> HintSchema:
    some = [arm for arm in arms if arm is not type(None)]
    if len(some) != 1 or len(arms) != 2:
        raise TypeError("of unions only T | None is known to every model")
    schema, convert = convert_hint(some[0])
    return HintSchema({"anyOf": [schema, {"type": "null"}]}, lambda value: None if value is None else convert(value))


def _from_typed_dict(kind: Any) -> HintSchema:
    properties = {
        name: convert_hint(_strip_required(hint)) for name, hint in get_type_hints(kind, include_extras=True).items()
    }

    def build(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: properties[name].convert(each) for name, each in value.items()}

    return HintSchema(_object(properties, [name for name in properties if name in kind.__required_keys__]), build)


def _strip_required(hint: object) -> object:
    """Strip Required and NotRequired, of typing or of typing_extensions."""
    return get_args(hint)[0] if str(getattr(get_origin(hint), "_name", "")).endswith("Required") else hint


def _from_dataclass(kind: Any) -> HintSchema:
    hints = get_type_hints(kind, include_extras=True)
    taken = {each.name: each for each in fields(kind) if each.init}
    properties = {name: _convert_optional(hints[name], each.default) for name, each in taken.items()}
    required = [name for name, each in taken.items() if each.default is each.default_factory is MISSING]

    def build(value: Mapping[str, Any]) -> Any:
        return kind(**{name: properties[name].convert(each) for name, each in value.items()})

    return HintSchema(_object(properties, required), build)


SCALARS: dict[object, HintSchema] = {
    str: HintSchema({"type": "string"}, _keep),
    int: HintSchema({"type": "integer"}, int),
    float: HintSchema({"type": "number"}, float),
    bool: HintSchema({"type": "boolean"}, _keep),
}
GENERICS: dict[object, Callable[..., HintSchema]] = {
    list: _from_list,
    dict: _from_dict,
    Literal: _from_literal,
    Annotated: _from_annotated,
    Union: _from_union,
    types.UnionType: _from_union,
}


def to_strict(schema: Schema) -> Schema:
    """The schema for OpenAI's strict mode, in which every property is required: null stands for one left out."""
    strict = dict(schema)
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict):
        needed = required if isinstance(required, list) else []
        strict["properties"] = {
            name: strict_one if name in needed else _add_null(strict_one)
            for name, each in properties.items()
            for strict_one in [to_strict(each if isinstance(each, dict) else {})]
        }
        strict["required"] = list(properties)
    if isinstance(items := schema.get("items"), dict):
        strict["items"] = to_strict(items)
    if isinstance(arms := schema.get("anyOf"), list):
        strict["anyOf"] = [to_strict(each) if isinstance(each, dict) else each for each in arms]
    return strict


def _add_null(schema: Schema) -> Schema:
    if _may_be_null(schema):
        return schema
    described = {"description": schema["description"]} if "description" in schema else {}
    some: Schema = {name: value for name, value in schema.items() if name != "description"}
    return {"anyOf": [some, {"type": "null"}], **described}


def _may_be_null(schema: object) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def drop_nulls(value: Any, schema: object) -> Any:
    """Drop each property whose null the schema does not allow: it stands for one left out."""
    if not isinstance(schema, Mapping):  # true and false are schemas, too
        return value
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, Mapping) and isinstance(properties, Mapping):
        needed = schema.get("required", ())
        return {
            name: drop_nulls(each, properties.get(name, {}))
            for name, each in value.items()
            if each is not None or name in needed or _may_be_null(properties.get(name, {}))
        }
    if isinstance(value, list) and isinstance(items, Mapping):
        return [drop_nulls(each, items) for each in value]
    if isinstance(arms := schema.get("anyOf"), list) and len(arms) == 2:
        return drop_nulls(value, arms[0])
    return value
