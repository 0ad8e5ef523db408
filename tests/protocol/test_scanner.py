"""The stream parser: what is shown, what is a call, and that the chunking makes no difference."""

import pytest

from src.messages import TextDelta, ToolDefinition
from src.protocol import Malformed, ParsedCall, StreamParser, extract_tool_calls

READ = ToolDefinition("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
TOOLS = [READ]


def in_pieces(text: str, size: int):
    parser = StreamParser(TOOLS)
    events = [event for start in range(0, len(text), size) for event in parser.feed(text[start : start + size])]
    return events + parser.close()


def shown(events) -> str:
    return "".join(event.text for event in events if isinstance(event, TextDelta))


def calls(events) -> list:
    return [(event.call.name, event.call.arguments) for event in events if isinstance(event, ParsedCall)]


BLOCKS = {
    "plain": 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}',
    "nested braces": 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt", "o": {"p": {"q": {}}}}}',
    "braces and quotes in strings": r'TOOL_CALL: {"name": "read", "args": {"path": "}}{\" \\"}}',
    "several lines": 'TOOL_CALL: {\n  "name": "read",\n  "args": {\n    "path": "a.txt"\n  }\n}',
    "in a fence": '```json\nTOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}\n```',
}


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10_000])
@pytest.mark.parametrize("block", BLOCKS.values(), ids=BLOCKS)
def test_a_block_is_one_call_and_only_the_prose_around_it_is_shown(block, size):
    events = in_pieces(f"Let me look.\n{block}\nDone.", size)
    assert shown(events) == "Let me look.\n\nDone."
    assert [name for name, _ in calls(events)] == ["read"]


def test_several_blocks_are_several_calls():
    text = 'TOOL_CALL: {"name": "read", "args": {"path": "a"}}\nTOOL_CALL: {"name": "read", "args": {"path": "b"}}'
    assert [call.arguments for call in extract_tool_calls(text, TOOLS).calls] == [{"path": "a"}, {"path": "b"}]


@pytest.mark.parametrize("key", ["args", "arguments", "parameters", "params", "input"])
def test_arguments_are_read_under_any_of_their_usual_keys(key):
    call = extract_tool_calls(f'TOOL_CALL: {{"name": "read", "{key}": {{"path": "a"}}}}', TOOLS).calls[0]
    assert (call.arguments, call.origin) == ({"path": "a"}, "text")


@pytest.mark.parametrize("size", [1, 5, 10_000])
def test_a_block_that_never_ends_is_malformed_and_keeps_its_raw_text(size):
    text = 'TOOL_CALL: {"name": "read", "args": {"path": "a'
    events = in_pieces("Now: " + text, size)
    assert shown(events) == "Now: "
    assert [event.raw for event in events if isinstance(event, Malformed)] == [text]


def test_ids_are_nine_letters_and_digits_and_differ():
    found = extract_tool_calls('TOOL_CALL: {"name": "read", "args": {}}' * 2, TOOLS).calls
    assert len({call.id for call in found}) == 2
    assert all(len(call.id) == 9 and call.id.isalnum() for call in found)
