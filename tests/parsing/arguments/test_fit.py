"""Arguments that fit their schema, that are changed to fit, and that cannot fit."""

import pytest

from src.parsing import extract_tool_calls
from src.parsing.arguments.fit import MAX_DEPTH, ArgumentMismatch, Fitter
from src.parsing.arguments.tool_index import ToolIndex
from src.parsing.decode.json_repair import RepairReader
from src.parsing.decode.nodes import DeclaredText
from src.parsing.decode.xml import Markup
from src.types.messages import ToolDefinition
from tests.each import check_rows


def tool(required=(), closed=False, **properties):
    schema = {"type": "object", "properties": properties, "required": list(required)}
    if closed:
        schema["additionalProperties"] = False
    tool = ToolIndex([{"function": {"name": "t", "parameters": schema}}]).find("t")
    assert tool
    return tool


def fit(arguments, *positional, required=(), closed=False, lenient=True, **properties):
    fitter = Fitter(tool(required, closed, **properties), lenient=lenient)
    return fitter.fit(arguments, list(positional)), tuple(fitter.changes)


STRING, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))
STRINGS = {"type": "array", "items": STRING}

CHANGES = {
    "a string for an integer": (INTEGER, "5", 5),
    "a string for a number": (NUMBER, "2.5", 2.5),
    "a whole float for an integer": (INTEGER, 5.0, 5),
    "a string for a boolean": (BOOLEAN, "True", True),
    "a number for a string": (STRING, 5, "5"),
    "one value for a list": (STRINGS, "a", ["a"]),
    "a list written as a string": (STRINGS, '["a", "b"]', ["a", "b"]),
    "an object written as a string": ({"type": "object"}, '{"a": 1}', {"a": 1}),
    "the type's other names": ({"type": "float"}, "1e3", 1000.0),
    "one of several types": ({"anyOf": [INTEGER, {"type": "null"}]}, "7", 7),
    "a choice in other case": ({"type": "string", "enum": ["celsius", "kelvin"]}, "Celsius", "celsius"),
    "choices in one string": ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "a, b", ["a", "b"]),
    "a list of one for a string": (STRING, ["a"], "a"),
    "a list of one for an integer": (INTEGER, ["5"], 5),
    "a list of one for an object": ({"type": "object"}, [{"a": 1}], {"a": 1}),
    "an object about the value": (STRING, {"type": "string", "value": "a"}, "a"),
    "items of a list": ({"type": "array", "items": INTEGER}, ["1", 2], [1, 2]),
    "one object for a list": ({"type": "array", "items": {"type": "object"}}, {"a": 1}, [{"a": 1}]),
    "members of an object": ({"type": "object", "properties": {"n": INTEGER}}, {"n": "3"}, {"n": 3}),
}


@check_rows(
    "schema, text, fitted",
    [
        ({}, "02134", 2134),
        ({}, "[1, 2]", [1, 2]),
        ({}, "null", None),
        ({}, '{"b": ', '{"b": '),
        (STRING, "02134", "02134"),
        (STRING, '{"b":1.50}', '{"b":1.50}'),
        (STRING, "null", "null"),
        (NUMBER, "5", 5),
        (BOOLEAN, "1", True),
        (STRINGS, '["a"]', ["a"]),
        ({"type": ["string", "integer"]}, "5", 5),
        ({"type": ["string", "number"]}, "5", 5),
        ({"type": ["string", "integer"]}, "1.10", "1.10"),
        ({"anyOf": [STRING, {"type": "null"}]}, "null", None),
        ({"anyOf": [STRING, STRINGS]}, '["a"]', ["a"]),
    ],
)
def test_text_declared_to_be_no_string_is_a_value_unless_the_schema_takes_only_the_text(schema, text, fitted):
    found, _ = fit({"x": DeclaredText(text)}, x=schema)
    assert found == {"x": fitted}
    assert type(found["x"]) is type(fitted)


