import pytest

from src.providers.strictness import closed, grammatical, never
from src.tools import REGISTRY

OPEN = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
CLOSED = {**OPEN, "required": ["path", "limit"], "additionalProperties": False}


def holding(schema):
    return {"type": "object", "properties": {"one": {"type": "array", "items": schema}}}


def test_the_tools_of_this_program_can_be_pinned_on_vllm():
    assert all(grammatical(tool.parameters) for tool in REGISTRY.definitions)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "enum": ["a", "b"], "description": "One of two."},
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}], "default": None},
        {"type": ["string", "null"], "maxLength": 10},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {},
    ],
)
def test_what_a_grammar_can_hold(schema):
    assert grammatical(schema)
    assert grammatical(holding(schema))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "(?<!x)y"},
        {"type": "string", "format": "uuid"},
        {"type": "nonsense"},
        {"$ref": "#/$defs/Missing"},
        {"type": "integer", "maximum": 2**70},
        {"type": "integer", "minimum": "1"},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "number", "multipleOf": 3},
        {"anyOf": "nonsense"},
        {"properties": "nonsense"},
        "nonsense",
    ],
)
def test_what_it_cannot_wherever_it_stands(schema):
    assert not grammatical(holding(schema))
    assert not closed(holding(schema))


def test_openai_wants_every_object_to_say_all_and_to_need_all():
    assert closed(CLOSED)
    assert not closed(OPEN)
    assert not closed({**CLOSED, "required": ["path"]})
    assert not closed({**CLOSED, "properties": {**CLOSED["properties"], "limit": OPEN}})


def test_other_servers_know_of_none():
    assert not never(CLOSED)
