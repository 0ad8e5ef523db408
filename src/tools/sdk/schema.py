"""Type hints -> JSON Schema, for the parameters of a tool.

The dialect: str, int, float, bool, date, datetime, time, UUID, Decimal, Path, an Enum, Literal, list, tuple, set, dict,
unions, a TypedDict, a dataclass, a pydantic model, and Annotated[T, "description", limits]. Any other hint raises
TypeError when the tool is made, and says what to write instead, so that no schema says less than its function needs.
Schemas are flat, without references, titles and defaults, since small models and many chat templates cannot follow
those.

A parameter that defaults to None gets the schema of a plain optional one, since many chat templates cannot print
`T | null`; a null for it means that it is left out. msgspec converts values that fit the schema to the hint's type.
"""

from __future__ import annotations

import datetime
import decimal
import inspect
import pathlib
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

from ...types.messages import JSON
from .schema_edit import Schema, object_schema

Convert = Callable[[Any], Any]  # from a value that fits the schema to one of the hint's type; raises ValueError


def read_parameters(
    function: Callable[..., object], name: str, injected: type
) -> tuple[Schema, str, Mapping[str, Convert]]:
    """The parameters of a function as one schema, and how values that fit it become those of the hints.

    In between stands the name of the parameter of type `injected`, if there is one: it is not in the schema. Raises
    TypeError, with `name`, the tool's, and the parameter, for a hint outside the dialect.
    """
    properties: dict[str, Schema] = {}
    converts: dict[str, Convert] = {}
    required: list[str] = []
    context_parameter = ""
    for parameter in _read_signature(function, name).parameters.values():
        hint = parameter.annotation
        if injected in (hint, *get_args(hint)):  # it may be `ToolContext | None`
            context_parameter = parameter.name
            continue
        try:
            properties[parameter.name] = _describe_parameter(parameter)
        except (TypeError, NameError) as error:
            raise TypeError(f"{name}({parameter.name}): {error}") from error
        except RecursionError as error:
            raise TypeError(f"{name}({parameter.name}): the type holds itself") from error
        if (get_args(hint)[0] if get_origin(hint) is Annotated else hint) not in (str, int, bool):
            converts[parameter.name] = partial(convert, hint)
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    return object_schema(properties, required), context_parameter, converts


def _read_signature(function: Callable[..., object], name: str) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as error:
        raise TypeError(f"{name}: a type hint cannot be read: {error}; define it outside of functions") from error
    except (SyntaxError, AttributeError) as error:
        way_out = 'write Annotated[str, "description"] for a description'
        raise TypeError(f"{name}: a type hint cannot be read: {error}; {way_out}") from error


def _describe_parameter(parameter: inspect.Parameter) -> Schema:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError("a tool takes named parameters only")
    if parameter.annotation is parameter.empty:
        if parameter.name == "self":
            raise TypeError("a method becomes a tool when it belongs to an object: tool(thing.method)")
        raise TypeError("a type hint is missing")
    return _fit_default(make_schema(parameter.annotation), parameter.default)


def convert(hint: Any, value: Any) -> Any:
    """A value that fits the schema of a hint, in the hint's type. Raises ValueError."""
    return msgspec.convert(value, hint, dec_hook=_make_model)


def _make_model(kind: Any, value: Any) -> Any:
    """An object of a type of the dialect that msgspec does not know: a path or a pydantic model."""
    if isinstance(kind, type) and issubclass(kind, pathlib.PurePath):
        return kind(value)
    try:
        return kind.model_validate(value)
    except ValueError as error:
        raise ValueError(describe_model_error(error)) from error


