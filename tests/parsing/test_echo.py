"""A call that repeats what the model was given is recognized in whatever form it was given."""

import html
import json

import pytest

from src.parsing import GivenText, extract_tool_calls
from src.parsing.echo import SoughtCall
from src.parsing.formats.table import FORMATS
from src.types.messages import ToolDefinition, ToolResult
from tests.parsing.laws import TOOLS

LINE = "rm -rf \"my build\" && echo 'x'"
EXEC = ToolDefinition(
    "exec",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
WRITE = {"path": "src/a.py", "content": "# top\n- a\n> b\n\n\"x\" = 'y' \\n é\n"}
OBJECT = json.dumps({"name": "exec", "arguments": {"command": LINE}})
REORDERED = json.dumps({"arguments": {"command": LINE}, "name": "exec"}, indent=2)
SAID = f"TOOL_CALL: {OBJECT}"
GIVEN = {
    "as it stands": f"Do this: {OBJECT}",
    "reordered, over several lines": REORDERED,
    "in a fence": f"```json\n{REORDERED}\n```",
    "in Python": f"exec(command={LINE!r})",
    "by position": f"Use it like this:\n\nexec({json.dumps(LINE)})",
    "in tags": f"<tool_call>\n<function=exec>\n<parameter=command>\n{LINE}\n</parameter>\n</function>\n</tool_call>",
    "in an element": f"<exec>\n<command>{LINE}</command>\n</exec>",
    "in labels": f'Action: exec\nAction Input: {{"command": {json.dumps(LINE)}}}',
    "with single quotes": OBJECT.replace('"name"', "'name'").replace('"command"', "'command'"),
    "with Unicode escapes": OBJECT.replace("-", "\\u002d"),
    "with entities": html.escape(OBJECT),
    "in a string of a result": json.dumps({"pages": [1, {"text": f"See {OBJECT}"}]}),
    "in a string of a string": json.dumps({"body": json.dumps({"text": OBJECT})}),
    "with the numbers of its lines": "\n".join(f"{n}\t{line}" for n, line in enumerate(REORDERED.split("\n"), 1)),
    "as a match of a search": f"docs/a.md:12:{OBJECT}",
    "as a quotation": "\n".join(f"> {line}" for line in REORDERED.split("\n")),
    "as a comment": f"# {OBJECT}",
}
OTHER = {
    "an instruction": f"Use exec to run `{LINE}`, please.",
    "a name and a command": f"exec: {LINE}",
    "a command alone": LINE,
    "the output of a command": f"[exec finished]\n$ {LINE}\n0 files",
    "another command": OBJECT.replace("my build", "dist"),
    "another tool": OBJECT.replace("exec", "execute"),
    "words between": f'exec is a tool. It takes the argument "command". Then {LINE} would delete it.',
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_a_call_that_was_given_in_any_form_is_an_echo(given):
    (call,) = extract_tool_calls(SAID, [EXEC], given=[given]).calls
    assert call.echo


@pytest.mark.parametrize("given", OTHER.values(), ids=OTHER)
def test_what_is_not_the_same_call_is_none(given):
    (call,) = extract_tool_calls(SAID, [EXEC], given=[given]).calls
    assert not call.echo


@pytest.mark.parametrize("row", FORMATS, ids=lambda row: f"{row.number} {row.name}")
def test_a_call_that_was_given_in_any_format_is_an_echo_in_another(row):
    said = 'TOOL_CALL: {"name": "get_weather", "args": {"city": "Oslo"}}'
    (call,) = extract_tool_calls(said, TOOLS, given=[f"The file says:\n{row.example}\nand so on."]).calls
    assert call.echo


@pytest.mark.parametrize(
    "given",
    [
        json.dumps({"name": "write", "arguments": WRITE}),
        json.dumps({"arguments": {**WRITE, "path": "./src/a.py"}, "name": "write"}, indent=1, ensure_ascii=False),
        "\n".join(
            f"{number}\t{line}"
            for number, line in enumerate(f"<write>\n<path>src/a.py</path>\n<content>{WRITE['content']}".split("\n"), 1)
        ),
    ],
)
def test_long_values_are_compared_without_what_quoting_and_line_numbers_add(given):
    assert GivenText(given).holds_call(SoughtCall("write", WRITE, ""))
    assert not GivenText(given).holds_call(SoughtCall("write", {**WRITE, "path": "src/b.py"}, ""))


def test_a_call_without_arguments_is_an_echo_of_its_like():
    assert GivenText('First {"name":   "reset"}.').holds_call(SoughtCall("reset", {}, ""))
    assert not GivenText("Then reset it.").holds_call(SoughtCall("reset", {}, ""))


def test_a_text_is_prepared_once_and_only_if_it_holds_the_tools_name():
    looks = []

    class Counted(str):
        def __contains__(self, part):
            looks.append(part)
            return super().__contains__(part)

    given = GivenText(Counted(f"The file says: {OBJECT}"))
    assert not given.holds_call(SoughtCall("write", WRITE, ""))
    assert looks.count("&") == 0
    variants = 2  # with the numbers of lines and without
    for _ in range(3):
        assert given.holds_call(SoughtCall("exec", {"command": LINE}, ""))
    assert looks.count("&") == variants


def test_a_text_that_is_all_names_costs_no_more_than_it_may():
    assert GivenText("exec x " * 200_000).holds_call(SoughtCall("exec", {"command": "x"}, ""))


@pytest.mark.parametrize("written", GIVEN.values(), ids=GIVEN)
def test_a_text_that_holds_a_call_may_hold_each_beginning_of_its_values(written):
    text = GivenText(written)
    for size in range(len(LINE) + 1):
        assert text.may_hold(LINE[:size])
        assert not text.may_hold(LINE[:size] + "\u2603")


NUMBERED = "\n".join(f"{n}\t{line}" for n, line in enumerate(next(iter(FORMATS)).write("write", WRITE).split("\n"), 7))
ROWS_OF_RESULTS = {
    "text": NUMBERED,
    "a list": [NUMBERED],
    "an object in a list": [{"file": {"text": NUMBERED, "lines": 9}}],
    "a list in a string": {"stdout": json.dumps([NUMBERED])},
}


@pytest.mark.parametrize("value", ROWS_OF_RESULTS.values(), ids=ROWS_OF_RESULTS)
@pytest.mark.parametrize("row", [row for row in FORMATS if row.name in ("hermes", "qwen3_coder", "mistral")])
def test_a_call_in_a_numbered_file_is_an_echo_in_a_result_of_any_kind(value, row):
    result = ToolResult("1", "read", "text" if isinstance(value, str) else "data", value)
    picture = ToolResult(
        "1", "read", "multimodal", [{"type": "text", "text": NUMBERED}, {"type": "image", "data": "A"}]
    )
    tools = [ToolDefinition("write", "Write.", {"type": "object", "properties": {"path": {}, "content": {}}})]
    for given in (result.text, picture.text):
        (call,) = extract_tool_calls(row.write("write", WRITE), tools, given=[given]).calls
        assert call.echo
