"""Chat completions as Responses: whole, and as events."""

import itertools

from src.serve.apis.responses_answer import ResponseMaker, ResponsesStream
from src.serve.apis.responses_request import ToolNames

from .test_responses_request import NAMESPACE, PATCH, SEARCH

BODY = {"model": "m", "input": "Do it.", "tools": [PATCH, NAMESPACE, SEARCH]}
CALLS = {
    "apply_patch": '{"input": "x\\n"}',
    "agents__spawn": '{"task": "t"}',
    "tool_search": '{"query": "q"}',
}
WANTED = [
    {"type": "custom_tool_call", "name": "apply_patch", "input": "x\n"},
    {"type": "function_call", "namespace": "agents", "name": "spawn", "arguments": '{"task": "t"}'},
    {"type": "tool_search_call", "execution": "client", "arguments": {"query": "q"}},
]


def make_maker():
    ids = (str(number) for number in itertools.count())
    return ResponseMaker(BODY, ToolNames(BODY), lambda: next(ids))


def encode_calls():
    return [
        {"index": index, "id": f"c{index}", "function": {"name": name, "arguments": arguments}}
        for index, (name, arguments) in enumerate(CALLS.items())
    ]


def stream(*deltas, finish="stop"):
    maker = ResponsesStream(make_maker())
    chunks = [{"created": 1, "choices": [{"delta": delta, "finish_reason": None}]} for delta in deltas]
    chunks.append({"choices": [{"delta": {}, "finish_reason": finish}], "usage": {"prompt_tokens": 3}})
    return [event for chunk in chunks for event in maker.feed(chunk)] + list(maker.close())


def test_calls_come_back_as_the_tools_that_the_client_knows():
    message = {"content": None, "tool_calls": encode_calls()}
    output = make_maker().convert_answer({"choices": [{"message": message, "finish_reason": "tool_calls"}]})["output"]
    assert [wanted.items() <= item.items() for wanted, item in zip(WANTED, output, strict=True)] == [True] * 3
    assert [item["call_id"] for item in output] == ["c0", "c1", "c2"]


def test_streamed_calls_are_the_same_items():
    events = stream(*({"tool_calls": [call]} for call in encode_calls()), finish="tool_calls")
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [wanted.items() <= item.items() for wanted, item in zip(WANTED, done, strict=True)] == [True] * 3
    assert events[-1]["type"] == "response.completed"
    assert events[-1]["response"]["output"] == done


def test_the_input_of_a_custom_tool_comes_in_one_event_when_it_is_whole():
    name, arguments = next(iter(CALLS.items()))
    pieces = [{"index": 0, "function": {"arguments": piece}} for piece in (arguments[:5], arguments[5:])]
    begin = {"index": 0, "id": "c", "function": {"name": name}}
    events = stream(*({"tool_calls": [call]} for call in (begin, *pieces)))
    assert [event["delta"] for event in events if event["type"].endswith("input.delta")] == ["x\n"]


def test_text_and_thought_are_items_with_deltas():
    events = stream({"reasoning": "Hm."}, {"content": "It "}, {"content": "is."})
    assert [event["delta"] for event in events if event["type"] == "response.output_text.delta"] == ["It ", "is."]
    thought, message = events[-1]["response"]["output"]
    assert (thought["content"][0]["text"], message["content"][0]["text"]) == ("Hm.", "It is.")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


def test_an_answer_that_was_cut_is_incomplete():
    response = stream({"content": "It"}, finish="length")[-1]["response"]
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
