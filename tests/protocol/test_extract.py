"""Whole answers, and events summed up."""

from src.messages import ToolCall
from src.protocol import StreamParser, extract_tool_calls, gathered
from tests.protocol.laws import TOOLS

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
