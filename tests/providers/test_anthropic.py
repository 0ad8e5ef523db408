"""What is Anthropic's alone: turns, blank text, thoughts, max_tokens. Exchanges and mappings have their own tests."""

import json

import pytest

from src.providers.base import ChatRequest
from src.types.events import Completed
from src.types.messages import (
    MalformedCall,
    Reasoning,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolResult,
    ToolResults,
    Usage,
    UserMessage,
)

from .doubles import codec, decoded

CALL = ToolCall("c1", "read", {"path": "a"})
RESULTS = ToolResults((ToolResult("c1", "read", "text", "hello"),))


def body(*messages, **fields):
    request = codec("anthropic").encode(ChatRequest("claude", messages, **fields))
    assert request.path == "messages"
    return json.loads(request.body)


def turns(*messages):
    """The turns as pairs of role and blocks, a text block as its text, another as its type."""
    return [
        (turn["role"], [block.get("text") or block["type"] for block in turn["content"]])
        for turn in body(*messages)["messages"]
    ]


def event(**fields):
    return f"data: {json.dumps(fields)}\n\n".encode()


class TestRequest:
    def test_it_streams_and_has_a_max_tokens_always(self):
        assert body(UserMessage("hi")) == {
            "model": "claude",
            "max_tokens": 8192,
            "stream": True,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        }

    def test_sampling_is_sent_where_it_is_set(self):
        sent = body(UserMessage("hi"), temperature=0.0, max_tokens=7)
        assert (sent["temperature"], sent["max_tokens"]) == (0.0, 7)

    def test_the_system_prompt_stands_beside_the_messages(self):
        sent = body(SystemMessage("be brief"), UserMessage("hi"))
        assert sent["system"] == "be brief"
        assert [turn["role"] for turn in sent["messages"]] == ["user"]

    def test_the_version_of_the_api_is_said_in_a_header(self):
        from src.providers.table import PROVIDERS

        assert PROVIDERS["anthropic"].headers == {"anthropic-version": "2023-06-01"}


class TestTurns:
    def test_neighbours_of_one_role_are_one_turn(self):
        said = turns(UserMessage("a"), UserMessage("b"), Response((Text("c"),)), Response((Text("d"),)))
        assert said == [("user", ["a", "b"]), ("assistant", ["c", "d"])]

    @pytest.mark.parametrize("order", [(RESULTS, UserMessage("go on")), (UserMessage("go on"), RESULTS)])
    def test_results_come_first_in_their_turn(self, order):
        assert turns(UserMessage("a"), Response((CALL,)), *order)[-1] == ("user", ["tool_result", "go on"])

    def test_a_message_that_is_blank_is_no_turn_and_roles_alternate_still(self):
        said = turns(UserMessage("a"), Response((Text(" \n"), Reasoning("hm"))), UserMessage(""), UserMessage("b"))
        assert said == [("user", ["a", "b"])]

    def test_blocks_keep_their_order(self):
        signed = Reasoning("hm", {"signature": "s"})
        assert turns(Response((signed, Text("first"), CALL, Text("then"))))[0] == (
            "assistant",
            ["thinking", "first", "tool_use", "then"],
        )

    def test_thoughts_of_another_model_are_not_sent(self):
        assert turns(Response((Reasoning("hm", {"thoughtSignature": "g"}), Text("a")))) == [("assistant", ["a"])]

    def test_a_malformed_call_has_a_name_and_empty_input_and_its_result_belongs_to_it(self):
        malformed = MalformedCall("c1", "", "{oops", "no JSON")
        answer = ToolResults((ToolResult("c1", "unreadable call", "error", "no JSON"),))
        use, result = (turn["content"][0] for turn in body(Response((malformed,)), answer)["messages"])
        assert use == {"type": "tool_use", "id": "c1", "name": "unreadable_call", "input": {}}
        assert (result["tool_use_id"], result["is_error"]) == ("c1", True)

    def test_a_name_no_provider_takes_is_sent_in_letters_it_takes(self):
        (turn,) = body(Response((ToolCall("c", '{"name": "x"}', {}),)))["messages"]
        assert turn["content"][0]["name"] == "__name____x__"

    def test_an_id_that_it_does_not_take_is_sent_in_letters_it_takes(self):
        call = Response((ToolCall("functions.read:0", "read", {}),))
        asked, told = body(call, ToolResults((ToolResult("functions.read:0", "read", "text", "x"),)))["messages"]
        assert asked["content"][0]["id"] == told["content"][0]["tool_use_id"] == "functions_read_0"


class TestAnswer:
    def test_usage_is_the_last_word_of_each_count(self):
        start = {"usage": {"input_tokens": 5, "output_tokens": 1}, "model": "claude"}
        _, response = decoded(
            codec("anthropic"),
            [
                event(type="message_start", message=start),
                event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9}),
            ],
        )
        assert response.usage == Usage(5, 9)

    @pytest.mark.parametrize("later", [{"input_tokens": 10}, {"cache_read_input_tokens": 1000}, {}], ids=str)
    def test_a_count_that_is_told_again_leaves_the_others(self, later):
        first = {"input_tokens": 10, "cache_read_input_tokens": 1000}
        _, response = decoded(
            codec("anthropic"),
            [
                event(type="message_start", message={"usage": first}),
                event(type="message_delta", delta={"stop_reason": "end_turn"}, usage={**later, "output_tokens": 9}),
            ],
        )
        assert response.usage == Usage(1010, 9, 1000)

    def test_message_stop_alone_is_an_end(self):
        assert decoded(codec("anthropic"), [event(type="message_stop")])[1].stop_reason == "other"

    def test_pieces_of_a_block_that_never_began_are_passed_over(self):
        odd = [
            event(type="content_block_delta", index=4, delta={"type": "text_delta", "text": "x"}),
            event(type="content_block_delta", index=4, delta={"type": "input_json_delta", "partial_json": "{}"}),
            event(type="message_stop"),
        ]
        assert decoded(codec("anthropic"), odd) == ([], Response((), "other", Usage()))

    def test_completed_is_the_last_event(self):
        decoder = codec("anthropic").make_decoder("text/event-stream")
        decoder.feed(event(type="message_stop"))
        assert isinstance(decoder.close()[-1], Completed)
