"""Which type hints a tool may have, and what a model is told of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

import pytest

from src.messages import ToolCall
from src.tools import Registry, ToolContext
from src.tools.schema import of_hint, signature, type_name

STRING, INTEGER, NULL = {"type": "string"}, {"type": "integer"}, {"type": "null"}

HINTS = [
    (str, STRING, "string"),
    (int, INTEGER, "integer"),
    (float, {"type": "number"}, "number"),
    (bool, {"type": "boolean"}, "boolean"),
    (list[str], {"type": "array", "items": STRING}, "array of string"),
    (list[list[int]], {"type": "array", "items": {"type": "array", "items": INTEGER}}, "array of array of integer"),
    (dict[str, int], {"type": "object", "additionalProperties": INTEGER}, "object"),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, '"a" | "b"'),
    (Literal[1, 2], {"type": "integer", "enum": [1, 2]}, "1 | 2"),
    (int | None, {"anyOf": [INTEGER, NULL]}, "integer | null"),
    (
        Optional[str],  # noqa: UP045 - it is written so, too
        {"anyOf": [STRING, NULL]},
        "string | null",
    ),
    (Annotated[str, "A name"], {"type": "string", "description": "A name"}, "string"),
    (list[Annotated[str, "A name"]], {"type": "array", "items": {"type": "string", "description": "A name"}}, None),
]


@pytest.mark.parametrize(("hint", "schema", "name"), HINTS, ids=[str(row[0]) for row in HINTS])
def test_a_type_hint_has_one_schema_and_one_name(hint, schema, name):
    assert of_hint(hint) == schema
    assert name is None or type_name(schema) == name


REFUSED = [
    Any, object, None, bytes, set, Path, list, dict, tuple[int, ...], list[bytes], dict[int, str], int | str,
    Union[int, str, None], Literal[1, "a"], Literal[None], Annotated[str, 5], Annotated[str, "a", "b"], "no hint",
]  # fmt: skip


@pytest.mark.parametrize("hint", REFUSED, ids=str)
def test_any_other_hint_is_refused(hint):
    with pytest.raises(TypeError):
        of_hint(hint)


def optional(path: str, offset: int = 1, limit: Annotated[int | None, "How many"] = None) -> str:
    """Show."""
    return json.dumps([path, offset, limit])


def nullable(value: int | None, other: int | None = 5) -> str:
    """Show."""
    return json.dumps([value, other])


def keyword(ctx: ToolContext, *, flag: bool = False) -> bool:
    """Show."""
    return flag


def test_what_has_no_default_is_required_and_nothing_else_is_allowed():
    schema = Registry().tool(optional).definition.parameters
    assert schema["required"] == ["path"]
    assert schema["additionalProperties"] is False


def test_a_parameter_that_defaults_to_none_is_told_as_a_plain_optional_one():
    schema = Registry().tool(optional).definition.parameters
    assert schema["properties"]["limit"] == {"type": "integer", "description": "How many"}


def test_the_signature_reads_as_a_person_would_write_it():
    tool = Registry().tool(optional)
    assert tool.signature == "optional(path: string, offset?: integer, limit?: integer)"
    assert Registry().tool(nullable).signature == "nullable(value: integer | null, other?: integer | null)"
    assert signature("done", {}) == "done()"


NULLS = [
    (optional, {"path": "a", "offset": None, "limit": None}, '["a", 1, null]'),
    (nullable, {"value": None, "other": None}, "[null, null]"),
    (nullable, {"value": None}, "[null, 5]"),
]


@pytest.mark.parametrize(("function", "arguments", "value"), NULLS)
def test_a_null_means_left_out_where_the_parameter_cannot_be_null(function, arguments, value, tmp_path):
    registry = Registry()
    registry.tool(function)
    result = registry.run(ToolCall("1", function.__name__, arguments), ToolContext(tmp_path))
    assert (result.kind, result.value) == ("text", value)


def test_the_context_is_injected_and_not_told_of(tmp_path):
    registry = Registry()
    tool = registry.tool(keyword)
    assert list(tool.definition.parameters["properties"]) == ["flag"]
    assert registry.run(ToolCall("1", "keyword", {"flag": True}), ToolContext(tmp_path)).value is True


def starred(*paths: str) -> str:
    """Show."""
    return ""


def double_starred(**paths: str) -> str:
    """Show."""
    return ""


def positional(path: str, /) -> str:
    """Show."""
    return ""


def unhinted(path) -> str:
    """Show."""
    return ""


def unknown_hint(path: Nowhere) -> str:  # noqa: F821 - that is the case
    """Show."""
    return ""


def undescribed(path: str) -> str:
    return ""


@pytest.mark.parametrize("function", [starred, double_starred, positional, unhinted, unknown_hint, undescribed])
def test_a_function_that_cannot_be_told_is_refused_by_name(function):
    with pytest.raises(TypeError, match=function.__name__):
        Registry().tool(function)
