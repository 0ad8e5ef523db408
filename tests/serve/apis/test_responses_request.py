"""Responses requests as chat completions."""

import pytest

from src.serve.apis.dialects import DIALECTS
from src.serve.apis.responses_request import ToolNames, read_payload, to_chat

PATCH = {"type": "custom", "name": "apply_patch", "description": "Edit files.", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}}  # fmt: skip
NAMESPACE = {"type": "namespace", "name": "agents", "tools": [{"type": "function", "name": "spawn", "parameters": {}}]}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Search.", "parameters": {"type": "object"}}
FOUND = {"type": "function", "name": "late", "parameters": {"type": "object"}}


def convert(**body):
    return to_chat(body, ToolNames(body))


def list_functions(**body):
    return [*ToolNames(body).functions]


def test_tools_of_every_kind_that_a_client_runs_become_functions():
    tools = [PATCH, NAMESPACE, SEARCH, {"type": "web_search"}]
    assert list_functions(tools=tools) == ["apply_patch", "agents__spawn", "tool_search"]


def test_the_grammar_of_a_custom_tool_is_told_the_model():
    (function,) = ToolNames({"tools": [PATCH]}).functions.values()
    assert "start: x" in function["function"]["description"]


@pytest.mark.parametrize("kind", ["additional_tools", "tool_search_output"])
def test_tools_that_come_within_the_input_are_offered_once(kind):
    item = {"type": kind, "call_id": "c", "tools": [FOUND]}
    assert list_functions(tools=[], input=[item, item]) == ["late"]


def test_the_items_of_one_answer_are_one_message():
    items = [
        {"role": "user", "content": "Do it."},
        {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Now."}]},
        {"type": "custom_tool_call", "call_id": "a", "name": "apply_patch", "input": "x\n"},
        {"type": "function_call", "call_id": "b", "namespace": "agents", "name": "spawn", "arguments": "{}"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "done"},
        {"type": "function_call_output", "call_id": "b", "output": [{"type": "input_text", "text": "started"}]},
    ]
    user, answer, *results = convert(input=items, tools=[PATCH, NAMESPACE])["messages"]
    assert user == {"role": "user", "content": "Do it."}
    assert (answer["reasoning"], answer["content"]) == ("Hm.", "Now.")
    functions = [call["function"] for call in answer["tool_calls"]]
    assert functions == [
        {"name": "apply_patch", "arguments": '{"input": "x\\n"}'},
        {"name": "agents__spawn", "arguments": "{}"},
    ]
    assert [(each["tool_call_id"], each["content"]) for each in results] == [("a", "done"), ("b", "started")]


def test_a_search_for_tools_and_what_it_found_are_a_call_and_its_result():
    items = [
        {"type": "tool_search_call", "call_id": "s", "execution": "client", "arguments": {"query": "late"}},
        {"type": "tool_search_output", "call_id": "s", "tools": [FOUND]},
    ]
    chat = convert(input=items, tools=[SEARCH])
    call, result = chat["messages"]
    assert call["tool_calls"][0]["function"] == {"name": "tool_search", "arguments": '{"query": "late"}'}
    assert (result["tool_call_id"], "late" in result["content"]) == ("s", True)
    assert [each["function"]["name"] for each in chat["tools"]] == ["tool_search", "late"]


def test_an_image_stays_one():
    content = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": "data:x", "detail": "low"}]
    (message,) = convert(input=[{"role": "user", "content": content}])["messages"]
    assert message["content"][1] == {"type": "image_url", "image_url": {"url": "data:x", "detail": "low"}}


def test_fields_keep_their_meaning():
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    chat = convert(
        input="Hi",
        instructions="Be brief.",
        max_output_tokens=5,
        stream=True,
        text={"format": form},
        seed=3,
        store=False,
    )
    assert chat["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    assert (chat["max_completion_tokens"], chat["seed"], chat["stream_options"]) == (5, 3, {"include_usage": True})
    assert chat["response_format"]["json_schema"] == {"name": "n", "schema": {"type": "object"}, "strict": True}


def test_an_input_that_is_neither_text_nor_items_is_refused():
    with pytest.raises(ValueError, match="input: "):
        convert(input=5)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "user", "content": [{"type": "input_file"}]},
        {"type": "computer_call"},
        {"type": ["message"]},
    ],
)
def test_what_no_chat_completion_has_is_left_to_the_server(item):
    assert DIALECTS["/v1/responses"]({"input": [item], "tools": [PATCH]}, str).chat is None


@pytest.mark.parametrize(
    ("arguments", "payload"), [('{"input": "a\\nb"}', "a\nb"), ("no JSON", "no JSON"), ("{}", "{}")]
)
def test_the_input_of_a_custom_tool_is_the_text_itself(arguments, payload):
    assert read_payload(arguments) == payload
