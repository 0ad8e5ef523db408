"""Type hints -> JSON Schema, for the parameters of a tool.

The dialect is small on purpose: str, int, float, bool, list[T], dict[str, T], Literal, T | None, a TypedDict, a
dataclass, and Annotated[T, "what it is"]. Any other hint is a TypeError when the tool is registered, so that no tool
reaches a model with a schema that says less than its function wants.

A parameter that defaults to None is described to the model as a plain optional one (many chat templates
cannot print `T | null`), and a null that comes for it means "left out".
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

from ...types.messages import JSON

Schema = dict[str, JSON]

Convert = Callable[[Any], Any]  # of a value that passed its schema, into what the hint promises


class HintSchema(NamedTuple):
    """The schema of a type hint, and what turns a value that fits it into one of the type: 1.0 for an int becomes 1."""

    schema: Schema
    convert: Convert


class Parameters(NamedTuple):
    """A function's parameters as one schema. `context_parameter` takes the injected value; "": none does."""

    schema: Schema
    context_parameter: str
    converts: Mapping[str, Convert]


def parameters_of(function: Callable[..., object], injected: type) -> Parameters:
    """What a function takes, less the `injected` value.

    Raises TypeError, naming the function and the parameter, for what the dialect does not hold.
    """
    properties: dict[str, HintSchema] = {}
    required: list[str] = []
    context_parameter = ""
    for parameter in _signature(function).parameters.values():
        if parameter.annotation is injected:
            context_parameter = parameter.name
            continue
        try:
            properties[parameter.name] = _property(parameter)
        except TypeError as error:
            raise TypeError(f"{function.__name__}({parameter.name}): {error}") from error
        except RecursionError as error:
            raise TypeError(f"{function.__name__}({parameter.name}): the type holds itself") from error
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return Parameters(
        _object(properties, required), context_parameter, {name: each.convert for name, each in properties.items()}
    )


def _object(properties: Mapping[str, HintSchema], required: Sequence[str]) -> Schema:
    return object_schema({name: each.schema for name, each in properties.items()}, required)


