"""A tool's signature for people and models, and its entry for OpenAI's `tools`."""

import pytest

from src.types.messages import ToolDefinition
from src.types.tool_schema import describe_type, format_signature, to_openai_tool
from tests.each import check_rows

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
    "required": ["path"],
}


def test_optional_parameters_have_a_question_mark():
    assert format_signature("read", PARAMETERS) == "read(path: string, n?: integer)"


@pytest.mark.parametrize("parameters", [{}, {"properties": []}, {"properties": {}, "required": None}])
def test_a_signature_without_parameters_is_empty(parameters):
    assert format_signature("now", parameters) == "now()"


@check_rows(
    "schema, name",
    [
        ({"enum": ["a", 1]}, '"a" | 1'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": PARAMETERS}, "array of {path: string, n?: integer}"),
        ({"type": "object", "properties": {"inner": PARAMETERS}}, "{inner?: object}"),
        ({"type": "object"}, "object"),
        ({}, "any"),
        (None, "any"),
    ],
)
def test_the_name_of_a_type(schema, name):
    assert describe_type(schema) == name


@pytest.mark.parametrize("strict", [False, True])
def test_strict_is_sent_only_if_it_is_asked_for(strict):
    entry = to_openai_tool(ToolDefinition("read", "Read.", PARAMETERS, strict))
    expected = {"name": "read", "description": "Read.", "parameters": PARAMETERS}
    assert entry == {"type": "function", "function": expected | ({"strict": True} if strict else {})}
