"""Which type hints a tool may have, and the schemas that they become."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import pytest

from src.providers.vllm import fits_openai_strict
from src.tools import Registry, ToolContext
from src.tools.sdk.schema import convert_hint, to_strict
from src.types.messages import ToolCall
from src.types.tool_schema import describe_type, format_signature

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
    assert convert_hint(hint).schema == schema
    assert name is None or describe_type(schema) == name


REFUSED = [
    Any, object, None, bytes, set, Path, list, dict, tuple[int, ...], list[bytes], dict[int, str], int | str,
    Union[int, str, None], Literal[1, "a"], Literal[None], Annotated[str, 5], Annotated[str, "a", "b"], "no hint",
]  # fmt: skip


@pytest.mark.parametrize("hint", REFUSED, ids=str)
def test_any_other_hint_is_refused(hint):
    with pytest.raises(TypeError):
        convert_hint(hint)


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


def test_a_parameter_that_defaults_to_none_is_described_as_a_plain_optional_one():
    schema = Registry().tool(optional).definition.parameters
    assert schema["properties"]["limit"] == {"type": "integer", "description": "How many"}


def test_a_default_of_none_makes_it_optional_whatever_the_hint_says():
    def find(limit: int = None) -> str:  # noqa: RUF013 - as people write it
        """Find it."""
        return str(limit)

    schema = Registry().tool(find).definition.parameters
    assert (schema["properties"]["limit"], schema.get("required", [])) == ({"type": "integer"}, [])


def test_the_signature_reads_as_a_person_would_write_it():
    tool = Registry().tool(optional)
    assert tool.signature == "optional(path: string, offset?: integer, limit?: integer)"
    assert Registry().tool(nullable).signature == "nullable(value: integer | null, other?: integer | null)"
    assert format_signature("done", {}) == "done()"


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


ENTRY = {"type": "object", "properties": {"a": {"enum": ["x", 1]}, "b": {}}, "required": ["a"]}
FOREIGN = [  # schemas as other people write them
    (ENTRY, '{a: "x" | 1, b?: any}'),
    ({"type": "array", "items": ENTRY}, 'array of {a: "x" | 1, b?: any}'),
    ({"type": "object", "properties": {"inner": ENTRY}}, "{inner?: object}"),
    ({"type": ["string", "null"]}, "string | null"),
    ({"type": "object", "properties": {}}, "object"),
    ({"type": "array"}, "array"),
    ({"type": "string", "enum": []}, "string"),
    ({"type": "object", "properties": 5, "required": 5}, "object"),
    (True, "any"),
    ({}, "any"),
]


@pytest.mark.parametrize(("schema", "name"), FOREIGN, ids=[row[1] for row in FOREIGN])
def test_any_schema_can_be_read_by_a_person(schema, name):
    assert describe_type(schema) == name


def test_the_context_is_injected_and_not_described(tmp_path):
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
def test_a_function_that_cannot_be_described_is_refused_by_name(function):
    with pytest.raises(TypeError, match=function.__name__):
        Registry().tool(function)


class Place(TypedDict):
    """Where something is."""

    city: Annotated[str, "Its name"]
    floor: int


class Search(Place, total=False):
    """More keys that may be left out."""

    radius: float


@dataclass
class Parcel:
    """What is sent."""

    weight: float
    labels: list[str] = field(default_factory=list)
    note: str | None = None
    secret: str = field(default="", init=False)


@dataclass
class Chain:
    """A type that holds itself."""

    following: Chain | None = None


def send(parcel: Parcel, to: list[Place], search: Search) -> str:
    """Show."""
    return repr((parcel, to, search))


class TestObjects:
    def test_a_typed_dict_is_an_object_with_its_keys(self):
        assert convert_hint(Search).schema == {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name"},
                "floor": {"type": "integer"},
                "radius": {"type": "number"},
            },
            "required": ["city", "floor"],
            "additionalProperties": False,
        }

    def test_a_dataclass_is_an_object_with_what_it_is_made_from(self):
        schema = convert_hint(Parcel).schema
        assert list(schema["properties"]) == ["weight", "labels", "note"]
        assert schema["required"] == ["weight"]
        assert schema["properties"]["note"] == STRING

    def test_values_arrive_as_what_the_hints_promise(self, tmp_path):
        registry = Registry()
        registry.tool(send)
        arguments = {
            "parcel": {"weight": 2, "note": None},
            "to": [{"city": "Ulm", "floor": 1.0}],
            "search": {"city": "Ulm", "floor": 2, "radius": 3},
        }
        value = registry.run(ToolCall("1", "send", arguments), ToolContext(tmp_path)).value
        assert value == repr((Parcel(2.0), [{"city": "Ulm", "floor": 1}], {"city": "Ulm", "floor": 2, "radius": 3.0}))

    def test_what_is_wrong_in_one_is_named_by_its_place(self, tmp_path):
        registry = Registry()
        registry.tool(send)
        place = {"city": "Ulm", "floor": 1}
        arguments = {"parcel": {"weight": "2"}, "to": [place], "search": place}
        said = registry.run(ToolCall("1", "send", arguments), ToolContext(tmp_path)).value
        assert 'parcel.weight: expected number, got string "2"' in said

    def test_a_type_that_holds_itself_is_refused(self):
        def follow(chain: Chain) -> str:
            """Follow."""
            return ""

        with pytest.raises(TypeError, match=r"follow\(chain\): the type holds itself"):
            Registry().tool(follow)


class TestStrict:
    def test_every_property_is_required_and_null_stands_for_left_out(self):
        definition = Registry().tool(optional).definition
        strict = definition.strict_parameters
        assert strict["required"] == ["path", "offset", "limit"]
        assert strict["properties"]["path"] == STRING
        assert strict["properties"]["offset"] == {"anyOf": [INTEGER, NULL]}
        assert strict["properties"]["limit"] == {"anyOf": [INTEGER, NULL], "description": "How many"}
        assert not fits_openai_strict(definition.parameters)
        assert fits_openai_strict(strict)

    def test_what_may_be_null_stays_as_it_is(self):
        assert Registry().tool(nullable).definition.strict_parameters["properties"]["other"] == {
            "anyOf": [INTEGER, NULL]
        }

    def test_it_holds_at_any_depth(self):
        assert fits_openai_strict(Registry().tool(send).definition.strict_parameters)
        assert to_strict(convert_hint(list[Parcel]).schema)["items"]["required"] == ["weight", "labels", "note"]

    def test_a_call_made_by_it_runs(self, tmp_path):
        registry = Registry()
        registry.tool(send)
        place = {"city": "Ulm", "floor": 1}
        arguments = {
            "parcel": {"weight": 2, "labels": None, "note": None},
            "to": [place],
            "search": {**place, "radius": None},
        }
        value = registry.run(ToolCall("1", "send", arguments), ToolContext(tmp_path)).value
        assert value == repr((Parcel(2.0), [place], place))
