"""Commands as tools: a model's values become arguments, never options, and no shell reads them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from src.errors import ConfigError, ToolError
from src.tools import Registry, ToolContext
from src.tools.sources.yaml_commands import load

SEARCH = """
- name: search
  description: Search the files
    of the workspace.
  command: rg --line-number {glob} {hidden} -e {pattern} -- {path} {more}
  risk: low
  parameters:
    pattern: What to search for
    path: {description: File or folder, default: .}
    glob: {flag: --glob=, optional: true}
    hidden: {type: boolean, flag: --hidden, description: Hidden files too}
    more: {type: array, optional: true}
"""


@pytest.fixture
def tools(tmp_path):
    def tools(*entries) -> list:
        path = tmp_path / "tools.yaml"
        path.write_text(entries[0] if isinstance(entries[0], str) else yaml.safe_dump(list(entries)), encoding="utf-8")
        return list(load([str(path)]))

    return tools


def echoing(command: object, **parameters: object) -> dict:
    return {"name": "show", "description": "Show.", "command": command, "parameters": parameters}


def argv_of(tool, **arguments) -> list[str]:
    """The command line that a preview shows, as words."""
    import shlex

    tool.check_arguments(arguments)
    return shlex.split(tool.preview(arguments, ToolContext(Path("/"))))


class TestTold:
    def test_a_command_is_described_like_any_other_tool(self, tools):
        (tool,) = tools(SEARCH)
        assert tool.signature == (
            "search(pattern: string, path?: string, glob?: string, hidden?: boolean, more?: array of string)"
        )
        assert tool.definition.description == "Search the files of the workspace."
        assert tool.definition.parameters["properties"]["path"] == {
            "type": "string",
            "description": "File or folder",
        }
        assert tool.definition.parameters["additionalProperties"] is False
        assert tool.risk == "low"
        assert tool.definition.drops_nulls

    def test_its_risk_is_high_unless_it_says_otherwise(self, tools):
        assert tools(echoing("true"))[0].risk == "high"

    def test_a_file_may_hold_one_or_several(self, tools):
        assert [tool.definition.name for tool in tools("{name: one, description: One., command: 'true'}")] == ["one"]
        assert len(tools(echoing("true"), echoing("true") | {"name": "other"})) == 2

    def test_parameters_may_be_a_json_schema(self, tools):
        files = {"type": "array", "items": {"type": "string"}}
        schema = {"type": "object", "properties": {"files": files, "text": {"type": "string"}}, "required": ["text"]}
        (tool,) = tools(echoing("grep -e {text} -- {files}") | {"parameters": schema})
        (plain,) = tools(echoing("grep -e {text} -- {files}", text={}, files={"type": "array", "optional": True}))
        assert tool.definition == plain.definition
        assert argv_of(tool, text="x") == ["grep", "-e", "x", "--"]

    def test_a_parameter_may_have_the_name_of_a_schemas_word(self, tools):
        (tool,) = tools(echoing("echo {type} {properties}", type="What", properties="Which"))
        assert argv_of(tool, type="a", properties="b") == ["echo", "a", "b"]


class TestWords:
    def test_what_is_left_out_takes_its_word_along(self, tools):
        (tool,) = tools(SEARCH)
        assert argv_of(tool, pattern="x") == ["rg", "--line-number", "-e", "x", "--", "."]

    def test_flags_stand_before_their_values_and_lists_become_several_words(self, tools):
        (tool,) = tools(SEARCH)
        arguments = {"pattern": "x", "glob": "*.py", "hidden": True, "path": "src", "more": ["a", "b c"]}
        assert argv_of(tool, **arguments) == [
            "rg", "--line-number", "--glob=*.py", "--hidden", "-e", "x", "--", "src", "a", "b c",
        ]  # fmt: skip
        assert "--hidden" not in argv_of(tool, pattern="x", hidden=False)

    def test_a_flag_without_an_equals_sign_is_a_word_of_its_own(self, tools):
        (tool,) = tools(
            echoing("head {lines} {file}", lines={"type": "integer", "flag": "-n", "optional": True}, file="")
        )
        assert argv_of(tool, lines=3, file="a") == ["head", "-n", "3", "a"]
        assert argv_of(tool, file="a") == ["head", "a"]

    @pytest.mark.parametrize("value", ["$(id)", "a; rm -rf /", "`id`", "a b", "*", '"', "'", "\n", "{path}", ""])
    def test_a_value_is_one_word_whatever_is_in_it(self, tools, value):
        (tool,) = tools(echoing("echo x{a}y", a="Any"))
        assert argv_of(tool, a=value) == ["echo", f"x{value}y"]

    def test_values_fill_their_places_inside_a_word_and_doubled_braces_are_braces(self, tools):
        (tool,) = tools(echoing(["awk", "{{print {a}}}:{b}"], a={"type": "integer"}, b={"type": "number"}))
        assert argv_of(tool, a=1, b=2.5) == ["awk", "{print 1}:2.5"]


class TestOptions:
    """A value is never read as an option."""

    @pytest.mark.parametrize("value", ["-exec", "--pre=sh", "-", "--"])
    def test_one_that_looks_like_it_is_refused_where_it_begins_a_word(self, tools, value):
        (tool,) = tools(echoing("find {path}", path="Where"))
        with pytest.raises(ToolError, match="would be taken for an option"):
            argv_of(tool, path=value)
        with pytest.raises(ToolError, match="would be taken for an option"):
            argv_of(tools(echoing("find {path}/x", path="Where"))[0], path=value)

    def test_what_looks_like_an_option_is_refused_in_a_list_as_a_number_and_behind_a_flag(self, tools):
        (many,) = tools(echoing("cat {files}", files={"type": "array"}))
        (number,) = tools(echoing("kill {id}", id={"type": "integer"}))
        (flagged,) = tools(echoing("rg {glob}", glob={"flag": "-g"}))
        for tool, arguments in ((many, {"files": ["a", "-n"]}), (number, {"id": -1}), (flagged, {"glob": "--pre"})):
            with pytest.raises(ToolError):
                argv_of(tool, **arguments)

    def test_behind_two_dashes_of_the_command_it_is_a_value_like_any(self, tools):
        (tool,) = tools(echoing("grep -e x -- {path}", path="Where"))
        assert argv_of(tool, path="-v") == ["grep", "-e", "x", "--", "-v"]

    def test_two_dashes_that_a_value_makes_do_not_count(self, tools):
        (tool,) = tools(echoing("cmd -{a} {b}", a="One", b="Other"))
        with pytest.raises(ToolError):
            argv_of(tool, a="-", b="-x")

    def test_after_an_equals_sign_it_is_a_value_like_any(self, tools):
        (tool,) = tools(echoing("rg {glob}", glob={"flag": "--glob="}))
        assert argv_of(tool, glob="-x") == ["rg", "--glob=-x"]


class TestRunning:
    def test_it_runs_in_the_workspace_and_says_how_it_ended(self, tools, tmp_path):
        registry = Registry()
        for tool in tools(echoing("printf %s: {a}", a={"type": "array"})):
            registry.add(tool)
        kind, value, *_ = registry["show"].execute({"a": ["$HOME", "b c"]}, ToolContext(tmp_path))
        assert (kind, value) == ("text", "$HOME:b c:\n[exit code 0]")

    def test_a_program_that_is_not_there_is_an_error(self, tools, tmp_path):
        kind, value, *_ = tools(echoing("there-is-no-such-program"))[0].execute({}, ToolContext(tmp_path))
        assert kind == "error" or "not found" in value or "exit code 127" in value

    def test_a_parameter_may_have_any_name(self, tools, tmp_path):
        (tool,) = tools("{name: a, description: x, command: 'echo {ctx}', parameters: {ctx: x}}")
        assert tool.execute({"ctx": "here"}, ToolContext(tmp_path)).value == "here\n[exit code 0]"

    def test_a_date_is_a_text(self, tools, tmp_path):
        (tool,) = tools("{name: a, description: x, command: 'echo {day}', parameters: {day: {default: 2024-01-01}}}")
        assert tool.execute({}, ToolContext(tmp_path)).value == "2024-01-01\n[exit code 0]"

    def test_wrong_arguments_are_refused(self, tools, tmp_path):
        (tool,) = tools(SEARCH)
        kind, value, *_ = tool.execute({"pattern": 5}, ToolContext(tmp_path))
        assert (kind, value.partition(":")[0]) == ("error", "Wrong arguments for search")


WRONG = [
    ("[", "it is not YAML: line 1, column 2: "),
    ("- name: a\n  command: x\n  command: y", 'it is not YAML: line 3, column 3: "command" stands twice'),
    ("- 5", "tool 1: expected an object of name"),
    ("", "tool 1: expected an object of name"),
    ("{name: 'a b', description: x, command: 'true'}", "name is 1 to 64 letters"),
    ("{name: 5, description: x, command: 'true'}", "tool 1: name is 1 to 64 letters"),
    ("{name: a, command: 'true'}", "tool 1 (a): description is missing"),
    ("{name: a, description: x}", "command is missing; it is a program"),
    ("{name: a, description: x, command: []}", "command is a program"),
    ("{name: a, description: x, command: ' '}", "command is a program"),
    ("{name: a, description: x, command: '\"'}", "command: No closing quotation"),
    ("{name: a, description: x, command: '{b}', parameters: {b: x}}", "not the model's to say"),
    ("{name: a, description: x, command: 'c {b}'}", "{b} is not among the parameters"),
    ("{name: a, description: x, command: 'c', parameters: {b: x}}", "b is a parameter that the command does not use"),
    ("{name: a, description: x, command: 'c', risk: medium}", "risk is low or high"),
    ("{name: a, description: x, command: 'c', shell: true}", "there is no key 'shell'"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {type: object}}}", "type is string"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {type: boolean}}}", "a boolean needs the flag"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {kind: x}}}", "there is no key 'kind'"),
    ("{name: a, description: x, command: 'c x{b}', parameters: {b: {flag: -b}}}", "must be a word of its own"),
    ("{name: a, description: x, command: 'c x{b}', parameters: {b: {type: array}}}", "must be a word of its own"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {type: array, items: array}}}", "items is string"),
    (
        "{name: a, description: x, command: 'c {b}', parameters: {b: {type: array, items: {type: [a]}}}}",
        "items is string",
    ),
    (
        "{name: a, description: x, command: c, parameters: {type: object, properties: {}, required: false}}",
        "required is a list",
    ),
    (
        "{name: a, description: x, command: c, parameters: {type: object, properties: {}, required: [b]}}",
        "b is required, and not among the properties",
    ),
    ("{name: a, description: x, command: 'c {b}', parameters: [b]}", "parameters is an object"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: 5}}", "b: expected an object of type"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {enum: 5}}}", "enum is a list"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {enum: []}}}", "enum is a list"),
    (
        "{name: a, description: x, command: 'c {b}', parameters: {b: {enum: [on]}}}",
        "True is not of the type string: put it in quotes",
    ),
    (
        "{name: a, description: x, command: 'c {b}', parameters: {b: {type: integer, enum: [a]}}}",
        "'a' is not of the type integer",
    ),
    (
        "{name: a, description: x, command: 'c {b}', parameters: {b: {type: array, enum: [a]}}}",
        "'a' is not of the type array of string",
    ),
    (
        "{name: a, description: x, command: 'c {b}', parameters: {b: {type: number, maximum: .inf}}}",
        "maximum is a number",
    ),
    (
        "{name: a, description: x, command: 'c {b}', parameters: {type: object, properties: {b: x}, required: [c]}}",
        "c is required, and not among the properties",
    ),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {minimum: x}}}", "minimum is a number"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {default: {c: 1}}}}", "default is a value"),
    ("{name: a, description: x, command: 'c {b}', parameters: {b: {flag: 5}}}", "flag is a string"),
]


def test_a_file_that_is_not_there_is_said_so(tmp_path):
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file or directory"):
        list(load([str(tmp_path / "none.yaml")]))


@pytest.mark.parametrize(("text", "said"), WRONG, ids=[row[1][:40] for row in WRONG])
def test_an_error_in_a_file_names_its_place(tmp_path, text, said):
    path = tmp_path / "tools.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        list(load([str(path)]))
    assert str(error.value).startswith(f"{path}: ")
    assert said in str(error.value)