def object_schema(properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    """An object that holds these properties and nothing else."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*required],
        "additionalProperties": False,
    }


def _signature(function: Callable[..., object]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"{function.__name__}: a type hint cannot be read: {error}") from error


def _property(parameter: inspect.Parameter) -> HintSchema:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError("a tool takes named parameters only")
    if parameter.annotation is parameter.empty:
        raise TypeError("a type hint is missing")
    return _optional(parameter.annotation, parameter.default)


def _optional(hint: object, default: object) -> HintSchema:
    schema, convert = of_hint(hint)
    return HintSchema(_without_null(schema) if default is None else schema, convert)


def _without_null(schema: Schema) -> Schema:
    match schema:
        case {"anyOf": [dict(some), _], **rest}:
            return some | rest
        case _:
            return schema


def of_hint(hint: Any) -> HintSchema:
    """Raises TypeError for a hint outside the dialect."""
    if hint in SCALARS:
        return SCALARS[hint]
    if is_typeddict(hint):
        return _typed_dict(hint)
    if isinstance(hint, type) and is_dataclass(hint):
        return _dataclass(hint)
    build = GENERICS.get(get_origin(hint))
    if build is None:
        raise TypeError(f"no JSON Schema for the type hint {hint!r}")
    return build(*get_args(hint))


def _identity(value: Any) -> Any:
    return value


def _list(item: object) -> HintSchema:
    schema, convert = of_hint(item)
    return HintSchema({"type": "array", "items": schema}, lambda value: [convert(each) for each in value])


def _dict(key: object, value: object) -> HintSchema:
    if key is not str:
        raise TypeError("the keys of a JSON object are strings")
    schema, convert = of_hint(value)
    return HintSchema(
        {"type": "object", "additionalProperties": schema},
        lambda value: {name: convert(each) for name, each in value.items()},
    )


def _literal(*values: JSON) -> HintSchema:
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= SCALARS.keys():
        raise TypeError("the values of a Literal are strings, or numbers, or booleans: all of one kind")
    kind = SCALARS[kinds.pop()]
    return HintSchema({**kind.schema, "enum": list(values)}, kind.convert)


def _annotated(hint: object, *notes: object) -> HintSchema:
    if len(notes) != 1 or not isinstance(notes[0], str):
        raise TypeError("Annotated takes one description, a string")
    schema, convert = of_hint(hint)
    return HintSchema({**schema, "description": notes[0]}, convert)


def _union(*arms: object) -> HintSchema:
    some = [arm for arm in arms if arm is not type(None)]
    if len(some) != 1 or len(arms) != 2:
        raise TypeError("of unions only T | None is known to every model")
    schema, convert = of_hint(some[0])
    return HintSchema({"anyOf": [schema, {"type": "null"}]}, lambda value: None if value is None else convert(value))


def _typed_dict(kind: Any) -> HintSchema:
    properties = {name: of_hint(_bare(hint)) for name, hint in get_type_hints(kind, include_extras=True).items()}

    def build(value: Mapping[str, Any]) -> dict[str, Any]:
        return {name: properties[name].convert(each) for name, each in value.items()}

    return HintSchema(_object(properties, [name for name in properties if name in kind.__required_keys__]), build)


def _bare(hint: object) -> object:
    """Without the Required or NotRequired that a TypedDict's keys may have, whoever's they are."""
    return get_args(hint)[0] if str(getattr(get_origin(hint), "_name", "")).endswith("Required") else hint


def _dataclass(kind: Any) -> HintSchema:
    hints = get_type_hints(kind, include_extras=True)
    taken = {each.name: each for each in fields(kind) if each.init}
    properties = {name: _optional(hints[name], each.default) for name, each in taken.items()}
    required = [name for name, each in taken.items() if each.default is each.default_factory is MISSING]

    def build(value: Mapping[str, Any]) -> Any:
        return kind(**{name: properties[name].convert(each) for name, each in value.items()})

    return HintSchema(_object(properties, required), build)


SCALARS: dict[object, HintSchema] = {
    str: HintSchema({"type": "string"}, _identity),
    int: HintSchema({"type": "integer"}, int),
    float: HintSchema({"type": "number"}, float),
    bool: HintSchema({"type": "boolean"}, _identity),
}
GENERICS: dict[object, Callable[..., HintSchema]] = {
    list: _list,
    dict: _dict,
    Literal: _literal,
    Annotated: _annotated,
    Union: _union,
    types.UnionType: _union,
}


def strict_form(schema: Schema) -> Schema:
    """The schema for OpenAI's strict mode, where every property is required: null then stands for one left out."""
    strict = dict(schema)
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict):
        needed = required if isinstance(required, list) else []
        strict["properties"] = {
            name: strict_form(each) if name in needed else _nullable(strict_form(each))
            for name, each in _schemas(properties)
        }
        strict["required"] = list(properties)
    if isinstance(items := schema.get("items"), dict):
        strict["items"] = strict_form(items)
    if isinstance(arms := schema.get("anyOf"), list):
        strict["anyOf"] = [strict_form(each) if isinstance(each, dict) else each for each in arms]
    return strict


def _schemas(properties: Mapping[str, JSON]) -> Iterator[tuple[str, Schema]]:
    for name, schema in properties.items():
        yield name, schema if isinstance(schema, dict) else {}


def _nullable(schema: Schema) -> Schema:
    if _may_be_null(schema):
        return schema
    described = {"description": schema["description"]} if "description" in schema else {}
    some: Schema = {name: value for name, value in schema.items() if name != "description"}
    return {"anyOf": [some, {"type": "null"}], **described}


def _may_be_null(schema: object) -> bool:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def without_nulls(value: Any, schema: object) -> Any:
    """The value without those nulls that the schema does not allow and that stand for a property left out."""
    if not isinstance(schema, Mapping):  # true and false are schemas, too
        return value
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, Mapping) and isinstance(properties, Mapping):
        needed = schema.get("required", ())
        return {
            name: without_nulls(each, properties.get(name, {}))
            for name, each in value.items()
            if each is not None or name in needed or _may_be_null(properties.get(name, {}))
        }
    if isinstance(value, list) and isinstance(items, Mapping):
        return [without_nulls(each, items) for each in value]
    if isinstance(arms := schema.get("anyOf"), list) and len(arms) == 2:
        return without_nulls(value, arms[0])
    return value


def without_patterns(schema: Any, *, by_name: bool = False) -> Any:
    """The schema without its regular expressions: they are untrusted and may backtrack for ever; their author checks.

    `by_name`: its keys are names of parameters, and no keywords.
    """
    if isinstance(schema, list):
        return [without_patterns(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    named = () if by_name or "patternProperties" not in schema else ("patternProperties", "additionalProperties")
    return {
        key: without_patterns(value, by_name=not by_name and key in ("properties", "$defs", "definitions"))
        for key, value in schema.items()
        if by_name or not (key == "pattern" or key in named)
    }
