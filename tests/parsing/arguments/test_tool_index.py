"""Tools found by the name a model wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.parsing import extract_tool_calls
from src.parsing.arguments.tool_index import ToolIndex
from src.types.messages import ToolDefinition
from tests.each import check_rows

BOX = ToolIndex(
    [
        ToolDefinition("get_weather", "", {}),
        {"type": "function", "function": {"name": "math.hypot"}},
        {"name": "readFile"},
        {},
    ]
)


@check_rows(
    "written, name",
    [
        ("get_weather", "get_weather"),
        ("Get-Weather", "get_weather"),
        ("getWeather", "get_weather"),
        ("get\\_weather", "get_weather"),
        ("functions.get_weather", "get_weather"),
        ("functions.get_weather:0", "get_weather"),
        ("default_api.get_weather", "get_weather"),
        ("get_weather<|channel|>commentary", "get_weather"),
        ("get_weather.call", "get_weather"),
        ('"get_weather"', "get_weather"),
        ("math_hypot", "math.hypot"),
        ("hypot", "math.hypot"),
        ("read_file", "readFile"),
    ],
)
def test_a_name_is_found_through_case_punctuation_prefix_and_suffix(written, name):
    assert BOX.find(written).name == name


@pytest.mark.parametrize("written", ["write_todos", "writeTodos", "functions.write_todos"])
def test_a_tool_is_found_by_another_name_that_it_gives_itself(written):
    assert (
        ToolIndex([ToolDefinition("todo_write", "", {}, aliases=("write_todos",))]).find(written).name == "todo_write"
    )


def test_the_name_of_a_tool_comes_before_the_other_name_of_another():
    tools = [ToolDefinition("todo_write", "", {}, aliases=("write_todos",)), ToolDefinition("write_todos", "", {})]
    assert ToolIndex(tools).find("write_todos").name == "write_todos"


@check_rows(
    "written",
    [
        "get_weather:0.call",
        "functions.default_api.get_weather.run:12()",
        '**"functions.get_weather:0<|channel|>json"**',
    ],
)
def test_a_name_may_have_several_prefixes_and_suffixes(written):
    assert BOX.find(written).name == "get_weather"
    assert BOX.names.is_exact(written)


@check_rows(
    "written",
    [
        "get_weather:0:0:0:0",
        "get_weather" + ".call" * 4,
        "get_weather" + ":0" * 1_000,
        "functions." * 1_000 + "get_weather",
    ],
)
def test_what_repeats_without_end_around_a_name_makes_it_that_of_no_tool(written):
    assert BOX.find(written) is None


def test_a_long_name_on_offer_is_found_as_others_are():
    name = "a" * 5_000 + ".read"
    box = ToolIndex([{"name": name}])
    assert {box.find(written).name for written in (name, name.upper(), f"functions.{name}:0")} == {name}
    assert box.names.is_name_prefix(name[:4_000])


@check_rows("written", ["get_wether", "weather", "get_weathers", "", "...", "math"])
def test_likeness_is_not_enough(written):
    assert BOX.find(written) is None


def test_a_name_that_two_tools_share_finds_neither():
    box = ToolIndex([{"name": "a.run"}, {"name": "b.run"}])
    assert box.find("run") is None
    assert box.find("a.run").name == "a.run"


def test_a_schema_is_that_of_its_own_index_though_the_names_are_the_same():
    first, second = (ToolIndex([{"name": "read", "parameters": {"required": [key]}}]) for key in ("path", "file"))
    assert (first.find("read").required, second.find("read").required) == (("path",), ("file",))


def test_the_nearest_names_are_offered_to_a_model_that_erred():
    assert BOX.find_nearest("get_wether") == ["get_weather"]


def test_every_beginning_of_a_name_may_begin_one_and_other_words_do_not():
    assert all(BOX.names.is_name_prefix("get_weather"[:end]) for end in range(12))
    assert BOX.names.is_name_prefix("functions.get_w")
    assert not BOX.names.is_name_prefix("hello")


PARTS = ["functions", "tools", "tool_code", "run", "read", "get_weather", "file", "call", "0", "a-b"]
WORDS = st.lists(
    st.tuples(st.sampled_from(PARTS), st.sampled_from([".", "/", ":", "::", "__", "_", "-", ""])), max_size=9
)


@given(WORDS.map(lambda parts: "".join(part + joint for part, joint in parts)))
def test_every_beginning_of_a_word_that_names_a_tool_may_begin_one(word):
    names = ToolIndex([{"name": name} for name in ("run", "read", "get_weather", "call_me", "fs.list")]).names
    if names.names_tool(word):
        assert all(names.is_name_prefix(word[:end]) for end in range(len(word) + 1))


@check_rows("namespace", ["functions.", "functions/", "tools::", "tool_code:", "default_api__"])
@check_rows("suffix", ["", ":0", ".call"])
@check_rows("name", ["run", "call", "execute", "invoke"])
def test_a_tool_whose_name_is_also_a_suffix_is_found_behind_a_namespace(namespace, name, suffix):
    tools = ToolIndex([{"name": name}, {"name": "read"}])
    written = namespace + name + suffix
    assert tools.find(written).name == name
    assert tools.names.is_exact(written)
    assert tools.names.names_tool(written)


def test_a_suffix_that_is_also_a_tool_s_name_is_a_suffix_behind_another_name():
    tools = ToolIndex([{"name": "run"}, {"name": "read"}])
    assert tools.find("read.run").name == "read"
    assert tools.find("functions.read.run:0").name == "read"


def test_before_a_bracket_only_usual_namespaces_belong_to_a_name():
    assert BOX.names.names_tool("functions.get_weather")
    assert not BOX.names.names_tool("file.get_weather")


def test_any_number_of_names_can_be_looked_up():
    index = ToolIndex([{"name": "read"}])
    assert not any(index.find(f"read{number}") for number in range(1_500))
    assert index.find("read:7").name == "read"


@check_rows("name", ["read__", "read.", "__", "..."])
def test_punctuation_alone_is_the_name_of_no_tool_but_of_one_that_is_called_so(name):
    box = ToolIndex([{"name": name}])
    assert [box.find(written) for written in ("", "_", "::", "hello_")] == [None] * 4
    assert box.find(name).name == name


@check_rows(
    "offered",
    [
        {"function": "read"}, {"function": {}}, {"type": "function"}, {"function": {"name": None}},
        {"function": {"name": 5}}, {"name": ""}, None, "read", 5, ["read"],
    ],
)  # fmt: skip
def test_what_describes_no_tool_is_left_out(offered):
    assert list(ToolIndex([offered, {"name": "read"}]).tools) == ["read"]


@check_rows("schema", [None, "oops", ["path"], 5, {"properties": "oops", "required": 5}])
def test_a_tool_with_a_schema_that_cannot_be_used_takes_any_arguments(schema):
    text = '<tool_call>{"name": "read", "arguments": {"path": "a"}}</tool_call>'
    for tool in ({"function": {"name": "read", "parameters": schema}}, {"name": "read", "input_schema": schema}):
        assert [call.arguments for call in extract_tool_calls(text, [tool]).calls] == [{"path": "a"}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "read", "path", "string", "#", "#/properties"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["function", "name", "parameters", "input_schema", "properties", "required", "type", "path", "enum", "items",
             "anyOf", "$ref", "additionalProperties", "nullable"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@check_rows(
    "schema",
    [{"type": "object", "required": True}, {"type": "object", "required": 5, "properties": {"a": {}}}, {"type": "array",
     "items": {"enum": 5}}, {"enum": 5}, {"type": [5, None]}, {"anyOf": [5]}, {"$ref": 5}, {"properties": 5, "items": 5}],
)  # fmt: skip
@check_rows("value", ['{"a": 1}', '"x"', "5", "[{}]", "null"])
def test_a_parameter_s_schema_that_cannot_be_used_is_no_error(schema, value):
    tool = {"name": "read", "parameters": {"properties": {"path": schema}}}
    for text in (f'<tool_call>{{"name": "read", "arguments": {{"path": {value}}}}}</tool_call>', f"read(path={value})"):
        extract_tool_calls(text, [tool])


@given(JSON, st.sampled_from(['{"path": "5"}', '{"path": ["x", {"path": null}]}', "{}"]))
def test_whatever_is_offered_calls_are_looked_for(offered, arguments):
    text = f'<tool_call>{{"name": "read", "arguments": {arguments}}}</tool_call>'
    for tool in (
        offered,
        {"name": "read", "parameters": offered},
        {"name": "read", "parameters": {"properties": {"path": offered}}},
    ):
        extract_tool_calls(text, [tool])


def test_a_tool_that_changes_between_two_answers_is_read_anew():
    tool = {"type": "function", "function": {"name": "wait", "parameters": {"type": "object", "properties": {}}}}
    function, text = tool["function"], '<tool_call>{"name": "wait", "arguments": {"time": "5"}}</tool_call>'
    function["parameters"]["properties"]["time"] = {"type": "string"}
    assert extract_tool_calls(text, [tool]).calls[0].arguments == {"time": "5"}
    function["parameters"]["properties"]["time"]["type"] = "integer"
    assert extract_tool_calls(text, [tool]).calls[0].arguments == {"time": 5}
    function["parameters"]["properties"]["unit"] = {"type": "string"}
    function["parameters"]["required"] = ["unit"]
    assert "'unit'" in extract_tool_calls(text, [tool]).malformed[0].reason
    function["name"] = "pause"
    assert not extract_tool_calls(text, [tool]).calls
