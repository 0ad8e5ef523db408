"""Chunks of a server in, chunks for the client out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.parsing.classify import make_id_source
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import Ending, StreamGuard

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOL = {"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}
REQUEST = ChatBody({"model": "m", "messages": [], "tools": [TOOL]})
CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'


def make_chunk(delta: dict, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": [1, 2]}
    return json.dumps({"id": "x", "choices": [choice]}, separators=(",", ":")).encode()


def without_ids(chunk: bytes) -> dict:
    value = json.loads(chunk)
    value["choices"][0]["token_ids"] = None
    return value


def guard(chunks: list[bytes]) -> tuple[StreamGuard, list[dict]]:
    """The guard, and what left before the end."""
    made = StreamGuard(REQUEST, make_id_source())
    return made, [json.loads(sent) for chunk in chunks for sent in made.feed([chunk])]


def run(chunks: list[bytes]) -> list[dict]:
    """All that the client gets, with the calls that the parser found."""
    made, sent = guard(chunks)
    made.close()
    calls = [call for call in made.assembler.response().calls if call.origin != "native"]
    return sent + [json.loads(each) for each in made.settle(Ending(calls))]


def join_text(chunks: list[dict]) -> str:
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks)


def read_calls(chunks: list[dict]) -> dict[int, str]:
    arguments: dict[int, str] = {}
    for chunk in chunks:
        for call in chunk["choices"][0]["delta"].get("tool_calls") or ():
            arguments[call["index"]] = arguments.get(call["index"], "") + call["function"].get("arguments", "")
    return arguments


END = make_chunk({}, "stop")


@given(st.lists(st.text(st.sampled_from("ab {}[]<>/\"'`\n.:_|"), min_size=1, max_size=5), max_size=30))
def test_text_without_a_call_leaves_chunk_by_chunk_as_it_came(pieces):
    chunks = [*(make_chunk({"content": piece}) for piece in pieces), END]
    sent = run(chunks)
    if not read_calls(sent):
        assert sent == [without_ids(chunk) for chunk in chunks]


@given(st.lists(st.integers(0, 120)))
def test_a_call_in_the_text_becomes_a_call_in_any_chunking(cuts):
    text = f"Let me look.\n{CALL}"
    bounds = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    pieces = [text[start:end] for start, end in pairwise(bounds) if start < end]
    sent = run([*(make_chunk({"content": piece}) for piece in pieces), END])
    assert join_text(sent) == "Let me look.\n"
    assert json.loads(read_calls(sent)[0]) == {"path": "a.txt"}
    assert sent[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_prose_is_not_held():
    _, sent = guard([make_chunk({"content": "Hello"}), make_chunk({"content": " there."})])
    assert join_text(sent) == "Hello there."


def native(arguments: str, name: str = "") -> bytes:
    function = {**({"name": name} if name else {}), "arguments": arguments}
    return make_chunk({"tool_calls": [{"index": 0, **({"id": "c1"} if name else {}), "function": function}]})


def test_a_native_call_leaves_as_it_came_once_its_first_argument_is_known():
    chunks = [native("", "read"), native('{"path"'), native(': "a'), native('.txt"}')]
    _, sent = guard(chunks)
    assert sent == [without_ids(chunk) for chunk in chunks]


@pytest.mark.parametrize(("ids", "early"), [([1, 2], '{"path": "a.txt'), (None, '{"path": "a.txt"}')])
def test_the_end_of_a_native_call_that_may_be_cut_waits_only_where_the_server_gives_token_ids(ids, early):
    made = StreamGuard(REQUEST, make_id_source(), may_be_cut=True)
    chunks = [native('{"path": "a', "read"), native(".txt"), native('"}')]
    if ids is None:
        chunks = [chunk.replace(b'"token_ids":[1,2]', b'"token_ids":null') for chunk in chunks]
    assert read_calls([json.loads(sent) for chunk in chunks for sent in made.feed([chunk])]) == {0: early}


def test_a_native_call_of_an_unknown_tool_waits_and_then_leaves_as_it_came():
    chunks = [native("", "write"), native("{}")]
    made, sent = guard(chunks)
    assert sent == []
    made.feed([END])
    made.close()
    assert [json.loads(each) for each in made.settle(Ending([]))] == [without_ids(chunk) for chunk in (*chunks, END)]


@pytest.mark.parametrize("rest", [['",', "}"], ['",'], []])  # vLLM may lose the end where it joins pieces
def test_a_native_call_that_breaks_is_completed_by_the_recovered_one(rest):
    made, sent = guard([native("", "read"), native('{"path": "a.txt'), *map(native, rest)])
    made.feed([END])
    made.close()
    (recovered,) = made.assembler.reparse(CALL).calls
    sent += [json.loads(each) for each in made.settle(Ending([recovered], is_replaced=True))]
    assert {index: json.loads(text) for index, text in read_calls(sent).items()} == {0: {"path": "a.txt"}}


def test_a_native_call_that_was_cut_is_not_broken():
    chunks = [native("", "read"), native('{"path": "a.t'), make_chunk({}, "length")]
    made, sent = guard(chunks)
    made.close()
    (other,) = made.assembler.reparse(CALL).calls
    sent += [json.loads(each) for each in made.settle(Ending([other]))]
    assert read_calls(sent)[0] == '{"path": "a.t'


def test_a_native_call_that_breaks_in_the_chunk_with_the_finish_reason_is_completed():
    broken = {"tool_calls": [{"index": 0, "function": {"arguments": ",}"}}]}
    made, sent = guard([native("", "read"), native('{"path": "a.txt"')])
    made.feed([make_chunk(broken, "tool_calls")])
    made.close()
    (recovered,) = made.assembler.reparse(CALL).calls
    sent += [json.loads(each) for each in made.settle(Ending([recovered], is_replaced=True))]
    assert {index: json.loads(text) for index, text in read_calls(sent).items()} == {0: {"path": "a.txt"}}
    assert sent[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_native_call_in_the_chunk_with_the_finish_reason_stays_beside_one_that_is_added():
    whole = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "read", "arguments": '{"path": "b"}'}}]}
    made, sent = guard([make_chunk(whole, "tool_calls")])
    made.close()
    (added,) = made.assembler.reparse(CALL).calls
    sent += [json.loads(each) for each in made.settle(Ending([added]))]
    assert [json.loads(text)["path"] for _, text in sorted(read_calls(sent).items())] == ["b", "a.txt"]


def test_an_empty_chunk_that_only_carries_token_ids_is_dropped():
    _, sent = guard([make_chunk({})])
    assert sent == []


@pytest.mark.parametrize(
    ("first", "unit"),
    [
        ({"content": "So: "}, {"content": "and so on, " * 9}),
        ({"reasoning": "Hm. "}, {"reasoning": "But wait. " * 9}),
        ({"content": "<table>"}, {"content": "<td>[1]</td>" * 5 + "<t"}),
        ({"content": 'TOOL_CALL: {"name": "read", "args": {"path": "'}, {"content": "ha " * 9}),
        ({"content": 'TOOL_CALL: {"name": "none", "args": {"path": "'}, {"content": "ha " * 9}),
    ],
)
@given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=9))
def test_an_answer_that_repeats_itself_is_cut_at_the_same_place_however_its_chunks_come(first, unit, sizes):
    chunks = [make_chunk(first), *[make_chunk(unit)] * 400]

    def read(batches: Iterable[list[bytes]]) -> tuple[str, dict[int, str], str]:
        made = StreamGuard(REQUEST, make_id_source())
        sent = [json.loads(each) for batch in batches if not made.is_stopped for each in made.feed(batch)]
        made.close()
        sent += [json.loads(each) for each in made.settle(Ending([]))]
        thoughts = [chunk["choices"][0]["delta"].get("reasoning") or "" for chunk in sent]
        return join_text(sent) + "".join(thoughts), read_calls(sent), sent[-1]["choices"][0]["finish_reason"]

    rest = iter(chunks)
    batches = [[*islice(rest, size)] for size in sizes] + [*iter(lambda: [*islice(rest, sizes[0])], [])]
    said = read(batches)
    assert said == read([chunk] for chunk in chunks)
    assert said[2] == "length"
    assert len(said[0]) + len(said[1].get(0, "")) < 20_000
