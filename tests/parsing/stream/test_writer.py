"""The events of an answer."""

from src.parsing.events import Cut, Doubted
from src.parsing.formats.format_set import FORMAT_SET
from src.parsing.stream.writer import EventWriter
from src.types.events import TextDelta
from src.types.messages import ToolCall

CALL = ToolCall("c0", "read", {"path": "a.txt"})


def test_what_was_shown_since_a_call_is_counted():
    writer = EventWriter(FORMAT_SET)
    writer.show("before it")
    writer.emit_call(CALL, "[call]", is_bare=False)
    writer.show("one two ")
    assert writer.shown_chars == 6


def test_text_behind_a_call_makes_it_no_trailing_one():
    writer = EventWriter(FORMAT_SET)
    writer.emit_call(CALL, "[call]", is_bare=False)
    writer.show("\n")
    assert writer.trailing_calls == [CALL]
    writer.show("text")
    assert not writer.trailing_calls


def test_a_closer_behind_a_call_with_bare_values_doubts_it_once():
    writer = EventWriter(FORMAT_SET)
    writer.emit_call(CALL, "[call]", is_bare=True)
    writer.follow_bare_values(("</q>",), "rows")
    writer.emit(Cut("text </q"))
    writer.show(">")
    writer.take_events()
    writer.doubt_closed_calls()
    writer.doubt_closed_calls()
    assert writer.take_events() == [Doubted("", is_certain=True)]


def test_events_are_taken_once():
    writer = EventWriter(FORMAT_SET)
    writer.show("text")
    assert writer.take_events() == [TextDelta("text")]
    assert not writer.take_events()
