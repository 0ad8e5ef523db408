"""Type hints -> JSON Schema, for the parameters of a tool.

The dialect: str, int, float, bool, date, datetime, time, an Enum, Literal, list, tuple, set, dict[str, T], unions, a
TypedDict, a dataclass, a pydantic model, and Annotated[T, "description"]. Any other hint raises TypeError when the tool
is made, and says what to write instead, so that no schema says less than its function needs. Schemas are flat, without
references, titles and defaults, since small models and many chat templates cannot follow those.

A parameter that defaults to None gets the schema of a plain optional one, since many chat templates cannot print
`T | null`; a null for it means that it is left out. msgspec converts values that fit the schema to the hint's type.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints, is_typeddict

from ...types.messages import JSON

Schema = dict[str, JSON]

Convert = Callable[[Any], Any]  # from a value that fits the schema to one of the hint's type


class HintSchema(NamedTuple):
    """The schema of a type hint, and a conversion of values that fit it. The conversion raises ValueError."""

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
        if injected in (parameter.annotation, *get_args(parameter.annotation)):  # it may be `ToolContext | None`
            context_parameter = parameter.name
            continue
        try:
            properties[parameter.name] = _convert_parameter(parameter)
        except (TypeError, NameError) as error:
            raise TypeError(f"{name}({parameter.name}): {error}") from error
        except RecursionError as error:
            raise TypeError(f"{name}({parameter.name}): the type holds itself") from error
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return Parameters(
        object_schema({key: each.schema for key, each in properties.items()}, required),
        context_parameter,
        {key: each.convert for key, each in properties.items() if each.convert is not _keep},
    )


def object_schema(properties: Mapping[str, Schema], required: Sequence[str]) -> Schema:
    """The schema of an object with these properties and no others."""
    return {"type": "object", "properties": dict(properties), "required": [*required], "additionalProperties": False}


def narrow_enum(schema: Mapping[str, JSON], parameter: str, values: Sequence[str]) -> Schema:
    """The same schema, with only these values of a parameter, which is left out if there are none.

    The schema is as it was where there is no such parameter.
    """
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not isinstance(known := properties.get(parameter), dict):
        return dict(schema)
    narrowed: dict[str, JSON] = {**properties, parameter: {**known, "enum": [*values]}}
    if not values:
        del narrowed[parameter]
    return {**schema, "properties": narrowed}


def _read_signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"{name}: a type hint cannot be read: {error}; define it outside of functions") from error
    except (SyntaxError, AttributeError) as error:
        way_out = 'write Annotated[str, "description"] for a description'
        raise TypeError(f"{name}: a type hint cannot be read: {error}; {way_out}") from error


def _convert_parameter(parameter: inspect.Parameter) -> HintSchema:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError("a tool takes named parameters only")
    if parameter.annotation is parameter.empty:
        is_method = parameter.name == "self"
        way_out = "a method becomes a tool when it belongs to an object: tool(thing.method)"
        raise TypeError(way_out if is_method else "a type hint is missing")
    schema, convert = convert_hint(parameter.annotation)
    return HintSchema(_drop_null(schema) if parameter.default is None else schema, convert)


def convert_hint(hint: Any) -> HintSchema:
    """The schema of a hint, and the conversion of values. Raises TypeError for a hint outside the dialect."""
    schema = make_schema(hint)
    core = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return HintSchema(schema, _keep if core in (str, int, bool) else partial(_convert, hint))


def _keep(value: Any) -> Any:
    return value


def _convert(hint: Any, value: Any) -> Any:
    import msgspec  # start-up is measured

    return msgspec.convert(value, hint, dec_hook=_make_model)


def _make_model(kind: Any, value: Any) -> Any:
    """An object of a pydantic model, the one type of the dialect that msgspec does not know."""
    try:
        return kind.model_validate(value)
    except ValueError as error:
        raise ValueError(describe_model_error(error)) from error


def describe_model_error(error: Any) -> str:
    """The first of the errors in pydantic's ValidationError, with its place."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return f"{where}: {first['msg']}" if where else str(first["msg"])


