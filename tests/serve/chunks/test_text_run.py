"""Chunks that pass without being decoded say together what they said one by one."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from src.parsing.classify import make_id_source
from src.providers.openai import OpenAIStream
from src.serve.chat_request import ChatBody
from src.serve.chunks.guard import Ending, StreamGuard
from src.serve.chunks.text_run import TextRun, hide_token_ids
from tests.each import check_rows

BODY: dict[str, Any] = {"model": "m", "tools": [{"type": "function", "function": {"name": "read"}}]}
PIECES = st.tuples(
    st.sampled_from(("content", "content", "reasoning")),
    st.text(st.sampled_from('abt R.,\n"\\]}é\U0001f642\u2028\x01'), max_size=6),
    st.lists(st.integers(0, 99), max_size=2),
    st.sampled_from((None, 1, 23)),
)


def make_chunk(field: str, text: str, ids: list[int] | None, usage: int | None, finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": {field: text}, "logprobs": None, "finish_reason": finish, "token_ids": ids}
    counts = {"prompt_tokens": usage, "completion_tokens": usage}
    chunk = {"id": "x", "model": "m", "choices": [choice], **({} if usage is None else {"usage": counts})}
    return json.dumps(chunk, separators=(",", ":"), ensure_ascii=False).encode()


def decode(chunks: list[bytes]) -> list[Any]:
    """The token ids and the answer, as the decoder reads the chunks one by one."""
    decoder = OpenAIStream(make_id_source())
    for chunk in chunks:
        decoder.read_event(chunk, [])
    return decoder.close()


END = make_chunk("content", "", [7, 8], 30, "stop")


@given(st.lists(PIECES, max_size=20), st.booleans())
def test_what_passes_is_what_came_and_what_is_kept_says_the_same(pieces, wants_ids):
    chunks = [*(make_chunk(*piece) for piece in pieces), END]
    guard = StreamGuard(ChatBody({**BODY, "return_token_ids": wants_ids}), make_id_source())
    sent = [part for chunk in chunks for part in guard.feed([chunk])]
    guard.close()
    sent += guard.settle(Ending(()))
    assert sent == (chunks if wants_ids else [hide_token_ids(chunk) for chunk in chunks])
    tokens, completed = decode(chunks)
    assert guard.assembler.tokens == tokens
    assert guard.assembler.completed == completed.response


def test_chunks_that_passed_are_one_chunk_afterwards():
    run = TextRun(lambda _: 0, hides_ids=True)
    chunks = [make_chunk("content", text, [number], number) for number, text in enumerate(("It ", '"is"', "\n."))]
    run.learn(chunks[0])
    for chunk in chunks:
        assert run.pass_on(chunk) == [hide_token_ids(chunk)]
    assert run.take() == ([make_chunk("content", 'It "is"\n.', [0, 1, 2], 2)], [])


def test_a_chunk_waits_while_the_end_of_its_text_may_begin_a_call():
    held = {"so to": 2, "tool": 4, "tools.": 0}
    run = TextRun(held.__getitem__, hides_ids=False)
    first, second, third = (make_chunk("content", text, [1], None) for text in ("so to", "ol", "s."))
    run.learn(first)
    assert [run.pass_on(first), run.pass_on(second)] == [[], []]
    assert run.pass_on(third) == [first, second, third]


def test_a_chunk_that_the_parser_has_to_read_does_not_pass_and_those_before_it_still_wait():
    held = {"so to": 2, "tool_call": -1}
    run = TextRun(held.__getitem__, hides_ids=False)
    first, second = (make_chunk("content", text, [1], None) for text in ("so to", "ol_call"))
    run.learn(first)
    assert [run.pass_on(first), run.pass_on(second)] == [[], None]
    assert run.take() == ([], [first])


@check_rows(
    "other",
    [
        make_chunk("reasoning", "x", [1], None),
        make_chunk("content", "x", [1], 3),
        make_chunk("content", "x", [1], None, "stop"),
        make_chunk("content", "x", None, None),
        make_chunk("content", "x", [1], None).replace(b'"x"', b'"\\ud83d"'),
        make_chunk("content", "x", [1], None).replace(b'"x"', b'"x","role":"assistant"'),
        b'{"error":{"message":"It broke."}}',
        b"{",
    ],
)
def test_a_chunk_of_another_form_is_left_to_the_decoder(other):
    run = TextRun(lambda _: 0, hides_ids=True)
    run.learn(make_chunk("content", "It is", [1, 2], None))
    assert run.pass_on(other) is None
