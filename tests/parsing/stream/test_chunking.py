"""The law of streaming for texts that are about calls: any pieces give the same."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.benchmarks.chunking import TOOLS, differs, write_text
from tests.each import check_rows
from tests.thorough import sample


@pytest.mark.thorough
@pytest.mark.parametrize("tools", TOOLS, ids=["plain names", "names with punctuation", "common names"])
def test_a_random_text_gives_the_same_in_any_pieces(tools):
    for seed in sample(range(600), 24):
        text = write_text(random.Random(f"{len(tools)} {seed}"), tools)
        assert not differs(text, tools), text


NAME_PARTS = st.sampled_from(
    ["functions.", "api::", "tool/", "call:", "x.", "read", "Read", "run", "fs.read_file", "a__b", "web-search", ":0", "()",
     ".call", ".run", "(call_1)", "<|message|>", "\\", "`", "**", " ", "é", "_"]
)  # fmt: skip
NAMED_CALLS = (
    '<tool_call>{{"name": "{name}", "arguments": {{"path": "a"}}}}</tool_call>',
    '{{"name": "{name}", "arguments": {{"path": "a"}}}}',
    '<tool_call>{{"{name}": {{"path": "a"}}}}</tool_call>',
    'TOOL_CALL: {{"name": "{name}", "args": {{"path": "a"}}}}',
    "<tool_call><function={name}><parameter=path>\na\n</parameter></function></tool_call>",
    '<invoke name="{name}"><parameter name="path">a</parameter></invoke>',
    '{name}(path="a")',
    'Action: {name}\nAction Input: {{"path": "a"}}\n',
)


@given(st.lists(NAME_PARTS, min_size=1, max_size=12), st.integers(1, 30), st.sampled_from(NAMED_CALLS))
def test_a_call_of_any_name_is_the_same_in_any_pieces(parts, times, template):
    text = template.format(name="".join(parts[:-1]) + parts[-1] * times)
    for tools in TOOLS:
        assert not differs(text, tools)


SHAPES = {
    "two closers in one": "<toolcall></tool_call></tool_calls>",
    "a sign within a quoted key": '<invoke name=list\n<parameter="items="\n</invoke>',
    "a special token in a name": "<invoke name=run\n<parametername=command></parameter><parametername=m<|d|>\n</invoke>",
    "one in a call in a value": "<invoke name=d\n<parametername=h\n<invokename=&<|e|>\n</invoke></ax:tool_call>",
    "a fence that is a label": "```tool\nread\nBEGIN_ARG: 3\nBEGIN_ARG: ````\n",
    "a backtick behind our marker": "TOOLCALL\n`{n",
    "one behind a bullet": "toolcall\n*`python(",
    "two colons behind a label in a fence": "```\nTOOL_NAME: : ",
    "our marker before a sign that makes it a variable": "```\nTOOLCALL=<|python_tag|>{",
    "the end of a block that was text": 'Never<|FunctionCallBegin|>[</longcat_tool_call>>>servertool{"q":1}',
    "a key that becomes a call in a string": '[{"i:servertool(":{"q":=}',
    "two, on its line": "toolcall ``TOOL_NAME:e",
    "a token that ends a key's tag": "<|open|>call tool=h<|sep|><|open|>argumentkey=n<|p|><|sep|><|close|>call<|sep|>",
    "an attribute behind a label": "l>toolcall`TOOL_NAME: o=a` ",
    "a long tag": f'<invoke name="{"functions." * 29}"><parameter name="path">a</parameter></invoke>',
    "a result behind blanks on the line of a call": "getweather(x<|tool_call_end|> Observation:",
    "a result behind blanks on the line of a call that is malformed": '{"name":websearch,"arguments":n] Observation:',
}


@check_rows("text", SHAPES.values())
def test_a_marker_that_more_text_changes_waits_for_it(text):
    assert not any(differs(text, tools) for tools in TOOLS)
