"""The text not emitted yet."""

from src.parsing.stream.buffer import CONTEXT_CHARS, MAX_SHOWN_CHARS, StreamBuffer, count_nonspace
from src.types.events import TextDelta


def test_what_was_shown_is_dropped_but_for_what_is_read_backwards():
    buffer = StreamBuffer()
    buffer.text = "x" * 1_000 + "\ntwo three"
    buffer.show(1_005)
    assert buffer.take_events() == [TextDelta("x" * 1_000 + "\ntwo ")]
    assert buffer.drop_shown() == 1_005 - CONTEXT_CHARS
    assert (buffer.text[buffer.start :], buffer.find_line(len(buffer.text))) == ("three", "two three")


def test_a_block_and_what_precedes_it_are_dropped():
    buffer = StreamBuffer()
    buffer.text = "one [block] two"
    buffer.skip(11)
    buffer.show(13)
    buffer.drop_shown()
    assert (buffer.text, buffer.start, buffer.find_lead(4)) == (" two", 2, " two")


def test_a_line_begins_where_a_block_ended():
    buffer = StreamBuffer()
    buffer.text = "[block] rest"
    buffer.skip(7)
    assert buffer.starts_line(7)
    assert buffer.find_line(12) == " rest"


def test_how_much_was_written_is_exact_where_it_is_little():
    assert count_nonspace(" a  b\n" * 5) == 10
    assert count_nonspace("x" * 10_000) > MAX_SHOWN_CHARS
    assert count_nonspace(" " * 1_000 + "abc") == 3


def test_how_much_was_said_counts_what_was_shown_and_what_would_be():
    buffer = StreamBuffer()
    buffer.called = True
    buffer.text = "one two three four"
    buffer.show(4)
    assert [buffer.count_shown_at(end) for end in (8, 14, 8, 18)] == [6, 11, 6, 15]
    buffer.show(14)
    assert (buffer.shown_chars, buffer.count_shown_at(18)) == (11, 15)
