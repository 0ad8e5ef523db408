"""Calls whose pieces come in turn, behind text or without an index are whole in every API."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.serve.apis.messages import MessagesStream
from src.serve.apis.responses_answer import ResponseMaker, ResponsesStream
from src.serve.apis.responses_request import ToolNames
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import Ending, StreamGuard

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("f", "g")]
REQUEST = ChatBody({"model": "m", "messages": [], "stream": True, "tools": TOOLS})
TEXT, THOUGHT = {"content": "Then."}, {"reasoning": "Hm."}


def piece(index, arguments, name=None, id=None):
    call = {"index": index, "id": id, "function": {"name": name, "arguments": arguments}}
    if name is None:
        call["function"].pop("name")
    return {"tool_calls": [{key: value for key, value in call.items() if value is not None}]}


def make_chunk(delta, finish=None):
    return {"id": "1", "created": 1, "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def guard(deltas):
    """The chunks that leave the guard."""
    guarded = StreamGuard(REQUEST, lambda: "id")
    chunks = [json.dumps(make_chunk(delta)).encode() for delta in deltas]
    sent = guarded.feed([*chunks, json.dumps(make_chunk({}, "tool_calls")).encode()])
    guarded.close(is_done=True)
    return [json.loads(data) for data in [*sent, *guarded.settle(Ending(()))]]


def read_messages(events):
    """Its blocks: the name and the arguments of a call, or the text."""
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            assert event["index"] == len(blocks)
            blocks.append((event["content_block"].get("name"), []))
        elif event["type"] == "content_block_delta":
            assert event["index"] == len(blocks) - 1
            delta = event["delta"]
            blocks[-1][1].append(delta.get("partial_json") or delta.get("text") or delta.get("thinking") or "")
    return [(name, "".join(pieces)) for name, pieces in blocks]


def read_responses(events):
    """Its items, from the deltas; the whole items hold the same."""
    items, deltas = [], {}
    for event in events:
        if event["type"].endswith(".delta"):
            deltas.setdefault(event["item_id"], []).append(event["delta"])
        elif event["type"] == "response.output_item.done":
            item = event["item"]
            text = "".join(deltas.get(item["id"], []))
            assert text == (item["arguments"] if "arguments" in item else item["content"][0]["text"])
            items.append((item.get("name"), text))
    return items


class Messages:
    def __init__(self):
        self.stream, self.read = MessagesStream(), read_messages


class Responses:
    def __init__(self):
        ids = itertools.count()
        maker = ResponseMaker({}, ToolNames({}), lambda: str(next(ids)))
        self.stream, self.read = ResponsesStream(maker), read_responses


def read_stream(api, chunks):
    maker = api()
    events = [event for chunk in chunks for event in maker.stream.feed(chunk)]
    return maker.read([*events, *maker.stream.close()])


@pytest.mark.parametrize("api", [Messages, Responses])
@pytest.mark.parametrize(
    ("delta", "text"),
    [
        ({"content": [{"type": "text", "text": "Then."}]}, "Then."),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}]}, "Hm."),
        ({"refusal": "No."}, "No."),
    ],
    ids=["parts", "a thought in parts", "a refusal"],
)
def test_text_is_told_in_whatever_form_a_server_sends_it(api, delta, text):
    assert read_stream(api, [make_chunk(delta)]) == [(None, text)]


BEGIN = piece(0, '{"a"', "f", "c0")
APIS = pytest.mark.parametrize("api", [Messages, Responses])


@APIS
@pytest.mark.parametrize(
    ("deltas", "wanted"),
    [
        (
            [BEGIN, piece(1, '{"b"', "g", "c1"), piece(0, ": 1}"), piece(1, ": 2}")],
            [("f", '{"a": 1}'), ("g", '{"b": 2}')],
        ),
        ([BEGIN, TEXT, piece(0, ": 1}")], [("f", '{"a": 1}'), (None, "Then.")]),
        ([BEGIN, THOUGHT, piece(0, ": 1}")], [("f", '{"a": 1}'), (None, "Hm.")]),
        (
            [piece(None, '{"a": 1}', "f", "c0"), piece(None, '{"a": 2}', "f", "c1")],
            [("f", '{"a": 1}'), ("f", '{"a": 2}')],
        ),
        (
            [piece(0, '{"a": 1}', "f", "c0"), piece(0, '{"b": 2}', "g", "c1")],
            [("f", '{"a": 1}'), ("g", '{"b": 2}')],
        ),
        (
            [piece(0, "", "f", "c0"), piece(1, "", "g", "c1"), piece(0, "{}"), piece(1, "{}")],
            [("f", "{}"), ("g", "{}")],
        ),
        ([piece(0, "", "f", "c0"), piece(1, "{}", "g", "c1")], [("f", ""), ("g", "{}")]),
        ([piece(0, '{"a"', None, "c0"), piece(0, ": 1}", "f")], [("f", '{"a": 1}')]),
        ([piece(0, '{"a": 1}', "f", "c0"), TEXT, piece(0, "\n")], [("f", '{"a": 1}'), (None, "Then.")]),
    ],
    ids=[
        "in turn",
        "text",
        "thought",
        "no index",
        "one index",
        "begun together",
        "no arguments",
        "late name",
        "blanks",
    ],
)
def test_a_call_is_whole_before_anything_follows_it(api, deltas, wanted):
    assert read_stream(api, [*map(make_chunk, deltas), make_chunk({}, "tool_calls")]) == wanted


@APIS
@pytest.mark.parametrize("between", [piece(1, '{"b": 2}', "g", "c1"), TEXT, THOUGHT], ids=["call", "text", "thought"])
def test_what_leaves_the_guard_has_whole_calls(api, between):
    items = read_stream(api, guard([BEGIN, between, piece(0, ": 1}")]))
    assert ("f", '{"a": 1}') in items
    assert len(items) == 2


@APIS
def test_a_piece_of_a_call_leaves_at_once(api):
    stream = api().stream
    for delta in (piece(0, "", "f", "c0"), piece(0, '{"a"'), piece(0, ": 1}"), piece(1, "{", "g", "c1"), piece(1, "}")):
        assert [*stream.feed(make_chunk(delta))]


@APIS
def test_text_behind_a_whole_call_leaves_at_once(api):
    stream = api().stream
    assert [*stream.feed(make_chunk(piece(0, "{}", "f", "c0")))]
    assert [*stream.feed(make_chunk(TEXT))]


def test_an_answer_with_a_call_that_is_not_whole_is_no_reason_to_run_tools():
    stream = MessagesStream()
    deltas = [BEGIN, piece(1, "{}", "g", "c1")]
    events = [event for delta in deltas for event in stream.feed(make_chunk(delta))]
    events += [*stream.feed(make_chunk({}, "stop")), *stream.close()]
    assert [each["delta"]["stop_reason"] for each in events if each["type"] == "message_delta"] == ["end_turn"]


@given(st.data())
def test_pieces_in_any_turn_make_the_same_calls(data):
    values = data.draw(st.lists(st.dictionaries(st.text(), st.text() | st.integers()), min_size=1, max_size=4))
    waiting = {}
    for index, value in enumerate(values):
        text = json.dumps(value)
        cut = data.draw(st.integers(0, len(text)))
        waiting[index] = [piece(index, text[:cut], f"f{index}", f"c{index}"), piece(index, text[cut:])]
    order = data.draw(st.permutations([index for index in waiting for _ in waiting[index]]))
    deltas = [waiting[index].pop(0) for index in order]
    texts = data.draw(st.lists(st.integers(0, len(deltas)), max_size=3))
    for place in texts:
        deltas.insert(place, {"content": "t"})
    chunks = [make_chunk(delta) for delta in deltas]
    for api in (Messages, Responses):
        items = read_stream(api, chunks)
        calls = {name: json.loads(text) for name, text in items if name}
        assert calls == {f"f{index}": value for index, value in enumerate(values)}
        assert sum(len(text) for name, text in items if not name) == len(texts)