def test_a_declared_null_leaves_out_an_optional_parameter():
    assert fit({"x": DeclaredText("null")}, x=INTEGER) == ({}, ("x null",))
    with pytest.raises(ArgumentMismatch, match="must be integer; None was given"):
        fit({"x": DeclaredText("null")}, required=["x"], x=INTEGER)


@check_rows("schema, given, fitted", CHANGES.values())
def test_a_value_becomes_what_the_schema_asks_and_the_change_is_noted(schema, given, fitted):
    found, changes = fit({"x": given}, x=schema)
    assert found == {"x": fitted}
    assert type(found["x"]) is type(fitted)
    assert changes


@check_rows(
    "schema, value",
    [(STRING, "02134"), (NUMBER, 5), (INTEGER, 2**70), ({}, [1, "a"]), (STRINGS, []), (STRING, "1,000")],
)
def test_what_fits_is_never_changed(schema, value):
    assert fit({"x": value}, x=schema) == ({"x": value}, ())


@check_rows(
    "given, declared",
    [("file_path", "path"), ("old_string", "oldText"), ("cmd", "command"), ("MaxResults", "max_results")],
)
def test_another_usual_name_of_a_parameter_is_taken(given, declared):
    assert fit({given: "x"}, **{declared: STRING})[0] == {declared: "x"}


def test_a_sign_is_not_taken_for_another_choice():
    with pytest.raises(ArgumentMismatch, match="must be one of"):
        fit({"x": "-"}, x={"enum": ["+", "add"]})


@check_rows("reference", ["#/$defs/a~1b", "#/$defs/c~0d", "#/$defs/e%20f", "#/anyOf/0"])
def test_a_schema_is_that_which_its_reference_points_to(reference):
    schemas = {"$defs": {"a/b": INTEGER, "c~d": INTEGER, "e f": INTEGER}, "anyOf": [INTEGER]}
    parameters = {"type": "object", "properties": {"n": {"$ref": reference}}, **schemas}
    tool = ToolIndex([{"function": {"name": "t", "parameters": parameters}}]).find("t")
    assert Fitter(tool).fit({"n": "5"}, []) == {"n": 5}


def test_a_value_by_position_goes_to_its_parameter():
    assert fit({}, 1, "a", n=INTEGER, s=STRING)[0] == {"n": 1, "s": "a"}


def test_one_object_by_position_is_the_arguments():
    assert fit({}, {"n": 1}, n=INTEGER)[0] == {"n": 1}


def test_a_tool_with_properties_of_its_own_gets_them():
    page = {"properties": {"Name": {"type": "title"}}, "type": "object"}
    assert fit(page, properties={"type": "object"}, type=STRING)[0] == page


def test_elements_are_taken_apart_as_far_as_the_schema_asks():
    files = Markup("<file><path>a</path><content><p>x</p></content></file>")
    each = {"type": "object", "properties": {"path": STRING, "content": STRING}}
    listed = {"type": "array", "items": each}
    assert fit({"x": files}, x=listed)[0] == {"x": [{"path": "a", "content": "<p>x</p>"}]}
    assert fit({"x": files}, x=STRING)[0] == {"x": str(files)}
    assert fit({"x": files})[0] == {"x": {"file": {"path": "a", "content": {"p": "x"}}}}


def test_pairs_written_as_strings_are_the_arguments():
    assert fit({}, "n=5", "s='a'", n=INTEGER, s=STRING)[0] == {"n": 5, "s": "a"}


def test_null_for_an_optional_parameter_leaves_it_out():
    assert fit({"n": None}, n=INTEGER)[0] == {}


def test_references_within_the_schema_are_followed():
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": INTEGER}}
    box = ToolIndex([{"function": {"name": "t", "parameters": schema}}])
    assert Fitter(box.find("t")).fit({"x": "5"}, []) == {"x": 5}


