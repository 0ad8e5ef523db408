"""The text that is not emitted yet."""

import pytest

from src.parsing.stream.buffer import CONTEXT_CHARS, MAX_SHOWN_CHARS, GivenBack, TextBuffer, count_nonspace


def test_what_was_shown_is_dropped_but_for_what_is_read_backwards():
    buffer = TextBuffer()
    buffer.text = "x" * 1_000 + "\ntwo three"
    buffer.pass_shown(1_005)
    size = len(buffer.text)
    buffer.drop_shown()
    assert size - len(buffer.text) == 1_005 - CONTEXT_CHARS
    assert (buffer.text[buffer.start :], buffer.find_line(len(buffer.text))) == ("three", "two three")


def test_a_block_and_what_precedes_it_are_dropped():
    buffer = TextBuffer()
    buffer.text = "one [block] two"
    buffer.skip(11)
    buffer.pass_shown(13)
    buffer.drop_shown()
    assert (buffer.text, buffer.start, buffer.find_lead(4)) == (" two", 2, " two")


def test_a_line_begins_where_a_block_ended():
    buffer = TextBuffer()
    buffer.text = "[block] rest"
    buffer.skip(7)
    assert buffer.starts_line(7)
    assert buffer.find_line(12) == " rest"


@pytest.mark.parametrize("is_dropped", [False, True])
def test_what_is_given_back_is_read_again_behind_what_was_shown(is_dropped):
    buffer = TextBuffer()
    buffer.text = "one [block] two"
    end = 11
    buffer.take(end)
    if is_dropped:
        buffer.replace(" two")
        end = 0
    buffer.give_back(GivenBack("[block]", "one ", end, 1, True))
    assert (buffer.text, buffer.start, buffer.position) == ("one [block] two", 4, 5)
    assert buffer.in_fence


def test_how_much_was_written_is_exact_where_it_is_little():
    assert count_nonspace(" a  b\n" * 5) == 10
    assert count_nonspace("x" * 10_000) > MAX_SHOWN_CHARS
    assert count_nonspace(" " * 1_000 + "abc") == 3


def test_how_much_would_be_shown_is_counted_from_what_is_not():
    buffer = TextBuffer()
    buffer.text = "one two three four"
    buffer.pass_shown(4)
    assert [buffer.count_ahead(end) for end in (8, 14, 8, 18)] == [3, 8, 3, 12]
    buffer.pass_shown(14)
    assert buffer.count_ahead(18) == 4
