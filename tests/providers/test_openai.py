import itertools
import json

import pytest

from src.errors import ServerError, StreamCut, WireError
from src.providers.base import ChatRequest, decode
from src.providers.openai import OpenAICodec
from src.types.events import Completed, ReasoningDelta, TextDelta, ToolCallDelta
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)

READ = ToolDefinition("read", "Read file contents", {"type": "object", "properties": {"path": {"type": "string"}}})


@pytest.fixture
def codec():
    ids = (f"made{number}" for number in itertools.count())
    return OpenAICodec(lambda: next(ids))


def body(codec, messages, **fields):
    request = codec.encode(ChatRequest("tiny", messages, **fields))
    assert request.path == "chat/completions"
    return json.loads(request.body)


def event(delta=None, finish=None, **fields):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"model": "tiny", "choices": [choice], **fields}).encode() + b"\n\n"


def decoded(codec, *chunks, content_type="text/event-stream"):
    events = [event for found in decode(codec.make_decoder(content_type), chunks) for event in found]
    return events[:-1], events[-1].response


class TestEncode:
    def test_every_request_streams_and_carries_the_options_it_is_given(self, codec):
        sent = body(codec, [UserMessage("hi")], options={"stream_options": {"include_usage": True}})
        assert sent == {
            "model": "tiny",
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def test_sampling_is_sent_only_where_it_is_set(self, codec):
        sent = body(codec, [UserMessage("hi")], temperature=0.0, max_tokens=7)
        assert (sent["temperature"], sent["max_tokens"]) == (0.0, 7)

    def test_tools_are_sent_and_an_empty_list_never_is(self, codec):
        function = {"name": "read", "description": "Read file contents", "parameters": READ.parameters}
        assert body(codec, [UserMessage("hi")], tools=[READ])["tools"] == [{"type": "function", "function": function}]
        assert "tools" not in body(codec, [UserMessage("hi")], tools=[])

    def test_an_exchange_is_an_assistant_message_with_calls_and_a_tool_message_for_each_result(self, codec):
        conversation = [
            SystemMessage("be brief"),
            UserMessage("look"),
            Response(
                (Reasoning("hm"), Text("Looking."), ToolCall("c1", "read", {"path": "ä"}), ToolCall("c2", "ls", {}))
            ),
            ToolResults((ToolResult("c1", "read", "text", "hello"), ToolResult("c2", "ls", "error", "no such tool"))),
        ]
        assert body(codec, conversation)["messages"] == [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "look"},
            {
                "role": "assistant",
                "content": "Looking.",
                "reasoning": "hm",
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "ä"}'}},
                    {"id": "c2", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "hello"},
            {"role": "tool", "tool_call_id": "c2", "content": '{"error":"no such tool"}'},
        ]

    def test_data_goes_out_as_json(self, codec):
        results = ToolResults((ToolResult("c1", "count", "data", {"lines": 3}),))
        assert json.loads(body(codec, [results])["messages"][0]["content"]) == {"lines": 3}

    def test_a_malformed_call_goes_out_with_empty_arguments(self, codec):
        sent = body(codec, [Response((MalformedCall("c1", "read", '{"path', "cut"),))])
        assert sent["messages"][0]["tool_calls"][0]["function"] == {"name": "read", "arguments": "{}"}

    def test_an_answer_of_thoughts_alone_is_sent_and_one_of_nothing_is_not(self, codec):
        thought, nothing = Response((Reasoning("hm"),)), Response(())
        assert body(codec, [UserMessage("a"), thought, nothing])["messages"] == [
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "", "reasoning": "hm", "reasoning_content": "hm"},
        ]

    def test_lone_surrogates_do_not_stop_a_request(self, codec):
        assert body(codec, [UserMessage("a\ud800b")])["messages"][0]["content"] == "a?b"

    def test_the_prefix_is_the_same_to_the_byte_from_turn_to_turn(self, codec):
        conversation = [SystemMessage("s"), UserMessage("a"), Response((ToolCall("c", "read", {"b": 1, "a": 2}),))]
        first = codec.encode(ChatRequest("tiny", conversation)).body
        second = codec.encode(ChatRequest("tiny", [*conversation, UserMessage("more")])).body
        shared = first[: first.index(b"]," + b'"model"')]
        assert second.startswith(shared)

    def test_the_same_message_twice_is_sent_twice(self, codec):
        message = UserMessage("again")
        assert len(body(codec, [message, message])["messages"]) == 2


