"""What is read by likeness is what decoding gives; these streams are read both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.providers.openai import OpenAICodec
from src.providers.stream import likeness

from ..doubles import decoded

PIECES = ("Hel", "lo ", "wörld", "", "\ud83d", '"', "\\", "a\nb", "\u2028", "token_ids", '"content":"', "🙂", "x" * 300)
SHAPES = {
    "vLLM": lambda text, ids: {
        "id": "chatcmpl-1",
        "model": "tiny",
        "choices": [
            {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None, "token_ids": ids}
        ],
    },
    "no ids": lambda text, _: {"model": "tiny", "choices": [{"delta": {"role": "assistant", "content": text}}]},
    "the text in two places": lambda text, _: {"content": text, "choices": [{"delta": {"content": text}}]},
    "the text beside another": lambda text, _: {"note": {"content": "Hel"}, "choices": [{"delta": {"refusal": text}}]},
    "a thought": lambda text, ids: {"choices": [{"delta": {"reasoning": text, "content": "x"}, "token_ids": ids}]},
    "two answers": lambda text, ids: {"choices": [{"delta": {"content": text}}, {"delta": {}, "token_ids": ids}]},
    "an end": lambda text, ids: {"choices": [{"delta": {"content": text}, "finish_reason": "stop", "token_ids": ids}]},
    "another each time": lambda text, ids: {"created": len(text), "choices": [{"delta": {"content": text}}], "n": ids},
}
END = b'data: {"choices": [{"delta": {}, "finish_reason": "stop", "token_ids": [2]}]}\n\ndata: [DONE]\n\n'


def stream(shape, said, separators=(",", ":"), ascii_only=False):
    events = [json.dumps(SHAPES[shape](*each), separators=separators, ensure_ascii=ascii_only) for each in said]
    return [*(f"data: {event}\n\n".encode(errors="replace") for event in events), END]


def read(chunks):
    return decoded(OpenAICodec(str), chunks)


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("shape", SHAPES)
@settings(deadline=None, max_examples=12)  # for each of 32 cases
@given(said=st.lists(st.tuples(st.sampled_from(PIECES), st.lists(st.integers(0, 9999), max_size=3)), max_size=12))
def test_events_alike_say_what_they_say(shape, separators, ascii_only, said):
    chunks = stream(shape, said, separators, ascii_only)
    whole = [b'data: {"model": "x", "choices": []}\n\n' + chunk for chunk in chunks]  # nothing is alike
    alone = [read([chunk, END]) for chunk in chunks[:-1]]
    events, _ = read(chunks)
    assert [event for event in events if hasattr(event, "text")] == [
        event for found, _ in alone for event in found if hasattr(event, "text")
    ]
    assert read(chunks)[1].text == read(whole)[1].text


def test_an_event_whose_text_has_no_end_is_not_taken():
    decoder = likeness.Likeness()
    decoder.learn(b'{"content":"Hel"}', "Hel", lambda data: ("probe 0123", []))
    assert decoder.read(b'{"content":"lo"}') == ("lo", [])
    assert decoder.read(b'{"content":"}') is None


def test_most_of_an_answer_is_read_so():
    decoder = likeness.Likeness()
    first, second = (event[6:-2] for event in stream("vLLM", [("Hel", [5]), ("lo", [6, 7])])[:2])
    assert decoder.read(first) is None
    decoder.learn(first, "Hel", lambda _: ("probe 0123", [7]))
    assert decoder.read(second) == ("lo", [6, 7])


def test_a_place_that_is_not_the_texts_is_not_taken():
    decoder = likeness.Likeness()
    first, second = (event[6:-2] for event in stream("vLLM", [("Hel", [5]), ("lo", [6])])[:2])
    decoder.learn(first, "Hel", lambda _: ("Hel", [7]))
    assert decoder.read(second) is None


def test_a_server_whose_events_are_never_alike_is_not_tried_for_ever():
    tried, decoder = [], likeness.Likeness()
    for number in range(100):
        event = json.dumps({"created": number, "choices": [{"delta": {"content": "a"}}]}).encode()
        decoder.learn(event, "a", lambda data: tried.append(data) or ("", []))
    assert len(tried) == likeness.MAX_TRIES
