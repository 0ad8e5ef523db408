"""Arguments of native calls: what is fitted, and what is left as the model wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fastjsonschema import JsonSchemaValueException, compile
from hypothesis import given
from hypothesis import strategies as st

from src.parsing.arguments.indexed_tool import IndexedTool
from src.parsing.arguments.native import NativeFitter, count_fitted, fit_inner, fit_native
from src.parsing.arguments.tool_index import ToolIndex
from src.types.messages import CALL_TOOL, ToolCall, ToolDefinition
from tests.each import check_rows

STRING, INTEGER, NUMBER, BOOLEAN, NULL, OBJECT = (
    {"type": kind} for kind in ("string", "integer", "number", "boolean", "null", "object")
)
STRINGS = {"type": "array", "items": STRING}
INTEGERS = {"type": "array", "items": INTEGER}
OBJECTS = {"type": "array", "items": OBJECT}
EDIT = {"type": "object", "properties": {"old": STRING, "count": INTEGER}, "required": ["old"]}
EDITS = {"type": "array", "items": EDIT}
MERGE = {"type": "object", "properties": {"id": INTEGER}, "required": ["id"]}
UNIT = {"type": "string", "enum": ["celsius", "kelvin"]}

FITTED: dict[str, tuple[Any, Any, Any]] = {
    "a string for an integer": (INTEGER, "5", 5),
    "a negative one": (INTEGER, "-3", -3),
    "a string for a number": (NUMBER, "2.5", 2.5),
    "a string for a boolean": (BOOLEAN, "true", True),
    "a string for a boolean as Python writes it": (BOOLEAN, "False", False),
    "zero for a boolean": (BOOLEAN, 0, False),
    "an integer for a string": (STRING, 5, "5"),
    "a boolean for a string": (STRING, True, "true"),
    "an object for a string": (STRING, {"a": [1]}, '{"a": [1]}'),
    "the string null where null may be": ({"type": ["integer", "null"]}, "null", None),
    "a list in a string": (STRINGS, '["a", "b"]', ["a", "b"]),
    "an empty list in a string": (STRINGS, "[]", []),
    "a list in a string as Python writes it": (STRINGS, "['a', 'b']", ["a", "b"]),
    "an object in a string": (OBJECT, '{"a": 1}', {"a": 1}),
    "an object in a string as Python writes it": (OBJECT, "{'a': True}", {"a": True}),
    "objects in a string": (EDITS, '[{"old": "a"}]', [{"old": "a"}]),
    "objects in a string, with a number in a string": (
        EDITS,
        '[{"old": "a", "count": "2"}]',
        [{"old": "a", "count": 2}],
    ),
    "one string for a list": (STRINGS, "a.txt", ["a.txt"]),
    "one integer for a list": (INTEGERS, 5, [5]),
    "one integer in a string for a list": (INTEGERS, "5", [5]),
    "one object for a list": (OBJECTS, {"a": 1}, [{"a": 1}]),
    "one object for a list of objects with members": (EDITS, {"old": "a", "count": "2"}, [{"old": "a", "count": 2}]),
    "items of a list": (INTEGERS, ["1", 2], [1, 2]),
    "a member of an object": (EDIT, {"old": "a", "count": "2"}, {"old": "a", "count": 2}),
    "a member of an object in a list": (EDITS, [{"old": "a", "count": "2"}], [{"old": "a", "count": 2}]),
    "a member of a kind that all have": ({"type": "object", "additionalProperties": INTEGER}, {"a": "1"}, {"a": 1}),
    "a list of one for an integer": (INTEGER, ["5"], 5),
    "an object about the value": (INTEGER, {"value": 5}, 5),
    "one of several types": ({"anyOf": [INTEGER, NULL]}, "7", 7),
    "a list or nothing": ({"anyOf": [STRINGS, NULL]}, '["a"]', ["a"]),
    "a choice in other case": (UNIT, "Celsius", "celsius"),
    "a choice of numbers": ({"type": "integer", "enum": [1, 2]}, "2", 2),
    "a choice of numbers without a type": ({"enum": [1, 2]}, "2", 2),
    "choices in one string": ({"type": "array", "items": UNIT}, "kelvin, celsius", ["kelvin", "celsius"]),
    "a type by reference": ({"$ref": "#/$defs/count"}, "4", 4),
}

UNTOUCHED: dict[str, tuple[Any, Any]] = {
    "a string where any value may stand": ({}, "5"),
    "a string where a string may stand": ({"type": ["string", "integer"]}, "5"),
    "a string where one of the types is a string": ({"anyOf": [INTEGER, STRING]}, "5"),
    "JSON in a string": (STRING, '{"a": 1}'),
    "a whole number with a point": (INTEGER, 5.0),
    "an integer for a number": (NUMBER, 5),
    "a zip code": (STRING, "02134"),
    "a word for an integer": (INTEGER, "five"),
    "a fraction for an integer": (INTEGER, "5.5"),
    "a number or a boolean": ({"type": ["integer", "boolean"]}, "1"),
    "a number or a list of strings": ({"anyOf": [INTEGER, STRINGS]}, "5"),
    "words for a string: lines, or one line": (STRING, ["a", "b"]),
    "one word in a list for a string": (STRING, ["a"]),
    "a fraction for a string, which may have been 1.10": (STRING, 1.1),
    "a list in a string that does not end": (STRINGS, '["a", "b"'),
    "a pattern in brackets for a list": (STRINGS, "[a-z]+"),
    "an object in a string with a key twice": (OBJECT, '{"a": 1, "a": 2}'),
    "an object that lacks a member": (EDIT, '{"count": 1}'),
    "an object where a list is not said to hold objects": (INTEGERS, {"a": 1}),
    "null for an integer": (INTEGER, None),
    "null for a list": (STRINGS, None),
    "another choice": (UNIT, "rankine"),
    "a type that nobody knows": ({"type": "date"}, 5),
    "a reference that leads nowhere": ({"$ref": "#/$defs/none"}, "5"),
    "a schema that refers to itself": ({"$ref": "#/$defs/loop"}, "5"),
    "a choice that is none of some types": ({"enum": ["a", 5, None]}, 0),
}


def make_tool(schema: Any, name: str = "x") -> IndexedTool:
    definitions = {"count": INTEGER, "loop": {"anyOf": [{"$ref": "#/$defs/loop"}]}}
    return IndexedTool("t", {"type": "object", "properties": {name: schema}, "$defs": definitions})


def fit(schema: Any, value: Any) -> ToolCall:
    return fit_native(ToolCall("1", "t", {"x": value}), make_tool(schema))


@check_rows("schema, given, fitted", FITTED.values())
def test_a_value_that_the_schema_refuses_is_read_as_the_schema_says(schema, given, fitted):
    call = fit(schema, given)
    assert json.dumps(call.arguments["x"]) == json.dumps(fitted)
    assert count_fitted([call]) >= 1
    assert json.loads(call.written) == {"x": given}


@check_rows("schema, given", UNTOUCHED.values())
def test_a_value_stays_that_is_accepted_or_has_no_single_reading(schema, given):
    call = ToolCall("1", "t", {"x": given})
    assert fit_native(call, make_tool(schema)) is call


def test_the_change_names_the_parameter_and_the_types():
    assert fit(EDITS, [{"old": "a", "count": "2"}]).repaired == ("fitted x[0].count: string to integer",)


def test_what_the_model_wrote_stays_as_it_wrote_it():
    written = '{"x":"5"}'
    call = ToolCall("1", "t", {"x": "5"}, written=written)
    assert fit_native(call, make_tool(INTEGER)).written == written


@pytest.mark.parametrize("given", ["[" * 5000, "{" * 5000, "[" * 5000 + "]" * 5000])
def test_a_string_of_many_brackets_is_left_alone(given):
    assert fit(STRINGS, given).arguments == {"x": given}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from([1.5, 2.0]) | st.sampled_from(
        ["", "a", "5", "-1", "2.5", "true", "null", "[]", '["a"]', '{"old": "a"}', "celsius", "Celsius"]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["old", "count", "value"]), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
PLAIN = st.sampled_from(
    [
        {},
        STRING,
        INTEGER,
        NUMBER,
        BOOLEAN,
        NULL,
        OBJECT,
        UNIT,
        EDIT,
        {"enum": ["a", 5, None]},
        {"type": ["integer", "null"]},
    ]
)
SCHEMAS = st.recursive(
    PLAIN,
    lambda inner: (
        st.builds(lambda items: {"type": "array", "items": items}, inner)
        | st.builds(lambda options: {"anyOf": options}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda member: {"type": "object", "properties": {"old": member}}, inner)
    ),
    max_leaves=4,
)


@given(SCHEMAS, VALUES)
def test_a_value_that_the_schema_accepts_is_never_touched_and_what_is_fitted_is_accepted(schema, value):
    check = compile(schema)
    fitted = NativeFitter(make_tool(schema)).fit(value, schema)
    try:
        check(value)
    except JsonSchemaValueException:
        if not fitted.changes:
            assert fitted.value is value
    else:
        assert fitted.value is value
        assert not fitted.changes


class TestInnerCalls:
    """Calls of tools that a prompt only names, as arguments of CALL_TOOL."""

    def fit(self, args, named_by="hub", tool="merge"):
        definition = ToolDefinition("merge", "Merge.", MERGE, named_by=named_by)
        return fit_inner(ToolCall("1", CALL_TOOL, {"tool": tool, "args": args}), ToolIndex([definition]))

    def test_they_are_fitted_to_the_tool_that_is_named(self):
        fitted = self.fit({"id": "7"})
        assert fitted.arguments == {"tool": "merge", "args": {"id": 7}}
        assert json.loads(fitted.written) == {"tool": "merge", "args": {"id": "7"}}
        assert count_fitted([fitted]) == 1

    def test_arguments_that_fit_stay_as_they_are(self):
        assert self.fit({"id": 7}).written == ""

    @pytest.mark.parametrize("others", [{"named_by": ""}, {"tool": "marge"}])
    def test_a_tool_of_that_name_that_a_client_has_is_left_alone(self, others):
        assert self.fit({"id": "7"}, **others).arguments["args"] == {"id": "7"}