class TestStream:
    def test_text_reasoning_and_usage(self, codec):
        events, response = decoded(
            codec,
            event({"role": "assistant", "content": ""}),
            event({"reasoning": "hm"}),
            event({"content": "He"}),
            event({"content": "llo"}),
            event({}, "stop"),
            b'data: {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}}\n\n',
            b"data: [DONE]\n\n",
        )
        assert events == [ReasoningDelta("hm"), TextDelta("He"), TextDelta("llo")]
        assert response == Response((Reasoning("hm"), Text("Hello")), "end_turn", Usage(5, 2), "tiny")

    @pytest.mark.parametrize("name", ["reasoning_content", "reasoning_text", "thinking"])
    def test_reasoning_under_its_other_names(self, codec, name):
        events, _ = decoded(codec, event({name: "hm"}), event({}, "stop"))
        assert events == [ReasoningDelta("hm")]

    def test_content_as_a_list_of_parts(self, codec):
        thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
        parts = [thought, {"type": "text", "text": "He"}, {"type": "text", "text": "llo"}]
        _, response = decoded(codec, event({"content": parts}), event({}, "stop"))
        assert response.content == (Reasoning("hm"), Text("Hello"))

    def test_a_call_of_the_time_before_tool_calls(self, codec):
        first, rest = {"name": "read", "arguments": '{"path":'}, {"arguments": ' "a"}'}
        _, response = decoded(
            codec, event({"function_call": first}), event({"function_call": rest}), event({}, "function_call")
        )
        assert [(call.name, call.arguments) for call in response.calls] == [("read", {"path": "a"})]

    def test_thoughts_that_are_counted_apart(self, codec):
        details = {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
        _, response = decoded(
            codec, event({"content": "x"}, "stop"), b"data: %s\n\n" % json.dumps({"usage": details}).encode()
        )
        assert (response.usage.output_tokens, response.usage.thought_tokens) == (9, 7)

    def test_calls_as_vllm_streams_them(self, codec):
        first = {"id": "c1", "type": "function", "index": 0, "function": {"name": "read"}}
        events, response = decoded(
            codec,
            event({"content": None, "tool_calls": [first]}),
            event({"content": None, "tool_calls": [{"index": 0, "function": {"arguments": '{"path":'}}]}),
            event({"content": None, "tool_calls": [{"index": 0, "function": {"arguments": ' "a"}'}}]}),
            event({}, "tool_calls"),
        )
        assert events[0] == ToolCallDelta(0, "c1", "read", "")
        assert response.content == (ToolCall("c1", "read", {"path": "a"}),)
        assert response.stop_reason == "tool_use"

    @pytest.mark.parametrize(
        ("finish", "reason"),
        [("stop", "end_turn"), ("tool_calls", "tool_use"), ("length", "max_tokens"), ("content_filter", "other")],
    )
    def test_finish_reasons(self, codec, finish, reason):
        assert decoded(codec, event({"content": "x"}, finish))[1].stop_reason == reason

    def test_a_stream_without_an_end_is_cut(self, codec):
        with pytest.raises(StreamCut, match="ended in the middle"):
            decoded(codec, event({"content": "Hel"}))

    def test_done_alone_is_an_end(self, codec):
        assert decoded(codec, event({"content": "x"}), b"data: [DONE]\n\n")[1].text == "x"

    def test_what_follows_done_is_nothing(self, codec):
        assert (
            decoded(codec, event({"content": "x"}, "stop"), b"data: [DONE]\n\n", event({"content": "y"}))[1].text == "x"
        )

    @pytest.mark.parametrize("odd", [b"[1, 2]", b"7", b"null", b'{"choices": [null, 3, {"delta": null}]}', b"  "])
    def test_odd_events_are_passed_over(self, codec, odd):
        odd_event = b"data: " + odd + b"\n\n"
        assert decoded(codec, event({"content": "a"}), odd_event, event({"content": "b"}, "stop"))[1].text == "ab"

    @pytest.mark.parametrize(
        "delta", [{"content": ["a"]}, {"tool_calls": 3}, {"tool_calls": ["x"]}, {"tool_calls": [{"function": 1}]}]
    )
    def test_odd_deltas_raise_nothing(self, codec, delta):
        decoded(codec, event(delta), event({}, "stop"))

    def test_an_error_in_the_stream_is_the_servers(self, codec):
        with pytest.raises(ServerError, match="engine died"):
            decoded(codec, event({"content": "a"}), b'data: {"error": {"message": "engine died"}}\n\n')

    def test_an_event_that_is_no_json_is_said_so(self, codec):
        with pytest.raises(WireError, match="not JSON: {oops"):
            decoded(codec, b"data: {oops\n\n")

    def test_invalid_utf8_is_replaced(self, codec):
        events, _ = decoded(codec, b'data: {"choices": [{"delta": {"content": "a\xff"}, "finish_reason": "stop"}]}\n\n')
        assert events == [TextDelta("a�")]


class TestWhole:
    def test_a_completion_that_does_not_stream_gives_the_same(self, codec):
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
        again = {"id": "", "type": "function", "function": {"name": "read", "arguments": '{"path": "b"}'}}
        message = {"role": "assistant", "content": "Hi", "tool_calls": [call, again]}
        completion = {"model": "tiny", "choices": [{"message": message, "finish_reason": "tool_calls"}]}
        events, response = decoded(
            codec, json.dumps(completion).encode(), content_type="application/json; charset=utf-8"
        )
        assert events[0] == TextDelta("Hi")
        assert [dict(call.arguments) for call in response.calls] == [{"path": "a"}, {"path": "b"}]

    @pytest.mark.parametrize("end", [b"", b"\n", b"\ndata: [DONE]", b"\ndata: [DONE]\n"])
    def test_the_last_event_needs_no_blank_line(self, codec, end):
        last = event({"content": "b"}, "stop").rstrip() + end
        assert decoded(codec, event({"content": "a"}), last)[1].text == "ab"

    def test_events_without_blank_lines_are_read(self, codec):
        lines = [event({"content": "a"}), event({"content": "b"}), event(finish="stop")]
        assert decoded(codec, *(line.replace(b"\n\n", b"\n") for line in lines))[1].text == "ab"

    def test_a_last_event_that_is_cut_is_no_end(self, codec):
        with pytest.raises(StreamCut):
            decoded(codec, event({"content": "a"}), event(finish="stop")[:-9])

    def test_a_whole_answer_as_the_only_event_is_read(self, codec):
        call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}
        choice = {"index": 0, "message": {"content": "Hi", "tool_calls": [call]}, "finish_reason": "tool_calls"}
        whole = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        events, response = decoded(codec, whole, b"data: [DONE]\n\n")
        assert (events[0], response.text) == (TextDelta("Hi"), "Hi")
        assert [call.name for call in response.calls] == ["read"]

    def test_a_message_that_repeats_what_came_in_pieces_adds_nothing(self, codec):
        last = {"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]}
        pieces = [event({"content": "a"}), event({"content": "b"}), b"data: " + json.dumps(last).encode() + b"\n\n"]
        assert decoded(codec, *pieces)[1].text == "ab"

    def test_one_call_in_place_of_a_list_of_calls_is_read(self, codec):
        call = {"index": 0, "id": "c1", "function": {"name": "read", "arguments": '{"path": "a"}'}}
        _, response = decoded(codec, event({"tool_calls": call}), event(finish="tool_calls"))
        assert [call.name for call in response.calls] == ["read"]

    @pytest.mark.parametrize("reason", ["eos", "eos_token", "stop_sequence"])
    def test_other_words_for_the_end_are_known(self, codec, reason):
        assert decoded(codec, event({"content": "a"}, reason))[1].stop_reason == "end_turn"

    def test_an_error_beside_the_choices_is_an_error(self, codec):
        failed = event({"content": ""}, "error", error={"code": 502, "message": "Provider disconnected"})
        with pytest.raises(ServerError, match="Provider disconnected"):
            decoded(codec, event({"content": "a"}), failed)

    def test_an_error_of_a_choice_is_an_error(self, codec):
        choice = {
            "message": {"content": None},
            "finish_reason": "error",
            "error": {"code": 502, "message": "Overloaded"},
        }
        with pytest.raises(ServerError, match="Overloaded"):
            decoded(codec, json.dumps({"choices": [choice]}).encode(), content_type="application/json")

    def test_an_error_with_status_200_is_an_error(self, codec):
        with pytest.raises(ServerError, match="no luck"):
            decoded(codec, b'{"error": {"message": "no luck"}}', content_type="application/json")

    def test_a_page_is_no_completion(self, codec):
        with pytest.raises(WireError, match=r"text/html \(Sign in\)"):
            decoded(codec, b"<html><title>Sign in</title>", content_type="text/html; charset=utf-8")


def test_completed_is_the_last_event(codec):
    decoder = codec.make_decoder("text/event-stream")
    decoder.feed(event({"content": "x"}, "stop"))
    assert isinstance(decoder.close()[-1], Completed)


def test_the_numbers_of_the_prompt_are_passed_over_and_a_text_that_speaks_of_them_is_kept(codec):
    said = 'It sends "prompt_token_ids":[1,2] first.'
    first = {"choices": [{"index": 0, "delta": {"content": said}}], "prompt_token_ids": [1, 2, 3], "model": "tiny"}
    chunks = [f"data: {json.dumps(first, separators=(',', ':'))}\n\n".encode(), event(finish="stop")]
    _, response = decoded(codec, *chunks)
    assert (response.text, response.model) == (said, "tiny")
