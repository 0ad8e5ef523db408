import json

import pytest
from msgspec.structs import replace

from src.errors import TokensUnsupported
from src.providers.base import RawTokens, decode
from src.providers.vllm_tokens import make_generate_decoder, read_rendered
from src.types.events import Completed, TextDelta
from tests.each import check_rows

RENDERED = {
    "request_id": "chatcmpl-1",
    "token_ids": [1, 2, 3],
    "sampling_params": {"temperature": 1.0},
    "output_mode": "tokens",
}


def read(*chunks: dict | str, content_type: str = "text/event-stream"):
    lines = [chunk if isinstance(chunk, str) else json.dumps(chunk) for chunk in chunks]
    body = b"".join(f"data: {line}\n\n".encode() for line in lines)
    return [event for events in decode(make_generate_decoder(content_type, str), [body]) for event in events]


def piece(text, ids, finish=None):
    return {"choices": [{"index": 0, "text": text, "token_ids": ids, "finish_reason": finish}]}


def test_a_rendered_prompt_goes_back_as_it_came_and_asks_for_text():
    rendered = read_rendered(json.dumps(RENDERED).encode())
    request = rendered.request
    assert request.path == "/inference/v1/generate"
    assert json.loads(request.body) == RENDERED | {"output_mode": "text"}
    assert (rendered.size, json.loads(b"[%s]" % rendered.ids)) == (3, RENDERED["token_ids"])


def test_a_rendered_prompt_with_other_ids_keeps_its_other_fields():
    other = replace(read_rendered(json.dumps(RENDERED).encode()), ids=b"1,2,33")
    assert json.loads(other.request.body) == RENDERED | {"output_mode": "text", "token_ids": [1, 2, 33]}


@pytest.mark.parametrize(("features", "has_media"), [(None, False), ({"mm_placeholders": {}}, True)])
def test_a_rendered_prompt_tells_of_images(features, has_media):
    assert not read_rendered(json.dumps(RENDERED).encode()).has_media
    assert read_rendered(json.dumps(RENDERED | {"features": features}).encode()).has_media == has_media


@check_rows(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        b'{"prompt": "x"}',
        b'{"token_ids": []}',
        b'{"token_ids": [[1], [2]]}',
        b'{"token_ids": null}',
    ],
)
def test_what_is_no_rendered_prompt_is_no_such_endpoint(body):
    with pytest.raises(TokensUnsupported):
        read_rendered(body)


def test_an_answer_gives_its_text_and_the_tokens_that_it_was_without_the_last():
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    *shown, tokens, completed = read(piece("<tool_", [7]), piece("call>", [8, 2], "stop"), usage, "[DONE]")
    assert shown == [TextDelta("<tool_"), TextDelta("call>")]
    assert (tokens.ids, tokens.end) == ([7, 8], 2)
    assert isinstance(completed, Completed)
    assert (completed.response.text, completed.response.stop_reason) == ("<tool_call>", "end_turn")
    assert (completed.response.usage.input_tokens, completed.response.usage.output_tokens) == (3, 2)


def test_an_answer_that_was_cut_off_has_no_end():
    *_, tokens, _ = read(piece("Hel", [7]), piece("lo", [8], "length"), "[DONE]")
    assert (tokens.ids, tokens.end) == ([7, 8], None)


def test_of_an_answer_that_a_string_ended_the_tokens_are_not_its_text():
    choice = {"index": 0, "text": "", "token_ids": [8], "finish_reason": "stop", "stop_reason": "<b>"}
    events = read(piece("Hello", [7]), {"choices": [choice]}, "[DONE]")
    assert [type(event) for event in events] == [TextDelta, Completed]


def test_tokens_whose_text_comes_later_are_no_loss():
    shown = read(piece("", [7]), piece("ü", [8]), piece("", [2], "stop"), "[DONE]")
    assert [type(event) for event in shown] == [TextDelta, RawTokens, Completed]


def test_a_whole_answer():
    whole = json.dumps(
        {"choices": [{"index": 0, "text": "Hello", "token_ids": [5], "finish_reason": "length"}]}
    ).encode()
    events = [event for events in decode(make_generate_decoder("application/json", str), [whole]) for event in events]
    assert events[-1].response.text == "Hello"
    assert events[-1].response.stop_reason == "max_tokens"


def test_token_ids_without_text_are_refused():
    with pytest.raises(TokensUnsupported):
        read({"choices": [{"index": 0, "token_ids": [5, 6]}]})
