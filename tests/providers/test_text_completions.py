"""Chat completions that are asked for as the text behind a prompt."""

from src.negotiation.formats.markers import list_markers
from src.providers.text_completions import convert_answer, convert_chunk, make_body


def test_settings_stay_and_what_the_prompt_holds_goes():
    chat = {"model": "m", "messages": [], "tools": [], "top_k": 3, "stream": True, "max_completion_tokens": 9, "n": 1}
    body = make_body(chat, "Hi", ["<a>"])
    expected = {"model": "m", "top_k": 3, "stream": True, "max_tokens": 9, "prompt": "Hi", "preserved_tokens": ["<a>"]}
    assert body == expected


def test_a_chunk_of_text_is_one_of_a_chat():
    chunk = {"id": "1", "choices": [{"index": 0, "text": "a", "logprobs": None, "finish_reason": None}]}
    (choice,) = convert_chunk(chunk)["choices"]
    assert choice == {"index": 0, "finish_reason": None, "delta": {"content": "a"}}


def test_the_last_chunk_has_no_text():
    (choice,) = convert_chunk({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})["choices"]
    assert choice == {"index": 0, "finish_reason": "stop", "delta": {}}


def test_a_whole_answer_without_text_has_a_message_all_the_same():
    (choice,) = convert_answer({"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]})["choices"]
    assert choice["message"] == {"role": "assistant", "content": ""}


def test_errors_stay_as_they_are():
    error = {"error": {"message": "x"}}
    assert convert_chunk(error) is error
    assert convert_answer(error) is error


def test_markers_of_the_formats_are_kept():
    markers = list_markers()
    assert {
        "<tool_call>",
        "</tool_call>",
        "<|channel|>",
        "<think>",
        "[TOOL_CALLS]",
        "<|tool_calls_section_begin|>",
    } <= {*markers}
