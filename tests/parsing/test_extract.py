"""Whole answers, and events summed up."""

import pytest

from src.parsing import StreamParser, extract_tool_calls, gathered
from src.types.messages import ToolCall
from tests.parsing.laws import TOOLS, events_of

CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a"}}'


def test_a_whole_answer_is_its_stream_fed_once_and_closed():
    text = f"One.\n{CALL}\nTwo.\nTOOL_CALL: {{\n"
    parser = StreamParser(TOOLS)
    assert extract_tool_calls(text, TOOLS) == gathered(parser.feed(text) + parser.close())


def test_calls_malformed_ones_and_text_are_told_apart():
    found = extract_tool_calls(f"One.\n{CALL}\nTwo.\nTOOL_CALL: {{\n", TOOLS)
    assert found.content == "One.\n\nTwo.\n"
    assert found.calls == (ToolCall("000000001", "read", {"path": "a"}, "text"),)
    assert len(found.malformed) == 1


def test_openai_tool_objects_will_do():
    tool = {
        "type": "function",
        "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}},
    }
    assert len(extract_tool_calls(CALL, [tool]).calls) == 1


def test_ids_come_from_the_caller_where_it_gives_a_source():
    assert extract_tool_calls(CALL, TOOLS, new_id=lambda: "mine").calls[0].id == "mine"


def test_more_calls_are_found_where_more_are_allowed():
    assert len(extract_tool_calls(f"{CALL}\n" * 227, TOOLS, max_calls=1000).calls) == 227


def test_without_tools_nothing_merely_looks_like_a_call():
    assert extract_tool_calls("read(path='a')", []).content == "read(path='a')"


SHAPES = {
    "a comment before it in its fence": "```python\n# Read the file.\nread(path='a')\n```",
    "a variable in its fence": "```python\ncontent = read(path='a')\nprint(content)\n```",
    "a list in a variable in its fence": "```python\ncontents = [read(path='a')]\n```",
    "print in its fence": "```tool_code\nprint(read(path='a'))\n```",
    "a name in bold": "**read**(path='a')",
    "a name in backticks": "`read`(path='a')",
    "brackets of ReAct": "Thought: I must look.\nAction: read[a]\nObservation: it says",
    "keywords in ReAct": "Action: read\nAction Input: path='a'\n",
    "behind thoughts in a channel": '<|channel>thought\nI need it.\n<channel|>call:read{path:<|"|>a<|"|>}',
    "a turn's end behind it": '<|tool_call>call:read{path:<|"|>a<|"|>}<turn|>',
    "arguments encoded as a string under the name": '[{"read": "{\\"path\\": \\"a\\"}"}]',
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_call_in_other_shapes_is_found_whole_and_character_by_character(text):
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert [(call.name, call.arguments) for call in found.calls] == [("read", {"path": "a"})]


@pytest.mark.parametrize(
    "text",
    [
        "```python\n# Read the file.\ndef load():\n    return read(path='a')\n```",
        "```python\ntotal = sum([1, 2])\n```",
        "```sh\n# read the file\ncat a\n```",
        "The action: look[a] or Action: find[a]\n",
        "**read**: (see below)",
        "`read` (path) reads a file.",
        "<<function>> is what Gorilla writes.",
        "<|recipient|>all\n<|content|>Hello.",
        "<readme>see</readme>",
    ],
)
def test_what_only_looks_like_such_a_shape_is_none(text):
    for cuts in ((), range(1, len(text))):
        found = gathered(events_of(text, cuts))
        assert (found.calls, found.malformed, found.content) == ((), (), text)
