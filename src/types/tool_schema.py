"""A tool as text and as an entry of OpenAI's `tools`. Pure functions of JSON Schemas."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .messages import JSON, ToolDefinition

SHOWN_FORMATS = ("date", "date-time", "time")


def to_openai_tool(tool: ToolDefinition) -> dict[str, JSON]:
    """The definition as an entry of OpenAI's `tools`, in TOOL_DEFINITIONS and in a request."""
    function: dict[str, JSON] = {
        "name": tool.name,
        "description": tool.description,
        "parameters": dict(tool.parameters),
    }
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def to_strict(schema: Mapping[str, JSON]) -> dict[str, JSON]:
    """The schema for OpenAI's strict mode, in which every property is required: null stands for one left out."""
    strict = dict(schema)
    properties, required = schema.get("properties"), schema.get("required")
    if isinstance(properties, dict):
        strict_properties: dict[str, JSON] = {}
        for name, each in properties.items():
            inner = to_strict(each if isinstance(each, dict) else {})
            if not (isinstance(required, list) and name in required):
                inner = _add_null(inner)
            strict_properties[name] = inner
        strict["properties"], strict["required"] = strict_properties, list(properties)
    if isinstance(items := schema.get("items"), dict):
        strict["items"] = to_strict(items)
    if isinstance(arms := schema.get("anyOf"), list):
        strict["anyOf"] = [to_strict(each) if isinstance(each, dict) else each for each in arms]
    return strict


def _add_null(schema: dict[str, JSON]) -> dict[str, JSON]:
    if may_be_null(schema):
        return schema
    described = {"description": schema["description"]} if "description" in schema else {}
    some: dict[str, JSON] = {name: value for name, value in schema.items() if name != "description"}
    return {"anyOf": [some, {"type": "null"}], **described}


def may_be_null(schema: object) -> bool:
    """Whether the schema allows null."""
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    return kind is None or kind == "null" or (isinstance(kind, list) and "null" in kind)


def format_definition(tool: ToolDefinition) -> str:
    """The definition as one line of JSON, for a model that is told of it in the conversation."""
    shown = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return json.dumps(shown, ensure_ascii=False)


def format_signature(name: str, parameters: Mapping[str, Any]) -> str:
    """A tool's signature, for people and models: `read(path: string, offset?: integer)`. Takes any JSON Schema."""
    return f"{name}({_format_fields(parameters, 1)})"


def describe_type(schema: object, depth: int = 1) -> str:
    """The type that a JSON Schema describes: `"a" | "b"`, `array of {content: string, done?: boolean}`.

    `depth`: how many levels of nested objects list their fields.
    """
    match schema:
        case {"enum": [_, *_] as choices}:
            return " | ".join(json.dumps(choice, ensure_ascii=False) for choice in choices)
        case {"anyOf": [_, *_] as arms}:
            return " | ".join(describe_type(arm, depth) for arm in arms)
        case {"type": "array", "items": items}:
            return f"array of {describe_type(items, depth)}"
        case {"type": "object", **rest} if depth and (fields := _format_fields(rest, depth - 1)):
            return f"{{{fields}}}"
        case {"type": kind, **rest}:
            return _describe_kind(kind, rest.get("format"))
    return "any"


def _describe_kind(kind: object, form: object) -> str:
    if isinstance(kind, list):
        return " | ".join(map(str, kind))
    return f"{kind} ({form})" if form in SHOWN_FORMATS else str(kind)


def _format_fields(schema: Mapping[Any, Any], depth: int) -> str:
    fields, needed = schema.get("properties"), schema.get("required")
    if not isinstance(fields, Mapping):
        return ""
    if not isinstance(needed, list):
        needed = []
    return ", ".join(
        f"{key}{'' if key in needed else '?'}: {describe_type(value, depth)}" for key, value in fields.items()
    )
