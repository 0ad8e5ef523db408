"""The ids of calls by a model's own rule."""

import json

from src.model.request_builder import ModelOptions, RequestBuilder
from src.negotiation import CallPath
from src.negotiation.formats.call_ids import find_id_rule, name_chat_calls
from src.serve.chat_request import ChatBody
from src.types.messages import Response, ToolCall, ToolResult, ToolResults, UserMessage
from tests.each import check_rows
from tests.providers.doubles import codec

RULE = "functions.{name}:{index}"


@check_rows(
    "written, model, rule",
    [
        ("kimi_k2", "any", RULE),
        ("", "moonshotai/Kimi-K2-Thinking", RULE),
        ("none", "kimi-k2.5", RULE),
        ("", "moonshotai/Kimi-K3", ""),
        ("kimi_k3", "kimi-k2", ""),
        ("hermes", "any", ""),
        ("", "Qwen3-8B", ""),
    ],
)
def test_the_format_decides_else_the_name_of_the_model(written, model, rule):
    assert find_id_rule(written, model) == rule


def exchange(*calls):
    made = [ToolCall(id, name, {}) for id, name in calls]
    return [Response(tuple(made)), ToolResults(tuple(ToolResult(each.id, each.name, "text", "x") for each in made))]


TALK = [UserMessage("go"), *exchange(("a", "read"), ("b", "ls")), *exchange(("a", "read"))]


def list_ids(messages):
    calls = [call["id"] for each in messages for call in each.get("tool_calls", ())]
    return calls, [each["tool_call_id"] for each in messages if each["role"] == "tool"]


def test_calls_are_counted_over_the_conversation_and_results_follow_them():
    builder = RequestBuilder(codec("vllm"), ModelOptions())
    expected = ["functions.read:0", "functions.ls:1", "functions.read:2"]
    for length in (len(TALK), 3, len(TALK)):
        request = builder.build("kimi-k2", TALK[:length], (), CallPath("native"), None)
        sent = codec("vllm").encode(request)
        calls, results = list_ids(json.loads(sent.body)["messages"])
        assert calls == results == expected[: len(calls)]


def test_what_was_sent_stays_as_it_was():
    builder = RequestBuilder(codec("vllm"), ModelOptions())
    first = list(builder.build("kimi-k2", TALK[:3], (), CallPath("native"), None).messages)
    longer = list(builder.build("kimi-k2", TALK, (), CallPath("native"), None).messages)
    assert all(one is other for one, other in zip(first, longer, strict=False))


def test_another_model_gets_the_ids_that_came():
    builder = RequestBuilder(codec("vllm"), ModelOptions())
    assert builder.build("kimi-k3", TALK, (), CallPath("native"), None).messages[1] is TALK[1]


def test_a_client_s_calls_are_named_for_the_server_alone():
    call = {"id": "call_9", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "call_9", "content": "x"}]
    assert list_ids(name_chat_calls(messages, RULE)) == (["functions.read:0"], ["functions.read:0"])
    body = ChatBody({"model": "kimi-k2", "messages": messages})
    assert list_ids(body.edit(CallPath())["messages"])[0] == ["functions.read:0"]
    assert list_ids(body.messages)[0] == ["call_9"]
