"""A table of schemas and what is left of each for Gemini."""

from src.providers.gemini.schema import reduce_schema
from src.tools import REGISTRY
from tests.each import check_rows

STRING = {"type": "STRING"}
TREE = {
    "$ref": "#/$defs/Node",
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "name": {"type": "string"}}}},
}

SCHEMAS = {
    "a word": ({"type": "string"}, STRING),
    "nothing said": ({}, STRING),
    "an unknown type": ({"type": "tuple"}, STRING),
    "what Gemini knows is kept": (
        {"type": "integer", "description": "How many", "minimum": 0, "maximum": 9, "title": "N"},
        {"type": "INTEGER", "description": "How many", "minimum": 0, "maximum": 9, "title": "N"},
    ),
    "what it does not know goes": (
        {"type": "object", "$schema": "x", "additionalProperties": False, "default": {}, "examples": [1], "x-y": 1},
        {"type": "OBJECT"},
    ),
    "properties and those required that there are": (
        {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a", "b", "a"]},
        {"type": "OBJECT", "properties": {"a": {"type": "BOOLEAN"}}, "required": ["a"]},
    ),
    "an object of no properties": ({"type": "object", "properties": {}, "required": ["a"]}, {"type": "OBJECT"}),
    "a type is implied": (
        {"properties": {"a": {"items": {"enum": ["x"]}}}},
        {
            "type": "OBJECT",
            "properties": {"a": {"type": "ARRAY", "items": {"type": "STRING", "enum": ["x"], "format": "enum"}}},
        },
    ),
    "a list needs items": ({"type": "array"}, {"type": "ARRAY", "items": STRING}),
    "a list's bounds": (
        {"type": "array", "items": {"type": "number"}, "minItems": 1, "uniqueItems": True},
        {"type": "ARRAY", "items": {"type": "NUMBER"}, "minItems": 1},
    ),
    "a constant": ({"const": "x"}, {"type": "STRING", "enum": ["x"], "format": "enum"}),
    "an enum of numbers": ({"type": "integer", "enum": [1, 2]}, {"type": "INTEGER"}),
    "an enum with what is no word": ({"enum": ["a", None]}, STRING),
    "a format it takes": ({"type": "number", "format": "double"}, {"type": "NUMBER", "format": "double"}),
    "a format it refuses": ({"type": "string", "format": "uri"}, STRING),
    "a type or null": (
        {"type": ["integer", "null"], "minimum": 1},
        {"type": "INTEGER", "minimum": 1, "nullable": True},
    ),
    "one type in a list": ({"type": ["integer"]}, {"type": "INTEGER"}),
    "two types": (
        {"type": ["integer", "string"], "description": "d"},
        {"description": "d", "anyOf": [{"type": "INTEGER"}, STRING]},
    ),
    "two types or null, one with a shape": (
        {"type": ["array", "string", "null"], "items": {"type": "number"}},
        {"anyOf": [{"type": "ARRAY", "items": {"type": "NUMBER"}}, STRING], "nullable": True},
    ),
    "null alone": ({"type": ["null"]}, {"type": "STRING", "nullable": True}),
    "an optional, as pydantic says it": (
        {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "title": "Limit"},
        {"title": "Limit", "type": "INTEGER", "nullable": True},
    ),
    "oneOf": ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [STRING, {"type": "INTEGER"}]}),
    "a choice that only narrows an object": (
        {"type": "object", "properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"type": "OBJECT", "properties": {"a": STRING, "b": STRING}},
    ),
    "a reference": (
        {"properties": {"a": {"$ref": "#/$defs/A", "description": "ours"}}, "$defs": {"A": {"type": "integer"}}},
        {"type": "OBJECT", "properties": {"a": {"description": "ours", "type": "INTEGER"}}},
    ),
    "a reference with escapes": (
        {"items": {"$ref": "#/definitions/a~1b~0c"}, "definitions": {"a/b~c": {"type": "boolean"}}},
        {"type": "ARRAY", "items": {"type": "BOOLEAN"}},
    ),
    "a reference to nothing": ({"$ref": "#/$defs/Gone"}, STRING),
    "a reference out of the schema": ({"$ref": "https://example.org/schema.json"}, STRING),
    "a reference to the schema itself": (
        {"type": "object", "properties": {"child": {"$ref": "#"}}},
        {
            "type": "OBJECT",
            "properties": {"child": {"type": "OBJECT", "properties": {"child": {"type": "OBJECT"}}}},
        },
    ),
    "what refers to itself ends": (
        TREE,
        {"type": "OBJECT", "properties": {"next": {"type": "OBJECT"}, "name": STRING}},
    ),
    "allOf is merged": (
        {
            "allOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"b": {"type": "string"}}, "required": ["b"], "description": "theirs"},
            ],
            "description": "ours",
        },
        {
            "type": "OBJECT",
            "description": "ours",
            "properties": {"b": STRING, "a": {"type": "INTEGER"}},
            "required": ["b", "a"],
        },
    ),
    "what is no schema": (
        {"type": "object", "properties": {"a": True, "b": 3}},
        {"type": "OBJECT", "properties": {"a": STRING, "b": STRING}},
    ),
}


@check_rows("schema, expected", SCHEMAS.values())
def test_a_schema_is_reduced_to_what_gemini_accepts(schema, expected):
    assert reduce_schema(schema) == expected


@check_rows("tool", list(REGISTRY))
def test_no_parameter_of_our_own_tools_is_lost(tool):
    given = tool.definition.parameters
    sent = reduce_schema(given)
    assert sent.get("properties", {}).keys() == given["properties"].keys()
    assert sent.get("required", []) == given["required"]
