"""The text not emitted yet."""

from src.parsing.stream.buffer import MAX_SAID, Tape, solid_length
from src.types.events import TextDelta


def test_what_was_shown_is_dropped_and_its_line_remembered():
    tape = Tape()
    tape.add("one\ntwo three")
    tape.show(8)
    assert tape.taken() == [TextDelta("one\ntwo ")]
    assert tape.cut_down() == 8
    assert (tape.text, tape.line(5), tape.before()) == ("three", "two three", " ")


def test_a_line_begins_where_a_block_ended():
    tape = Tape()
    tape.add("[block] rest")
    tape.skip_to(7)
    assert tape.starts_line(7)
    assert tape.line(12) == " rest"


def test_how_much_was_written_is_exact_where_it_is_little():
    assert solid_length(" a  b\n" * 5) == 10
    assert solid_length("x" * 10_000) > MAX_SAID
    assert solid_length(" " * 1_000 + "abc") == 3


def test_how_much_was_said_counts_what_was_shown_and_what_would_be():
    tape = Tape()
    tape.called = True
    tape.add("one two three four")
    tape.show(4)
    assert [tape.said_by(end) for end in (8, 14, 8, 18)] == [6, 11, 6, 15]
    tape.show(14)
    assert (tape.said, tape.said_by(18)) == (11, 15)