def test_a_schema_that_refers_to_itself_ends():
    schema = {"type": "object", "properties": {"x": {"$ref": "#/properties/x"}}}
    box = ToolIndex([{"function": {"name": "t", "parameters": schema}}])
    assert Fitter(box.find("t")).fit({"x": "5"}, []) == {"x": "5"}


def test_alternatives_that_lead_to_themselves_end():
    definitions = {"x": {"anyOf": [{"oneOf": [{"$ref": "#/$defs/x"}, {"type": "null"}]}, INTEGER]}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}, "$defs": definitions}
    box = ToolIndex([{"function": {"name": "t", "parameters": schema}}])
    assert Fitter(box.find("t")).fit({"x": "5"}, []) == {"x": 5}


def test_null_is_left_out_where_the_type_behind_a_reference_has_none():
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/n"}}, "$defs": {"n": INTEGER}}
    box = ToolIndex([{"function": {"name": "t", "parameters": schema}}])
    assert Fitter(box.find("t")).fit({"x": None}, []) == {}


MISFITS = {
    "a missing parameter": (
        {},
        {"required": ["n"], "n": INTEGER},
        "t: the required parameter 'n' (integer) is missing.",
    ),
    "a wrong type": ({"n": "abc"}, {"n": INTEGER}, "Parameter 'n' must be integer; 'abc' was given."),
    "not one of the choices": (
        {"u": "x"},
        {"u": {"enum": ["a", "b"]}},
        "Parameter 'u' must be one of \"a\", \"b\"; 'x' was given.",
    ),
    "an unknown parameter": (
        {"z": 1},
        {"closed": True, "n": INTEGER},
        "t has no parameter 'z'; its parameters are: n.",
    ),
    "none of the alternatives": (
        {"n": "x"},
        {"n": {"oneOf": [BOOLEAN, INTEGER]}},
        "Parameter 'n' must be integer; 'x' was given.",
    ),
    "a member that is missing": (
        {"o": {}},
        {"o": {"type": "object", "properties": {"n": INTEGER}, "required": ["n"]}},
        "Parameter 'o' lacks its required member 'n'.",
    ),
    "an item of a list": (
        {"l": ["x"]},
        {"l": {"type": "array", "items": INTEGER}},
        "Parameter 'l[0]' must be integer; 'x' was given.",
    ),
}


@check_rows("arguments, schema, reason", MISFITS.values())
def test_what_cannot_fit_is_named_with_what_was_expected_and_what_came(arguments, schema, reason):
    with pytest.raises(ArgumentMismatch) as mismatch:
        fit(arguments, **schema)
    assert str(mismatch.value) == reason


def test_too_many_values_by_position_do_not_fit():
    with pytest.raises(ArgumentMismatch):
        fit({}, 1, 2, n=INTEGER)


def test_what_merely_looks_like_a_call_may_not_bring_parameters_of_its_own():
    assert fit({"z": 1}, n=INTEGER)[0] == {"z": 1}
    with pytest.raises(ArgumentMismatch):
        fit({"z": 1}, n=INTEGER, lenient=False)


def test_a_variable_named_like_the_parameter_is_no_value_but_an_expression_is_text():
    assert fit({"f": RepairReader("x**2").read_value()}, f=STRING, lenient=False)[0] == {"f": "x**2"}
    with pytest.raises(ArgumentMismatch):
        fit({"city": RepairReader("city").read_value()}, city=STRING, lenient=False)


def test_values_nested_too_deep_do_not_fit():
    value = 1
    for _ in range(MAX_DEPTH + 1):
        value = [value]
    with pytest.raises(ArgumentMismatch, match="nested too deep"):
        fit({"x": value}, x={})


@check_rows(
    "schema, value",
    [
        ({"type": "integer", "nullable": True}, None),
        ({"anyOf": [INTEGER, {"type": "null"}]}, None),
        (True, None),
        ({"enum": ["a", "b"]}, ["a", "b"]),
    ],
)
def test_null_and_lists_of_choices_fit_where_the_schema_allows_them(schema, value):
    assert fit({"x": value}, x=schema) == ({"x": value}, ())


