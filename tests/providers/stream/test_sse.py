import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import WireError
from src.providers.stream.sse import EventDecoder
from tests.each import check_rows

STREAMS = {
    "one event": (b"data: a\n\n", [b"a"]),
    "CRLF": (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
    "lone CR": (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
    "no blank after the colon": (b"data:a\n\n", [b"a"]),
    "only the first blank belongs to the field": (b"data:  a\n\n", [b" a"]),
    "several data lines are one event": (b"data: a\ndata: b\n\n", [b"a\nb"]),
    "an empty data line is a line": (b"data\ndata: b\n\n", [b"\nb"]),
    "comments": (b": keep-alive\n\n: ping\ndata: a\n\n", [b"a"]),
    "other fields": (b"event: x\nid: 7\nretry: 10\ndata: a\n\n", [b"a"]),
    "byte order mark": (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
    "U+2028 and U+0085 end no line": ("data: a\u2028b\u0085c\n\n".encode(), ["a\u2028b\u0085c".encode()]),
    "an event that no blank line ends is none": (b"data: a\n\ndata: torn\n", [b"a"]),
    "blank lines alone": (b"\n\n\r\n\r", []),
}


def decode(*chunks: bytes) -> list[bytes]:
    decoder = EventDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@check_rows("stream, events", STREAMS.values())
def test_a_stream_gives_its_events_whole_and_byte_by_byte(stream: bytes, events: list[bytes]):
    assert decode(stream) == events
    assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == events


@check_rows("stream, events", STREAMS.values())
def test_a_stream_gives_its_events_split_anywhere(stream: bytes, events: list[bytes]):
    for cut in range(len(stream) + 1):
        assert decode(stream[:cut], stream[cut:]) == events


@given(st.lists(st.sampled_from([b"data: x", b"data:", b":", b"\n", b"\r", b"\r\n", b"\xef\xbb\xbf", b"id: 1", b"y"])))
def test_chunking_never_changes_the_events(pieces: list[bytes]):
    assert decode(*pieces) == decode(b"".join(pieces))


def test_an_event_is_given_with_the_cr_that_ends_it_and_not_with_the_next_byte():
    assert decode(b"data: a\r\r") == [b"a"]


def test_an_event_over_the_limit_is_an_error_in_one_line_and_in_many():
    with pytest.raises(WireError, match="more than 100 bytes"):
        EventDecoder(max_event_bytes=100).feed(b"data: " + b"x" * 200)
    decoder = EventDecoder(max_event_bytes=100)
    with pytest.raises(WireError, match="more than 100 bytes"):
        for _ in range(20):
            decoder.feed(b"data: 0123456789\n")
