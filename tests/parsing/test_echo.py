"""A call that repeats what the model was given is recognized in whatever form it was given."""

import html
import json

import pytest

from src.parsing import GivenText, StreamParser, extract_tool_calls
from src.parsing.echo import SoughtCall, read_calls
from src.parsing.formats.table import FORMATS
from src.types.messages import ToolCall, ToolDefinition, ToolResult
from tests.each import check_each, check_rows
from tests.parsing.laws import TOOLS

LINE = "rm -rf \"my build\" && echo 'x'"
EXEC = ToolDefinition(
    "exec",
    "Run a command.",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
)
WRITE_TOOL = ToolDefinition(
    "write",
    "Write.",
    {"type": "object", "properties": {"path": {}, "content": {}}, "required": ["path", "content"]},
)
RESET = ToolDefinition("reset", "Reset.", {"type": "object", "properties": {"hard": {"type": "boolean"}}})
WRITE = {"path": "src/a.py", "content": "# top\n- a\n> b\n\n\"x\" = 'y' \\n é\n"}
OBJECT = json.dumps({"name": "exec", "arguments": {"command": LINE}})
REORDERED = json.dumps({"arguments": {"command": LINE}, "name": "exec"}, indent=2)
SAID = f"TOOL_CALL: {OBJECT}"
TAGGED = f"<tool_call>\n<function=exec>\n<parameter=command>\n{LINE}\n</parameter>\n</function>\n</tool_call>"
GIVEN = {
    "as it stands": f"Do this: {OBJECT}",
    "reordered, over several lines": REORDERED,
    "in a fence": f"```json\n{REORDERED}\n```",
    "in Python": f"exec(command={LINE!r})",
    "by position": f"Use it like this:\n\nexec({json.dumps(LINE)})",
    "in tags": TAGGED,
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
    "as an indented comment": "\n".join(f"    // {line}" for line in TAGGED.split("\n")),
    "as a documentation comment": "\n".join(f" * {line}" for line in TAGGED.split("\n")),
    "with its author and date": "\n".join(
        f"a1b2c3d4 (Ann 2026-01-0{n} 10:00:00 +0000 {n}) {line}" for n, line in enumerate(TAGGED.split("\n"), 1)
    ),
    "with numbers on lines of their own": "\n".join(f"{n}\n{line}" for n, line in enumerate(TAGGED.split("\n"), 1)),
    "in a cell of a table": 'a,"' + TAGGED.replace('"', '""') + '"\n',
    "in labels in a string of a result": json.dumps(
        {"text": f'Action: exec\nAction Input: {{"command": {json.dumps(LINE)}}}'}
    ),
    "encoded twice, with entities": html.escape(
        json.dumps({"function_call": {"name": "exec", "arguments": json.dumps({"command": LINE})}})
    ),
    "in the middle of a sentence": f"If you want it, {OBJECT} will do it.",
    "in inline code": f"Call `{OBJECT}` when ready.",
    "as a call in inline code": f"Call `exec({json.dumps(LINE)})` when ready.",
    "in a page": f"<p>Call <code>{html.escape(f'exec(command={LINE!r})')}</code>.</p>",
    "in a fence behind other code": f"```python\nimport os\nexec(command={LINE!r})\n```",
    "in a string of a program": f"PROMPT = {json.dumps(f'TOOL_CALL: {OBJECT}')}",
    "in a line of a journal": '{"x": 1}\n' + json.dumps({"content": f"TOOL_CALL: {OBJECT}"}) + "\n{}",
    "in a request of an API": json.dumps(
        {"tool_calls": [{"function": {"name": "exec", "arguments": json.dumps({"command": LINE})}}]}
    ),
    "in thoughts": f"<think>\nI could {OBJECT}",
    "behind thoughts": f"so much for that </think> {OBJECT}",
    "behind a result": f'TOOL_CALL: {{"name": "read", "args": {{}}}}\nObservation: x\n\n{OBJECT}',
    "behind many calls": '{"name": "exec", "arguments": {"command": "ls"}}\n' * 40 + OBJECT,
    "behind a call that is not closed": f"<tool_call>\n<function=exec>\n<parameter=command>x\n\n{OBJECT}",
    "with an argument more": json.dumps({"name": "exec", "arguments": {"command": LINE, "timeout": 5}}),
}
OTHER = {
    "an instruction": f"Use exec to run `{LINE}`, please.",
    "a name and a command": f"exec: {LINE}",
    "a command alone": LINE,
    "the output of a command": f"[exec finished]\n$ {LINE}\n0 files",
    "another command": OBJECT.replace("my build", "dist"),
    "another tool": OBJECT.replace("exec", "execute"),
    "a file with the name and the command": f"jobs:\n  exec:\n    run: {LINE}\n",
    "a program that uses both": f"x = exec(command)\nprint({LINE!r})",
    "an object with other members": json.dumps({"kind": "exec", "command": LINE}),
    "a definition of the tool": json.dumps(
        {
            "name": "exec",
            "parameters": {"type": "object", "properties": {"command": {"type": "string", "description": LINE}}},
        }
    ),
    "two other calls": f'{OBJECT.replace("exec", "read")}\n{{"name": "exec", "arguments": {{"command": "ls"}}}}',
    "words between": f'exec is a tool. It takes the argument "command". Then {LINE} would delete it.',
}


