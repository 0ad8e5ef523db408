"""Events of a server that are not chunks of the documented form."""

from __future__ import annotations

import json

import pytest

from src.providers.stream.sse import EventDecoder
from src.serve.chunks.intake import make_chunks, sort_events, take_rest

CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
ANSWER = {
    "id": "x",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"content": "Hi", "tool_calls": [CALL, CALL]}, "finish_reason": "tool_calls"}],
    "usage": {"prompt_tokens": 1},
}


def test_a_whole_answer_becomes_chunks_with_numbered_calls():
    said, ended, usage = map(json.loads, make_chunks(ANSWER, has_usage=True))
    assert (said["object"], said["choices"][0]["delta"]["content"]) == ("chat.completion.chunk", "Hi")
    assert [call["index"] for call in said["choices"][0]["delta"]["tool_calls"]] == [0, 1]
    assert (said["choices"][0]["finish_reason"], ended["choices"][0]["finish_reason"]) == (None, "tool_calls")
    assert (usage["choices"], usage["usage"]) == ([], {"prompt_tokens": 1})


@pytest.mark.parametrize("data", [b'{"error":{"message":"no"}}', b'{"choices":null}', b'{"choices":[{"delta":null}]}'])
def test_what_is_no_answer_passes_as_it_is(data):
    assert sort_events([data], []) == ([data], False)


def test_blank_events_are_left_out_and_nothing_behind_the_end_is_read():
    assert sort_events([b" ", b'{"choices":[{"delta":{}}]}', b"[DONE]", b"{oops"], []) == (
        [b'{"choices":[{"delta":{}}]}'],
        True,
    )


def test_the_rest_of_a_stream_is_read_up_to_an_event_that_is_cut():
    events = EventDecoder()
    assert events.feed(b'data: {"a":1}\ndata: {"b"') == []
    assert take_rest(events) == [b'{"a":1}']
