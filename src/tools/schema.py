"""Type hints -> JSON Schema, for the parameters of a tool; and the schema back as a signature to read.

The dialect is small on purpose: str, int, float, bool, list[T], dict[str, T], Literal, T | None, and
Annotated[T, "what it is"]. Any other hint is a TypeError when the tool is registered, so that no tool
reaches a model with a schema that says less than its function wants.

A parameter that defaults to None is told to the model as a plain optional one (many chat templates
cannot print `T | null`), and a null that comes for it means "left out".
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ..messages import JSON

Schema = dict[str, JSON]

SCALARS: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def parameters_of(function: Callable[..., object], injected: type) -> tuple[Schema, str]:
    """The JSON Schema of a function's parameters, and the name of the one that takes an `injected` value ("": none).

    Raises TypeError, naming the function and the parameter, for what the dialect does not hold.
    """
    properties: Schema = {}
    required: list[JSON] = []
    taker = ""
    for parameter in _signature(function).parameters.values():
        if parameter.annotation is injected:
            taker = parameter.name
            continue
        try:
            properties[parameter.name] = _property(parameter)
        except TypeError as error:
            raise TypeError(f"{function.__name__}({parameter.name}): {error}") from error
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    schema: Schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return schema, taker


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"{function.__name__}: a type hint cannot be read: {error}") from error


def _property(parameter: inspect.Parameter) -> Schema:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError("a tool takes named parameters only")
    if parameter.annotation is parameter.empty:
        raise TypeError("a type hint is missing")
    schema = of_hint(parameter.annotation)
    return _without_null(schema) if parameter.default is None else schema


def _without_null(schema: Schema) -> Schema:
    match schema:
        case {"anyOf": [dict(some), _], **rest}:
            return some | rest
        case _:
            return schema


def of_hint(hint: object) -> Schema:
    """The schema of one type hint; TypeError for a hint outside the dialect."""
    if hint in SCALARS:
        return {"type": SCALARS[hint]}
    build = GENERICS.get(get_origin(hint))
    if build is None:
        raise TypeError(f"no JSON Schema for the type hint {hint!r}")
    return build(*get_args(hint))


def _list(item: object) -> Schema:
    return {"type": "array", "items": of_hint(item)}


def _dict(key: object, value: object) -> Schema:
    if key is not str:
        raise TypeError("the keys of a JSON object are strings")
    return {"type": "object", "additionalProperties": of_hint(value)}


def _literal(*values: JSON) -> Schema:
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= SCALARS.keys():
        raise TypeError("the values of a Literal are strings, or numbers, or booleans: all of one kind")
    return {"type": SCALARS[kinds.pop()], "enum": list(values)}


def _annotated(hint: object, *notes: object) -> Schema:
    if len(notes) != 1 or not isinstance(notes[0], str):
        raise TypeError("Annotated takes one description, a string")
    return {**of_hint(hint), "description": notes[0]}


def _union(*arms: object) -> Schema:
    some = [arm for arm in arms if arm is not type(None)]
    if len(some) != 1 or len(arms) != 2:
        raise TypeError("of unions only T | None can be told to every model")
    return {"anyOf": [of_hint(some[0]), {"type": "null"}]}


GENERICS: dict[object, Callable[..., Schema]] = {
    list: _list,
    dict: _dict,
    Literal: _literal,
    Annotated: _annotated,
    Union: _union,
    types.UnionType: _union,
}


def signature(name: str, schema: Mapping[str, Any]) -> str:
    """The call as a person would write it: `read(path: string, offset?: integer)`."""
    required = schema.get("required", ())
    parts = (
        f"{key}{'' if key in required else '?'}: {type_name(value)}"
        for key, value in schema.get("properties", {}).items()
    )
    return f"{name}({', '.join(parts)})"


def type_name(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(json.dumps, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(map(type_name, schema["anyOf"]))
    if schema.get("type") == "array":
        return f"array of {type_name(schema.get('items', {}))}"
    return str(schema.get("type", "any"))


def as_declared(value: Any, schema: Mapping[str, Any]) -> Any:
    """A value that passed its schema, in the Python type the hint promised: 1.0 for an integer becomes 1."""
    match schema.get("type"):
        case "integer":
            return int(value)
        case "number":
            return float(value)
        case "array":
            return [as_declared(item, schema["items"]) for item in value]
        case "object":
            return {key: as_declared(item, schema["additionalProperties"]) for key, item in value.items()}
        case _:
            return _as_arm(value, schema)


def _as_arm(value: Any, schema: Mapping[str, Any]) -> Any:
    if value is None or "anyOf" not in schema:
        return value
    return as_declared(value, schema["anyOf"][0])