@check_each(given=GIVEN.values())
def test_a_call_that_was_given_in_any_form_is_an_echo(given):
    (call,) = extract_tool_calls(SAID, [EXEC], given=[given]).calls
    assert call.echo


@check_rows("given", OTHER.values())
def test_what_is_not_the_same_call_is_none(given):
    (call,) = extract_tool_calls(SAID, [EXEC], given=[given]).calls
    assert not call.echo


@check_each(row=FORMATS)
def test_a_call_that_was_given_in_any_format_is_an_echo_in_another(row):
    said = 'TOOL_CALL: {"name": "get_weather", "args": {"city": "Oslo"}}'
    (call,) = extract_tool_calls(said, TOOLS, given=[f"The file says:\n{row.example}\nand so on."]).calls
    assert call.echo


def is_echo(name, arguments, given, *, tools=(EXEC, WRITE_TOOL, RESET)):
    call = SoughtCall(ToolCall("1", name, arguments), "")
    return given.holds_call(call, tools, lambda: StreamParser(tools))


@pytest.mark.parametrize(
    "given",
    [
        json.dumps({"name": "write", "arguments": WRITE}),
        json.dumps({"arguments": {**WRITE, "path": "./src/a.py"}, "name": "write"}, indent=1, ensure_ascii=False),
        "\n".join(
            f"{number}\t{line}"
            for number, line in enumerate(
                f"<write>\n<path>src/a.py</path>\n<content>{WRITE['content']}</content>\n</write>".split("\n"), 1
            )
        ),
    ],
)
def test_long_values_are_compared_without_what_quoting_and_line_numbers_add(given):
    assert is_echo("write", WRITE, GivenText(given))
    assert not is_echo("write", {**WRITE, "path": "src/b.py"}, GivenText(given))


def test_a_call_without_arguments_is_an_echo_of_its_like():
    assert is_echo("reset", {}, GivenText('First {"name":   "reset", "arguments": {}}.'))
    assert not is_echo("reset", {}, GivenText('First {"name": "reset", "arguments": {"hard": true}}.'))
    assert not is_echo("reset", {}, GivenText("Then reset it."))


def test_a_text_is_read_once_for_the_same_tools_and_only_if_it_holds_the_calls_name_and_values():
    made = []

    def make_parser():
        made.append(StreamParser([EXEC]))
        return made[-1]

    given, tools = GivenText(f"The file says: {OBJECT}"), object()
    assert not given.holds_call(SoughtCall(ToolCall("1", "write", WRITE), ""), tools, make_parser)
    assert not given.holds_call(SoughtCall(ToolCall("1", "exec", {"command": "ls"}), ""), tools, make_parser)
    assert made == []
    call = SoughtCall(ToolCall("1", "exec", {"command": LINE}), "")
    assert given.holds_call(call, tools, make_parser)
    first = len(made)
    assert given.holds_call(call, tools, make_parser)
    assert len(made) == first
    assert given.holds_call(call, object(), make_parser)
    assert len(made) == 2 * first


def test_a_text_that_is_all_calls_costs_no_more_than_it_may():
    quoted = f"{OBJECT}\n".replace("my build", "dist") * 1_600
    assert read_calls(quoted, lambda: StreamParser([EXEC])) is None
    assert is_echo("exec", {"command": LINE}, GivenText(f"{quoted} {LINE}"))


def test_a_text_that_is_all_beginnings_costs_no_more_than_it_may():
    assert read_calls("<tool_call><function=exec><parameter=command>" * 2_000, lambda: StreamParser([EXEC])) is None


@check_each(written=GIVEN.values())
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


@check_rows("value", ROWS_OF_RESULTS.values())
@check_rows("row", [row for row in FORMATS if row.name in ("hermes", "qwen3_coder", "mistral")])
def test_a_call_in_a_numbered_file_is_an_echo_in_a_result_of_any_kind(value, row):
    result = ToolResult("1", "read", "text" if isinstance(value, str) else "data", value)
    picture = ToolResult(
        "1", "read", "multimodal", [{"type": "text", "text": NUMBERED}, {"type": "image", "data": "A"}]
    )
    tools = [ToolDefinition("write", "Write.", {"type": "object", "properties": {"path": {}, "content": {}}})]
    for given in (result.text, picture.text):
        (call,) = extract_tool_calls(row.write("write", WRITE), tools, given=[given]).calls
        assert call.echo
