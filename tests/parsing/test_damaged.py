"""Calls that models write a little wrong land as they were meant, whole and in pieces."""

from __future__ import annotations

import json

import pytest

from src.parsing import StreamParser, extract_tool_calls, gathered
from src.types.messages import ToolDefinition
from tests.each import check_rows

SHELL = ToolDefinition(
    "shell",
    "",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
        "required": ["command"],
    },
)
ARGUMENTS = {"command": 'echo "}" \\n', "timeout": 5}
OBJECT = json.dumps(ARGUMENTS)
ONCE, TWICE = json.dumps(OBJECT), json.dumps(json.dumps(OBJECT))
ENTITIES = json.dumps({"name": "shell", "arguments": ARGUMENTS}).replace("&", "&amp;").replace('"', "&quot;")
TEXTS = {
    "a bold name, Mistral": f"[TOOL_CALLS]**shell**[ARGS]{OBJECT}",
    "a name in backticks, Mistral": f"[TOOL_CALLS]`shell`[ARGS]{OBJECT}",
    "a bold name, Harmony": f"<|channel|>commentary to=functions.**shell** <|constrain|>json<|message|>{OBJECT}<|call|>",
    "arguments as a string, Mistral": f"[TOOL_CALLS]shell[ARGS]{ONCE}",
    "arguments as a string of a string, Mistral": f"[TOOL_CALLS]shell[ARGS]{TWICE}",
    "arguments as a string, DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>shell<｜tool▁sep｜>"
    f"{ONCE}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "arguments as a string, Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.shell:0"
    f"<|tool_call_argument_begin|>{ONCE}<|tool_call_end|><|tool_calls_section_end|>",
    "arguments as a string, Functionary": f">>>shell\n{ONCE}",
    "keys in quotes of the model's own, Gemma": '<|tool_call>call:shell{<|"|>command<|"|>:<|"|>'
    f'{ARGUMENTS["command"]}<|"|>,<|"|>timeout<|"|>:5}}<tool_call|>',
    "no marker, Gemma": f'call:shell{{command:<|"|>{ARGUMENTS["command"]}<|"|>,timeout:5}}',
    "a namespace with a slash, Python": f"api/shell(command={ARGUMENTS['command']!r}, timeout=5)",
    "arguments in a fence, Hermes": '<tool_call>\n{"name": "shell", "arguments": \n```json\n'
    f"{OBJECT}\n```\n}}\n</tool_call>",
    "arguments in a fence, Llama": f'<|python_tag|>{{"name": "shell", "parameters": \n```json\n{OBJECT}\n```\n}}',
    "entities for quotes": f"<tool_call>\n{ENTITIES}\n</tool_call>",
}


@check_rows("size", [1, 3, 7, 10_000])
@check_rows("name", TEXTS)
def test_the_call_lands_as_it_was_meant(name, size):
    text, parser = TEXTS[name], StreamParser([SHELL])
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    landed = gathered(events + parser.close())
    assert [(call.name, call.arguments) for call in landed.calls] == [("shell", ARGUMENTS)]
    assert landed.content == ""


CODE = "def f(n):\n    a, b = 0, 1\n    return b\n\nprint(f(30))"
BARE_VALUES = {
    "code": (f"{{command:{CODE}}}", {"command": CODE}),
    "empty": ("{command:,timeout:5}", {"command": "", "timeout": 5}),
    "empty at the end": ("{timeout:5,command:}", {"timeout": 5, "command": ""}),
    "members on lines": ("{command:ls -la\ntimeout:5}", {"command": "ls -la", "timeout": 5}),
}


@check_rows("name", BARE_VALUES)
def test_a_value_without_quotes_is_guessed(name):
    body, arguments = BARE_VALUES[name]
    calls = extract_tool_calls(f"<|tool_call>call:shell{body}<tool_call|>", [SHELL]).calls
    assert [(call.arguments, call.guessed) for call in calls] == [(arguments, True)]


def test_json_without_a_value_is_told():
    text = '<tool_call>{"name": "shell", "arguments": {"command": , "timeout": 5}}</tool_call>'
    assert [call.name for call in extract_tool_calls(text, [SHELL]).malformed]


def test_a_name_on_its_line_before_the_pairs_of_glm_is_a_call():
    pairs = "<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>"
    assert [call.arguments for call in extract_tool_calls(f"shell\n{pairs}", [SHELL]).calls] == [{"command": "ls"}]
    parser = StreamParser([SHELL])
    pieces = gathered([event for character in f"shell\n{pairs}" for event in parser.feed(character)] + parser.close())
    assert [call.arguments for call in pieces.calls] == [{"command": "ls"}]
    assert not extract_tool_calls(f"In shell\n{pairs}", [SHELL]).calls


def test_an_object_in_a_string_that_is_not_closed_is_no_call():
    landed = extract_tool_calls(f"[TOOL_CALLS]shell[ARGS]{ONCE[:-1]}", [SHELL])
    assert not landed.calls


@check_rows("size", [1, 10_000])
@check_rows(
    "text",
    [
        f"shell[ARGS]{OBJECT}",
        f"I run it.\n\nshell[ARGS] {OBJECT}",
        f"<think>Which one?</think>functions.shell[ARGS]{OBJECT}",
    ],
)
def test_mistral_s_arguments_behind_a_name_are_a_call_without_the_marker_before_it(text, size):
    parser = StreamParser([SHELL])
    events = [event for at in range(0, len(text), size) for event in parser.feed(text[at : at + size])]
    assert [call.arguments for call in gathered(events + parser.close()).calls] == [ARGUMENTS]


def test_another_name_before_mistral_s_arguments_is_text():
    assert not extract_tool_calls(f"other[ARGS]{OBJECT}", [SHELL]).calls


@pytest.mark.parametrize(
    "text",
    [
        '{"answer": "Gemma writes call:shell{command:ls}"}',
        'call:other{query:"<tool_call>{\\"name\\": \\"shell\\", \\"arguments\\": {\\"command\\": \\"ls\\"}}</tool_call>"}',
    ],
)
def test_a_call_in_the_string_of_an_object_is_data(text):
    landed = extract_tool_calls(text, [SHELL])
    assert (landed.calls, landed.content) == ((), text)


NULLABLE = ToolDefinition(
    "keep",
    "",
    {
        "type": "object",
        "properties": {
            "typed": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "null"}, {"type": "string"}]},
            "text": {"type": "string"},
            "any": {},
        },
    },
)


@check_rows(
    "name, value, guessed",
    [("typed", None, False), ("either", None, False), ("text", "null", False), ("any", None, True)],
)
def test_null_in_tags_is_null_where_the_schema_allows_it(name, value, guessed):
    text = f"<tool_call><function=keep><parameter={name}>null</parameter></function></tool_call>"
    assert [(call.arguments, call.guessed) for call in extract_tool_calls(text, [NULLABLE]).calls] == [
        ({name: value}, guessed)
    ]


def test_a_call_is_not_doubted_for_the_next_one_that_is_cut_off():
    call = "<tool_call>\n<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"
    landed = extract_tool_calls(f"{call}\n{call[:50]}", [SHELL], truncated=True)
    assert [(made.arguments, made.guessed) for made in landed.calls] == [({"command": "ls"}, False)]
    assert len(landed.malformed) == 1


def test_a_call_is_doubted_for_a_cut_one_of_another_format():
    """The first value holds the quote of its own format, and then a tag of another one."""
    text = "<start_function_call>call:shell{command:<escape><escape>]<invoke name='shell'><escape>}<end_function_call>"
    landed = extract_tool_calls(text, [SHELL])
    assert [call.guessed for call in landed.calls] == [True]