def describe_model_error(error: Any) -> str:
    """The first of the errors in pydantic's ValidationError, with its place."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))
    return ": ".join(filter(None, [where, first["msg"]]))


def make_schema(hint: Any) -> Schema:
    """Raises TypeError for a hint outside the dialect."""
    while hasattr(hint, "__supertype__"):  # of a NewType
        hint = hint.__supertype__
    if isinstance(hint, (list, dict)):
        raise TypeError(f"{hint!r} is a value and no type; write list[str] or dict[str, str]")
    origin, arguments = get_origin(hint), get_args(hint)
    if arguments and (build := GENERICS.get(origin)):
        return build(*arguments)
    if (scalar := origin or hint) in SCALARS:  # typing.List without arguments is list
        return dict(SCALARS[scalar])
    return _from_class(hint)


def _from_class(hint: Any) -> Schema:
    if is_typeddict(hint):
        return _from_typed_dict(hint)
    if hasattr(hint, "model_json_schema"):
        return _flatten_model(hint)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _from_literal(*(each.value for each in hint))
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return _from_dataclass(hint)
    name = getattr(hint, "__name__", None) or repr(hint)
    instead = INSTEAD.get(get_origin(hint) or hint, DIALECT)
    raise TypeError(f"a model cannot send a value of the type {name}; write {instead}")


def _from_list(item: object) -> Schema:
    if item is Any:
        return {"type": "array"}
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
    if value is Any:
        return {"type": "object"}
    return {"type": "object", "additionalProperties": make_schema(value)}


def _from_literal(*values: JSON) -> Schema:
    kinds = {type(value) for value in values}
    if len(kinds) != 1 or not kinds <= {str, int, bool}:
        raise TypeError("the values of a Literal or an Enum are all strings, or all integers; write them so")
    return {**SCALARS[kinds.pop()], "enum": list(values)}


def _from_annotated(hint: object, *notes: object) -> Schema:
    """A description, and limits: objects of annotated_types, msgspec's Meta or pydantic's Field."""
    schema = make_schema(hint)
    own = [note for note in notes if isinstance(note, str)]
    descriptions = list(filter(None, [*own, *(getattr(note, "description", None) for note in notes)]))
    if len(descriptions) > 1 or not all(isinstance(text, str) for text in descriptions):
        raise TypeError("Annotated takes one description, a string")
    for note in notes:
        if not isinstance(note, str):
            for limit in getattr(note, "metadata", [note]):  # those of pydantic's Field are in its metadata
                schema |= _from_limit(limit, str(schema.get("type")))
    if descriptions:
        schema["description"] = descriptions[0]
    return schema


def _from_limit(limit: object, kind: str) -> Schema:
    """The keywords for a limit of a value of this kind. Raises TypeError for one that would not be checked."""
    limits = {name: getattr(limit, name, None) for name in (*NUMBER_LIMITS, *LENGTH_LIMITS)}
    keywords = NUMBER_LIMITS if kind in ("integer", "number") else LENGTH_LIMITS
    size = {"string": "Length", "array": "Items"}.get(kind, "")
    keyword_values: Schema = {}
    for name, value in limits.items():
        if value is None or (name == "min_length" and value == 0):
            continue
        if name not in keywords or (keywords is LENGTH_LIMITS and not size):
            raise TypeError(f"{name} is no limit of a {kind}; check it in the function")
        keyword_values[keywords[name] + size] = value
    if not keyword_values and not getattr(limit, "description", None):
        raise TypeError("Annotated takes one description, a string, and limits such as Field(gt=0)")
    return keyword_values


def _from_union(*arms: object) -> Schema:
    """The types differ in JSON, so that a value shows which of them is meant."""
    types_but_none = [arm for arm in arms if arm is not type(None)]
    schemas = list(map(make_schema, types_but_none))
    kinds = [schema.get("type") for schema in schemas]
    for kind in kinds:
        if kinds.count(kind) > 1:
            names = " and ".join(getattr(arm, "__name__", str(arm)) for arm in types_but_none)
            raise TypeError(f"{names} look the same in JSON, where two of them are of the type {kind}; write one")
    if any(hasattr(arm, "model_json_schema") for arm in arms) and len(schemas) > 1:
        raise TypeError("a pydantic model stands in no union but with None; write one type")
    if len(schemas) < len(arms):
        schemas.append({"type": "null"})
    return {"anyOf": [*schemas]}


def _from_typed_dict(kind: Any) -> Schema:
    properties = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        # Required and NotRequired, of typing or of typing_extensions
        is_wrapped = str(getattr(get_origin(hint), "_name", "")).endswith("Required")
        properties[name] = make_schema(get_args(hint)[0] if is_wrapped else hint)
    return object_schema(properties, [name for name in properties if name in kind.__required_keys__])


def _from_dataclass(kind: Any) -> Schema:
    from dataclasses import MISSING, fields  # no tool of ours has one, and start-up is measured

    own_hints = [hint for each in kind.__mro__ for hint in vars(each).get("__annotations__", {}).values()]
    if hasattr(kind, "__pydantic_validator__") or any("InitVar" in str(hint) for hint in own_hints):
        raise TypeError(f"{kind.__name__} is no plain dataclass; write one of plain fields, or a pydantic BaseModel")
    hints = get_type_hints(kind, include_extras=True)
    properties: dict[str, Schema] = {}
    required = []
    for each in fields(kind):
        if each.init:
            properties[each.name] = _fit_default(make_schema(hints[each.name]), each.default)
            if each.default is each.default_factory is MISSING:
                required.append(each.name)
    return object_schema(properties, required)


def _fit_default(schema: Schema, default: object) -> Schema:
    """The schema of what may be left out: without null, if that is the default."""
    if default is not None:
        return schema
    match schema:
        case {"anyOf": [dict(some), {"type": "null"}], **rest}:
            return some | rest
        case {"anyOf": [*some, {"type": "null"}], **rest}:
            return {"anyOf": some, **rest}
        case _:
            return schema


def _flatten_model(model: Any) -> Schema:
    """The schema of a pydantic model in the dialect: references become what they stand for."""
    schema = model.model_json_schema()
    flat = _flatten(schema, schema.get("$defs", {}), ())
    if not flat.get("properties"):
        raise TypeError(f"{model.__name__} has no fields of a JSON object; write a model with fields")
    return flat


def _flatten(schema: Mapping[str, Any], kinds: Mapping[str, Any], inside: Sequence[str]) -> Schema:
    if reference := str(schema.get("$ref", "")).rpartition("/")[2]:
        if inside.count(reference) >= MAX_NESTED:  # what is deeper is checked by the model alone
            return {"type": kinds[reference].get("type", "object")}
        schema = {**kinds[reference], **schema}
        inside = [*inside, reference]
    flatten = partial(_flatten, kinds=kinds, inside=inside)
    flat: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            flat[key] = dict(zip(value, map(flatten, value.values()), strict=True))
        elif key in ("anyOf", "oneOf"):
            flat["anyOf"] = [*map(flatten, value)]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            flat[key] = flatten(value)
        elif key == "prefixItems":
            flat |= _fix_length([*map(flatten, value)])
        elif key == "const":
            flat["enum"] = [value]
        elif key not in ("$ref", "$defs", "title", "default", "uniqueItems", "discriminator"):
            flat[key] = value
    if "properties" in flat:
        flat = {"required": [], "additionalProperties": False, **flat}
    return _fit_default(flat, schema.get("default", ...))


MAX_NESTED = 3  # times that a model which holds itself is written out
NUMBER_LIMITS: Mapping[str, str] = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
}
LENGTH_LIMITS: Mapping[str, str] = {"min_length": "min", "max_length": "max"}
SCALARS: Mapping[object, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    datetime.date: {"type": "string", "format": "date"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    datetime.time: {"type": "string", "format": "time"},
    uuid.UUID: {"type": "string", "format": "uuid"},
    decimal.Decimal: {"type": "number"},
    pathlib.Path: {"type": "string"},
    list: {"type": "array"},
    dict: {"type": "object"},
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
    tuple: "what it holds: tuple[int, ...]",
    set: "what it holds: set[str]",
    bytes: "str, in Base64 if need be",
    datetime.timedelta: "float, in seconds",
}
