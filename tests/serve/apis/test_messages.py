"""Anthropic's Messages over chat completions."""

import json

import pytest

from src.serve.apis.messages import MessagesStream, convert_answer, to_chat

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
CACHED = {"cache_control": {"type": "ephemeral"}}


def convert(*messages, **fields):
    return to_chat({"model": "m", "max_tokens": 9, "messages": list(messages), **fields})


def stream(*deltas, finish="stop"):
    maker = MessagesStream()
    chunks = [{"id": "1", "model": "m", "choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append(
        {"choices": [{"delta": {}, "finish_reason": finish}], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}
    )
    return [event for chunk in chunks for event in maker.feed(chunk)] + list(maker.close())


def call(index, name="", arguments=""):
    function = {"name": name, "arguments": arguments} if name else {"arguments": arguments}
    return {"tool_calls": [{"index": index, "id": f"c{index}", "function": function}]}


def test_a_late_message_that_counts_tokens_down_is_left_out():
    """Claude Code sends another number in each request."""
    told = "<total_tokens>188000 tokens left</total_tokens>"
    messages = [{"role": "user", "content": "Hi"}, {"role": "system", "content": told}]
    assert to_chat({"messages": messages})["messages"] == [{"role": "user", "content": "Hi"}]
    late = {"role": "system", "content": [{"type": "text", "text": f"{told}\nBe brief."}]}
    assert to_chat({"messages": [late]})["messages"] == [{"role": "system", "content": "Be brief."}]


def test_the_system_prompt_has_no_billing_block_whose_hash_would_spoil_the_prefix_cache():
    blocks = [
        {"type": "text", "text": "x-anthropic-billing-header: cc=1"},
        {"type": "text", "text": "Be brief.", **CACHED},
    ]
    assert convert(system=blocks)["messages"] == [{"role": "system", "content": "Be brief."}]


def test_a_system_message_within_the_conversation_stays_in_its_place():
    messages = convert({"role": "user", "content": "Hi"}, {"role": "system", "content": "Now."}, system="First.")[
        "messages"
    ]
    assert [each["role"] for each in messages] == ["system", "user", "system"]


def test_results_come_before_what_the_user_says_with_them():
    blocks = [
        {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "ok"}, IMAGE], **CACHED},
        {"type": "text", "text": "Go on."},
    ]
    result, images, text = convert({"role": "user", "content": blocks})["messages"]
    assert result == {"role": "tool", "tool_call_id": "c", "content": "ok"}
    assert images["content"][0]["image_url"] == {"url": "data:image/png;base64,AAAA"}
    assert text == {"role": "user", "content": "Go on."}


def test_an_answer_of_the_model_is_one_message():
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "s"},
        {"type": "text", "text": "Now."},
        {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}},
    ]
    (message,) = convert({"role": "assistant", "content": blocks})["messages"]
    assert (message["reasoning"], message["content"]) == ("Hm.", "Now.")
    assert message["tool_calls"][0]["function"] == {"name": "read", "arguments": '{"path": "a"}'}


def test_tools_and_choice_keep_their_meaning():
    chat = convert(
        tools=[{"name": "read", "input_schema": {"type": "object"}}],
        tool_choice={"type": "any", "disable_parallel_tool_use": True},
        stop_sequences=["x"],
    )
    assert chat["tools"] == [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    assert (chat["tool_choice"], chat["parallel_tool_calls"], chat["stop"]) == ("required", False, ["x"])


def test_a_whole_answer_with_a_call():
    tool_calls = [{"id": "c", "function": {"name": "read", "arguments": '{"path": "a"}'}}]
    choice = {"message": {"content": "Now.", "tool_calls": tool_calls}, "finish_reason": "tool_calls"}
    message = convert_answer({"id": "1", "model": "m", "choices": [choice]})
    assert message["stop_reason"] == "tool_use"
    assert message["content"] == [
        {"type": "text", "text": "Now."},
        {"type": "tool_use", "id": "c", "name": "read", "input": {"path": "a"}},
    ]


def test_a_stream_opens_and_closes_a_block_for_each_part():
    events = stream({"content": "Now."}, call(0, "read", '{"path"'), call(0, "", ': "a"}'), finish="tool_calls")
    blocks = [
        (each["index"], each["content_block"]["type"]) for each in events if each["type"] == "content_block_start"
    ]
    assert blocks == [(0, "text"), (1, "tool_use")]
    pieces = [each["delta"].get("partial_json", "") for each in events if each["type"] == "content_block_delta"]
    assert json.loads("".join(pieces)) == {"path": "a"}
    assert [each["delta"]["stop_reason"] for each in events if each["type"] == "message_delta"] == ["tool_use"]
    assert events[-1] == {"type": "message_stop"}


def test_a_call_that_was_cut_is_no_reason_to_run_tools():
    events = stream(call(0, "read", '{"path"'), finish="length")
    assert [each["delta"]["stop_reason"] for each in events if each["type"] == "message_delta"] == ["max_tokens"]


@pytest.mark.parametrize(
    ("arguments", "finish", "reason"),
    [
        ('{"path": "a', "length", "max_tokens"),
        ("", "tool_calls", "tool_use"),
        ("{path}", "stop", "end_turn"),
        ("{path}", "tool_calls", "end_turn"),
    ],
)
def test_a_call_of_a_whole_answer_that_cannot_be_read_has_no_input(arguments, finish, reason):
    tool_calls = [{"id": "c", "function": {"name": "read", "arguments": arguments}}]
    choice = {"message": {"content": None, "tool_calls": tool_calls}, "finish_reason": finish}
    message = convert_answer({"id": "1", "model": "m", "choices": [choice]})
    assert message["content"] == [{"type": "tool_use", "id": "c", "name": "read", "input": {}}]
    assert message["stop_reason"] == reason