def make_schema(hint: Any) -> Schema:
    """Raises TypeError for a hint outside the dialect."""
    while hasattr(hint, "__supertype__"):  # of a NewType
        hint = hint.__supertype__
    if isinstance(hint, (list, dict)):
        raise TypeError(f"{hint!r} is a value and no type; write {INSTEAD[type(hint)]}")
    origin, arguments = get_origin(hint), get_args(hint)
    if arguments and (build := GENERICS.get(origin)):
        return build(*arguments)
    if hint in SCALARS:
        return dict(SCALARS[hint])
    if is_typeddict(hint):
        return _from_typed_dict(hint)
    if hasattr(hint, "model_json_schema"):
        return _flatten_model(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _from_literal(*(each.value for each in hint))
    if isinstance(hint, type) and is_dataclass(hint):
        return _from_dataclass(hint)
    name = getattr(hint, "__name__", None) or repr(hint)
    raise TypeError(f"a model cannot send a value of the type {name}; write {INSTEAD.get(origin or hint, DIALECT)}")


def _from_list(item: object) -> Schema:
    return {"type": "array", "items": make_schema(item)}


def _from_tuple(*items: object) -> Schema:
    if len(items) == 2 and items[1] is ...:
        return _from_list(items[0])
    return _fix_length([make_schema(item) for item in items])


def _fix_length(items: Sequence[Schema]) -> Schema:
    """The schema of an array of these items; their order is not told, since few servers take `prefixItems`."""
    kinds = [kind for number, kind in enumerate(items) if kind not in items[:number]]
    one_of: Schema = kinds[0] if len(kinds) == 1 else {"anyOf": [*kinds]}
    return {"type": "array", "items": one_of, "minItems": len(items), "maxItems": len(items)}


def _from_set(item: object) -> Schema:
    schema = make_schema(item)
    if schema.get("type") in ("array", "object"):
        raise TypeError("a set holds no lists and no objects; write list[...]")
    return {"type": "array", "items": schema}


def _from_dict(key: object, value: object) -> Schema:
    if key is not str:
        raise TypeError("the keys of a JSON object are strings; write dict[str, ...]")
    return {"type": "object", "additionalProperties": make_schema(value)}


def _from_literal(*values: JSON) -> Schema:
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, int, bool}:
        raise TypeError("the values of a Literal or an Enum are all strings, or all integers; write them so")
    return {**SCALARS[kinds.pop()], "enum": list(values)}


def _from_annotated(hint: object, *notes: object) -> Schema:
    if len(notes) != 1 or not isinstance(notes[0], str):
        raise TypeError("Annotated takes one description, a string")
    return {**make_schema(hint), "description": notes[0]}


def _from_union(*arms: object) -> Schema:
    """The types differ in JSON, so that a value shows which of them is meant."""
    schemas = [make_schema(arm) for arm in arms if arm is not type(None)]
    kinds = [schema.get("type") for schema in schemas]
    for kind in kinds:
        if kinds.count(kind) > 1:
            names = " and ".join(getattr(arm, "__name__", str(arm)) for arm in arms if arm is not type(None))
            raise TypeError(f"{names} are not told apart in JSON, where two of them are of the type {kind}; write one")
    if any(hasattr(arm, "model_json_schema") for arm in arms) and len(schemas) > 1:
        raise TypeError("a pydantic model stands in no union but with None; write one type")
    null: list[Schema] = [{"type": "null"}] if len(schemas) < len(arms) else []
    return {"anyOf": [*schemas, *null]}


def _from_typed_dict(kind: Any) -> Schema:
    hints = get_type_hints(kind, include_extras=True)
    properties = {name: make_schema(_strip_required(hint)) for name, hint in hints.items()}
    return object_schema(properties, [name for name in properties if name in kind.__required_keys__])


def _strip_required(hint: object) -> object:
    """Strip Required and NotRequired, of typing or of typing_extensions."""
    return get_args(hint)[0] if str(getattr(get_origin(hint), "_name", "")).endswith("Required") else hint


def _from_dataclass(kind: Any) -> Schema:
    has_more = any(
        "InitVar" in str(hint) for each in kind.__mro__ for hint in vars(each).get("__annotations__", {}).values()
    )
    if hasattr(kind, "__pydantic_validator__") or has_more:
        raise TypeError(f"{kind.__name__} is no plain dataclass; write one of plain fields, or a pydantic BaseModel")
    hints = get_type_hints(kind, include_extras=True)
    taken = {each.name: each for each in fields(kind) if each.init}
    schemas = {name: make_schema(hints[name]) for name in taken}
    return object_schema(
        {name: _drop_null(schemas[name]) if each.default is None else schemas[name] for name, each in taken.items()},
        [name for name, each in taken.items() if each.default is each.default_factory is MISSING],
    )


