"""Every character of the input is in exactly one event: shown, or its raw text."""

from src.parsing import Cut, Malformed, ParsedCall, Reasoned, gathered
from src.types.messages import ToolCall
from tests.each import check_rows
from tests.parsing.laws import events_of, join_all, summarize

CALL = 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}'


@check_rows(
    "text, kind, raw",
    [
        (f"Now {CALL} then", ParsedCall, CALL),
        ('Now TOOL_CALL: {"name": "raed", "args": {}}', Malformed, 'TOOL_CALL: {"name": "raed", "args": {}}'),
        ("<think>a</think>b", Cut, "<think>"),
        ("a</think>b", Reasoned, "</think>"),
    ],
)
def test_an_event_that_is_not_shown_holds_its_raw_text(text, kind, raw):
    events = events_of(text)
    assert next(event.raw for event in events if isinstance(event, kind)) == raw
    assert join_all(events) == text


def test_of_several_calls_in_one_block_the_first_has_the_text():
    two = '<tool_call>[{"name": "read", "arguments": {"path": "a"}}, {"name": "read", "arguments": {"path": "b"}}]</tool_call>'
    assert [event.raw for event in events_of(two) if isinstance(event, ParsedCall)] == [two, ""]
    assert join_all(events_of(two)) == two
    assert summarize(events_of(two)) == summarize(events_of(two, range(1, len(two))))


def test_calls_malformed_ones_and_text_are_told_apart():
    found = gathered(events_of(f"One.\n{CALL}\nTwo.\nTOOL_CALL: {{\n"))
    assert found.content == "One.\n\nTwo.\n"
    assert found.calls == (ToolCall("000000001", "read", {"path": "a.txt"}, "text"),)
    assert len(found.malformed) == 1
