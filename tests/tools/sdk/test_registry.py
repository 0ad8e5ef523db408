"""A function becomes a tool by one decorator, is described in one place, and cannot break the loop."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from src.errors import ConfigError, ToolError
from src.tools import REGISTRY, TOOL_DEFINITIONS, Registry, Tool, ToolContext, registry_of
from src.tools.sdk.tool import tool as make_tool
from src.types.messages import ToolCall, ToolDefinition
from src.types.tool_schema import describe_type
from tests.each import check_rows
from tests.sources import ROOT


def greet(name: str, times: int = 1) -> str:
    """Greet somebody.

    This is for programmers.
    """
    return f"hello {name}" * times


def answer(tool_function, arguments, **context):
    registry = Registry()
    registry.tool(tool_function)
    call = ToolCall("call-7", tool_function.__name__, arguments)
    return registry.run(call, ToolContext(Path.cwd(), **context))


# Describing


def test_name_description_and_schema_come_from_the_function():
    assert Registry().tool(greet).definition == ToolDefinition(
        "greet",
        "Greet somebody.",
        {
            "type": "object",
            "properties": {"name": {"type": "string"}, "times": {"type": "integer"}},
            "required": ["name"],
            "additionalProperties": False,
        },
    )


def test_a_tool_is_of_high_risk_unless_it_says_otherwise():
    assert Registry().tool(greet).risk == "high"
    assert Registry().tool(risk="low")(greet).risk == "low"


def test_the_openai_list_shows_a_tool_as_soon_as_it_is_added():
    registry = Registry()
    shown = registry.openai_tools
    definition = registry.tool(greet).definition
    assert shown == [
        {
            "type": "function",
            "function": {"name": "greet", "description": "Greet somebody.", "parameters": definition.parameters},
        }
    ]


def test_every_parameter_of_every_tool_is_described():
    for tool in TOOL_DEFINITIONS:
        for name, schema in tool["function"]["parameters"]["properties"].items():
            assert schema["description"], name


def test_tool_definitions_is_the_registrys_own_list_and_json():
    assert TOOL_DEFINITIONS is REGISTRY.openai_tools
    assert json.loads(json.dumps(TOOL_DEFINITIONS)) == TOOL_DEFINITIONS


@check_rows("name", ["", "a b", "é", "a.b", "x" * 65, "read\n"])
def test_a_name_no_server_takes_is_refused(name):
    with pytest.raises(TypeError, match="matches"):
        Registry().add(Tool(ToolDefinition(name, "What it does.", {}), greet))


def test_a_name_is_taken_once():
    registry = Registry()
    registry.tool(greet)
    with pytest.raises(ValueError, match="greet"):
        registry.tool(greet)


def test_importing_the_tools_loads_nothing_that_only_running_needs():
    code = "import sys, msgspec; before = set(sys.modules)\nimport src.tools; print(*set(sys.modules) - before)"
    root = ROOT
    loaded = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert not {"fastjsonschema", "subprocess", "difflib", "yaml", "requests"} & set(loaded.stdout.split())


# Running


def test_a_string_is_text_and_anything_else_is_data():
    def listing() -> list:
        """List."""
        return [1, ("a", None), {"k": 2.5}]

    result = answer(listing, {})
    assert (result.kind, result.value) == ("data", [1, ["a", None], {"k": 2.5}])
    result = answer(greet, {"name": "you"})
    assert (result.tool_call_id, result.name, result.kind, result.value) == ("call-7", "greet", "text", "hello you")


def test_data_is_a_copy_of_what_the_tool_keeps():
    kept = [1]

    def mine() -> list:
        """List."""
        return kept

    answer(mine, {}).value.append(2)
    assert kept == [1]


@pytest.mark.parametrize("value", [float("nan"), object()], ids=lambda value: type(value).__name__)
def test_a_value_that_is_not_json_is_an_error(value):
    def odd() -> object:
        """Return something odd."""
        return value

    result = answer(odd, {})
    assert result.kind == "error"
    assert result.value.startswith("Error executing tool: ")


def test_a_lone_surrogate_is_replaced_since_no_request_could_hold_it():
    def half() -> str:
        """Return half a character."""
        return "a\ud800b"

    assert answer(half, {}).value == "a?b"


@check_rows(
    "error, text",
    [
        (ToolError("no such thing", "Look elsewhere."), "Error executing tool: no such thing\nLook elsewhere."),
        (KeyError("k"), "Error executing tool: KeyError: 'k'"),
        (RecursionError("deep"), "Error executing tool: RecursionError: deep"),
        (ToolError("half \udc80"), "Error executing tool: half ?"),
    ],
)
def test_whatever_a_tool_raises_becomes_an_error_result(error, text):
    def failing() -> str:
        """Fail."""
        raise error

    result = answer(failing, {})
    assert (result.kind, result.value) == ("error", text)


def test_a_whole_float_arrives_as_the_integer_that_was_promised():
    assert answer(greet, {"name": "x", "times": 2.0}).value == "hello xhello x"


def test_numbers_arrive_as_the_types_that_were_promised_at_any_depth():
    def kinds(matrix: list[list[int]], ratio: float, table: dict[str, int]) -> str:
        """Name the types."""
        return repr((matrix, ratio, table))

    value = answer(kinds, {"matrix": [[1.0]], "ratio": 1, "table": {"a": 2.0}}).value
    assert value == "([[1]], 1.0, {'a': 2})"


def test_wrong_arguments_are_answered_with_what_is_wrong_and_the_right_signature():
    result = answer(greet, {"name": 1})
    mismatch = "name: expected string, got integer 1"
    assert result.kind == "error"
    assert result.value == f"Wrong arguments for greet: {mismatch}. Usage: greet(name: string, times?: integer)"


LONG_SCHEMA = {"type": "object", "properties": {f"parameter_{number}": {"type": "string"} for number in range(20)}}
READ, EDIT, EXEC = (REGISTRY[name].signature for name in ("read", "edit", "exec"))
UNKNOWN = [
    ("raed", '"raed"', [READ]),
    ("Exec", '"Exec"', [EXEC]),
    ("exec\u200b", '"exec\\u200b"', [EXEC]),
    ("../exec", '"../exec"', [EXEC]),
    ("edti", '"edti"', [EDIT]),
    ("zzz", '"zzz"', []),
]


@check_rows("name, shown, nearest", UNKNOWN)
def test_an_unknown_tool_is_answered_with_how_all_are_called_the_nearest_first(name, shown, nearest):
    usages = dict.fromkeys([*nearest, *(tool.signature for tool in REGISTRY)])
    result = REGISTRY.run(ToolCall("1", name, {}), ToolContext(Path.cwd()))
    assert result.kind == "error"
    assert result.value == f"There is no tool {shown}. Available tools, the nearest first: {'; '.join(usages)}."


def test_of_very_many_tools_most_are_only_named():
    registry = Registry()
    for number in range(100):
        registry.add(Tool(ToolDefinition(f"greet_{number}", "Greet.", LONG_SCHEMA), greet))
    said = registry.run(ToolCall("1", "greet_7x", {}), ToolContext(Path.cwd())).value
    assert said.startswith('There is no tool "greet_7x". Available tools, the nearest first: greet_7(')
    assert said.endswith("greet_98, greet_99.")
    assert len(said) < 4_000


def test_where_there_are_no_tools_none_are_named():
    assert Registry().check(ToolCall("1", "read", {})).value.endswith("the nearest first: none.")


@check_rows("name, usage", [("read", READ), ("raed", READ), ("Edit", EDIT), ("zzz", ""), ("", "")])
def test_a_signature_is_found_by_its_name_or_one_near_it(name, usage):
    assert REGISTRY.signature(name) == usage


def test_a_tool_that_is_switched_off_is_described_to_no_model():
    rest = REGISTRY.without("exec")
    others = [tool.definition.name for tool in REGISTRY if tool.definition.name != "exec"]
    assert [each.name for each in rest.definitions] == others
    assert [each["function"]["name"] for each in rest.openai_tools] == others
    assert rest.run(ToolCall("1", "exec", {"command": "echo hi"}), ToolContext(Path.cwd())).kind == "error"
    assert "exec" in [each["function"]["name"] for each in TOOL_DEFINITIONS]


def test_a_session_may_have_more_tools():
    more = REGISTRY.plus([make_tool(hello)])
    assert [each.name for each in more.definitions][-1] == "hello"
    assert "hello" not in REGISTRY


def test_more_tools_of_a_name_that_is_taken_are_an_error():
    with pytest.raises(ConfigError, match="there is a tool read already"):
        REGISTRY.plus([REGISTRY["read"]])


def hello(name: str) -> str:
    """Greet."""
    return f"hello {name}"


def test_functions_become_a_registry_of_their_own():
    assert [each.name for each in registry_of([hello, REGISTRY["read"]]).definitions] == ["hello", "read"]


@check_rows(
    "tools, said",
    [
        ("hello", "tools is a list"),
        (5, "tools is a list"),
        ([5], "5 is not one"),
        ({"hello": hello}, "tools is a list"),
        (hello, r"write tools=\[hello\]"),
        (make_tool(hello), r"write tools=\[hello\]"),
    ],
)
def test_a_value_that_is_not_a_list_of_functions_is_refused(tools, said):
    with pytest.raises(TypeError, match=said):
        registry_of(tools)


def test_a_risk_is_low_or_high():
    with pytest.raises(ValueError, match="low or high, and not 'medium'"):
        make_tool(hello, risk="medium")


class Watched(dict):
    """Arguments that count how often somebody goes through them, which checking does and running does not."""

    passes = 0

    def __iter__(self) -> Iterator[str]:
        self.passes += 1
        return super().__iter__()


def test_running_checks_the_arguments_once():
    arguments = Watched(name="you")
    assert answer(greet, arguments).value == "hello you"
    assert arguments.passes == 1


def test_an_unknown_tool_is_of_high_risk():
    assert Registry().risk("anything") == "high"


def test_a_call_can_be_checked_without_running_it():
    def never() -> str:
        """Never run."""
        raise AssertionError("it ran")

    registry = Registry()
    registry.tool(never)
    assert registry.check(ToolCall("1", "never", {})) is None
    assert registry.check(ToolCall("1", "never", {"a": 1})).kind == "error"
    assert registry.check(ToolCall("1", "nevr", {})).kind == "error"


def reference(tool: Tool) -> str:
    """What docs/tools.md says of a tool."""
    required = tool.definition.parameters["required"]
    rows = [
        f"| `{name}`{'' if name in required else ', optional'} | {describe_type(schema)} | {schema['description']} |"
        for name, schema in tool.definition.parameters["properties"].items()
    ]
    table = ["| parameter | type | what a model is told of it |", "|---|---|---|", *rows, ""] if rows else []
    lines = [f"### {tool.definition.name}", "", f"Risk {tool.risk}. “{tool.definition.description}”", "", *table]
    return "\n".join(lines).replace('" | "', '" or "')


@check_rows("tool", list(REGISTRY))
def test_the_documentation_describes_every_tool_as_the_model_sees_it(tool):
    docs = ROOT / "docs" / "tools.md"
    assert reference(tool) in docs.read_text(encoding="utf-8"), f"it should hold:\n{reference(tool)}"


# Raw arguments, previews, media


def test_arguments_may_come_as_json_text(tmp_path):
    tool = Registry().tool(greet)
    assert tool.execute('{"name": "you"}', ToolContext(tmp_path))[:2] == ("text", "hello you")
    kind, said, *_ = tool.execute('{"name": ', ToolContext(tmp_path))
    assert kind == "error"
    assert said.startswith("Wrong arguments for greet: expected an object, got string")


def test_a_preview_sees_the_arguments_as_the_function_would(tmp_path):
    registry = Registry()
    registry.tool(preview=lambda arguments, ctx: f"+{arguments['times']} {ctx.workspace == tmp_path}")(greet)
    call = ToolCall("1", "greet", {"name": "you", "times": 2.0})
    assert registry.preview(call, ToolContext(tmp_path)) == "+2 True"


def test_a_preview_that_fails_is_empty(tmp_path):
    registry = Registry()
    registry.tool(preview=lambda arguments, ctx: arguments["nothing"])(greet)
    assert registry.preview(ToolCall("1", "greet", {"name": "you"}), ToolContext(tmp_path)) == ""


def test_without_a_preview_there_is_none(tmp_path):
    registry = Registry()
    registry.tool(greet)
    assert registry.preview(ToolCall("1", "greet", {"name": "you"}), ToolContext(tmp_path)) == ""