def _drop_null(schema: Schema) -> Schema:
    match schema:
        case {"anyOf": [dict(some), {"type": "null"}], **rest}:
            return some | rest
        case {"anyOf": [*some, {"type": "null"}], **rest}:
            return {"anyOf": some, **rest}
        case _:
            return schema


def _flatten_model(model: Any) -> Schema:
    """The schema of a pydantic model in the dialect: references become what they stand for."""
    whole = model.model_json_schema()
    flat = _flatten(whole, whole.get("$defs", {}), ())
    if not flat.get("properties"):
        raise TypeError(f"{model.__name__} has no fields of a JSON object; write a model with fields")
    return flat


def _flatten(schema: Mapping[str, Any], kinds: Mapping[str, Any], inside: Sequence[str]) -> Schema:
    if reference := str(schema.get("$ref", "")).rpartition("/")[2]:
        if reference in inside:
            raise TypeError("the type holds itself")
        schema = {**kinds[reference], **schema}
        inside = [*inside, reference]
    flat: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            flat[key] = {name: _flatten(each, kinds, inside) for name, each in value.items()}
        elif key in ("anyOf", "oneOf"):
            flat["anyOf"] = [_flatten(each, kinds, inside) for each in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            flat[key] = _flatten(value, kinds, inside)
        elif key == "prefixItems":
            flat |= _fix_length([_flatten(each, kinds, inside) for each in value])
        elif key == "const":
            flat["enum"] = [value]
        elif key not in ("$ref", "$defs", "title", "default", "uniqueItems", "discriminator"):
            flat[key] = value
    if "properties" in flat:
        flat = {"required": [], "additionalProperties": False, **flat}
    return _drop_null(flat) if schema.get("default", MISSING) is None else flat


SCALARS: Mapping[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.time: {"type": "string", "format": "time"},
}
GENERICS: Mapping[object, Callable[..., Schema]] = {
    list: _from_list,
    Sequence: _from_list,
    tuple: _from_tuple,
    set: _from_set,
    frozenset: _from_set,
    AbstractSet: _from_set,
    dict: _from_dict,
    Mapping: _from_dict,
    Literal: _from_literal,
    Annotated: _from_annotated,
    Union: _from_union,
    types.UnionType: _from_union,
}
DIALECT = "str, int, float, bool, date, datetime, an Enum, list[...], dict[str, ...], a dataclass or a TypedDict"
INSTEAD: Mapping[object, str] = {  # what people write first -> what can be sent
    Any: "the type that the function needs, such as str or dict[str, str]",
    object: "the type that the function needs, such as str or dict[str, str]",
    list: "what it holds: list[str]",
    tuple: "what it holds: tuple[int, ...]",
    set: "what it holds: set[str]",
    dict: "what it holds: dict[str, str]",
    bytes: "str, in Base64 if need be",
    pathlib.Path: "str, and make a Path of it in the function",
    decimal.Decimal: "str, and make a Decimal of it in the function",
    datetime.timedelta: "float, in seconds",
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
    """Drop each property whose null the schema does not allow: it stands for one left out. 1.0 for an integer is 1."""
    if not isinstance(schema, Mapping):  # true and false are schemas, too
        return value
    properties, items = schema.get("properties"), schema.get("items")
    if isinstance(value, Mapping):
        named: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        needed, other = schema.get("required", ()), schema.get("additionalProperties", {})
        return {
            name: drop_nulls(each, named.get(name, other))
            for name, each in value.items()
            if each is not None or name not in named or name in needed or _may_be_null(named[name])
        }
    if isinstance(value, list) and isinstance(items, Mapping):
        return [drop_nulls(each, items) for each in value]
    arms = schema.get("anyOf")
    kinds = [each for each in arms if isinstance(each, Mapping)] if isinstance(arms, list) else [schema]
    fits = [each for each in kinds if each.get("type") == _KINDS.get(type(value))]
    if isinstance(arms, list) and len(fits) == 1:
        return drop_nulls(value, fits[0])
    if isinstance(value, float) and value.is_integer() and not fits and any(e.get("type") == "integer" for e in kinds):
        return int(value)
    return value


_KINDS = {dict: "object", list: "array", float: "number"}