def test_a_reference_to_nothing_requires_nothing():
    assert fit({"x": "5"}, x={"$ref": "#/$defs/missing"})[0] == {"x": "5"}


def test_strings_by_position_that_name_no_parameter_are_values():
    assert fit({}, "a=1", s=STRING)[0] == {"s": "a=1"}


def test_a_bare_word_for_a_parameter_of_any_type_is_text_unless_it_is_the_parameter():
    assert fit({"x": RepairReader("Oslo").read_value()}, x={}, lenient=False)[0] == {"x": "Oslo"}
    with pytest.raises(ArgumentMismatch, match="'x' is x, which is not a value"):
        fit({"x": RepairReader("x").read_value()}, x={}, lenient=False)


def test_arithmetic_stays_text_where_a_string_is_required_and_is_worked_out_elsewhere():
    given = RepairReader('{"a": 10-3, "b": 10-3, "c": 10-3}').read_value()
    assert fit(given, a=STRING, b=INTEGER, c={})[0] == {"a": "10-3", "b": 7, "c": 7}


@pytest.mark.parametrize("given", [{"arguments": {"path": "a"}}, {"input": '{"path": "a"}'}])
def test_arguments_in_one_key_are_unwrapped(given):
    assert fit(given, path=STRING)[0] == {"path": "a"}


def test_arguments_in_an_element_of_their_own_are_unwrapped():
    assert fit({"parameters": Markup("<a>x</a>")}, a={"type": "string"}) == ({"a": "x"}, ("arguments in 'parameters'",))
    assert fit({"parameters": Markup("<b>x</b>")}, a={"type": "string"})[0] == {"parameters": {"b": "x"}}


def test_a_parameter_with_such_a_name_keeps_its_object():
    assert fit({"input": {"path": "a"}}, input={"type": "object"})[0] == {"input": {"path": "a"}}


@check_rows(
    "text, properties, arguments",
    [
        (
            "[f(city=San Francisco, CA, days=3)]",
            {"city": STRING, "days": INTEGER},
            {"city": "San Francisco, CA", "days": 3},
        ),
        ("f(on=May 5, 2024, unit=c)", {"on": STRING, "unit": STRING}, {"on": "May 5, 2024", "unit": "c"}),
        ("f(params_x=5, args_y=1)", {"x": INTEGER, "y": INTEGER}, {"x": 5, "y": 1}),
        ("[{'f(x=1)'}]", {"x": INTEGER}, {"x": 1}),
        ("```python\nreturn f(x=1)\n```", {"x": INTEGER}, {"x": 1}),
        ("[f(x=[5, 3])]", {"x": {"type": "array", "items": {"type": "float"}}}, {"x": [5, 3]}),
        ("[f(x=10-3)]", {"x": STRING}, {"x": "10-3"}),
        ("[f(x=10-3)]", {"x": INTEGER}, {"x": 7}),
        ("[f(x=10-3)]", {"x": {}}, {"x": 7}),
        ("[f(x=10**3)]", {"x": NUMBER}, {"x": 1000}),
        ("[f(x=-(1+2)/4)]", {"x": NUMBER}, {"x": -0.75}),
        ("[f(x=[2*5])]", {"x": {"type": "array", "items": INTEGER}}, {"x": [10]}),
    ],
)
def test_what_is_not_quoted_is_read_by_the_type_that_the_schema_asks_for(text, properties, arguments):
    tool = ToolDefinition("f", "", {"type": "object", "properties": properties})
    (call,) = extract_tool_calls(text, [tool]).calls
    assert call.arguments == arguments


@pytest.mark.parametrize("text", ["2**9999", "1/0"])
def test_arithmetic_is_worked_out_within_bounds(text):
    tool = ToolDefinition("f", "", {"type": "object", "properties": {"x": INTEGER}})
    assert not extract_tool_calls(f"[f(x={text})]", [tool]).calls
