"""Laws of an answer that broke off and is gone on with: nothing of its text is lost, and nothing comes twice."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import Ending, StreamGuard
from src.serve.resumption import OtherAnswer, Resumption

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {}}}}}
REQUEST = ChatBody({"model": "m", "messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]})
TEXTS = st.text(st.sampled_from('ab. \n<{"`[:>') | st.characters(exclude_categories=["Cs"]), max_size=60)
MARKED = st.lists(
    TEXTS | st.sampled_from(["<tool_call>", "</tool_call>", '{"name": "read"', "TOOL_CALL:", "<think>", "```\n"])
).map("".join)


def chunk(content: str, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": None}
    return json.dumps({"id": "1", "model": "m", "choices": [choice], **more}, separators=(",", ":")).encode()


def split(text: str, sizes: Sequence[int]) -> list[bytes]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    return [chunk(piece) for piece in [*pieces, text[at:]] if piece]


def read(sent: Sequence[bytes]) -> str:
    """The text that a client reads; calls as what they are named."""
    deltas = [choice["delta"] for data in sent for choice in json.loads(data)["choices"]]
    return "".join(
        (delta.get("content") or "")
        + "".join(
            f"[{call['function'].get('name', '')}{call['function']['arguments']}]"
            for call in delta.get("tool_calls") or ()
        )
        for delta in deltas
    )


def make_guard() -> StreamGuard:
    return StreamGuard(REQUEST, lambda: "id")


def finish(guard: StreamGuard) -> list[bytes]:
    end = json.dumps(
        {"id": "1", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}, separators=(",", ":")
    )
    sent = guard.feed([end.encode()])
    guard.close()
    calls = [call for call in guard.assembler.response().calls if not call.guessed and not call.echo]
    return [*sent, *guard.settle(Ending(calls))]


@given(MARKED, st.lists(st.integers(1, 9), max_size=20), st.integers(0, 30), st.booleans())
def test_what_has_left_and_the_rest_are_the_answer(text, sizes, count, is_continued):
    chunks = split(text, sizes)[:count]
    first = make_guard()
    sent = [each for data in chunks for each in first.feed([data])] + first.release_run()
    left = first.find_left()
    if left is None:  # a part of a call
        return
    came = "".join(json.loads(data)["choices"][0]["delta"]["content"] for data in chunks)
    assert came.startswith(left)
    before = Resumption(left, json.loads(first.last) if first.last else {}, is_continued=is_continued)
    second = make_guard()
    if left and not second.begin_with(before.make_beginning()):
        return
    answer = text[len(left) :] if is_continued else text
    adapted = [each for data in split(answer, sizes) for each in before.adapt([data])]
    rest = [each for data in adapted for each in second.feed([data])] + finish(second)
    whole = make_guard()
    expected = [each for data in split(text, sizes) for each in whole.feed([data])] + finish(whole)
    assert read(sent) + read(rest) == read(expected)


@given(st.text(min_size=1), st.text(), st.lists(st.integers(1, 9), max_size=20))
def test_another_answer_is_noticed_in_any_pieces(text, other, sizes):
    before = Resumption(text, {}, is_continued=False)
    pieces = split(other, sizes)
    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}).encode()
    if other.startswith(text):
        shown = before.adapt([*pieces, end])
        assert read(shown) == other[len(text) :]
    else:
        with pytest.raises(OtherAnswer):
            before.adapt([*pieces, end])


def test_usage_is_the_sum():
    before = Resumption(
        "a", {"usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}}, is_continued=True
    )
    counted = {"prompt_tokens": 6, "completion_tokens": 3, "total_tokens": 9, "prompt_tokens_details": None}
    (data,) = before.adapt([json.dumps({"choices": [], "usage": counted}).encode()])
    assert json.loads(data)["usage"] == {**counted, "prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}


def test_chunks_keep_the_identity_of_the_first_answer_and_name_no_role_again():
    before = Resumption("a", {"id": "first", "created": 1, "model": "m"}, is_continued=True)
    later = {"id": "second", "created": 2, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "b"}}]}
    (data,) = before.adapt([json.dumps(later).encode()])
    assert json.loads(data)["id"] == "first"
    assert json.loads(data)["choices"][0]["delta"] == {"content": "b"}
