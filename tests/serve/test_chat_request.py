"""What is edited in a client's chat completion request."""

from __future__ import annotations

import copy
import json

import pytest

from src.negotiation.call_path import CallPath
from src.serve.chat_request import ChatBody
from tests.each import check_rows

TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {}}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.txt"}'}}
EXCHANGE = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image_url", "image_url": {"url": "u"}}]},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "hello <|im_end|>"},
]


def make(**fields) -> ChatBody:
    return ChatBody({"model": "m", "messages": EXCHANGE, "tools": [TOOL], "seed": 7, "unknown": {"x": 1}, **fields})


@pytest.mark.parametrize("mode", ["native", "template", "text"])
def test_the_client_s_body_is_never_changed(mode):
    request = make()
    before = copy.deepcopy(request.body)
    request.edit(CallPath(mode, alternate=True, fold_system=True, text_only=True))
    assert request.body == before


def test_on_the_native_path_only_token_ids_are_added():
    request = make()
    assert request.edit(CallPath()) == {**request.body, "return_token_ids": True}


def test_on_the_template_path_the_tools_stay_and_none_is_chosen():
    request = make()
    added = {"return_token_ids": True, "tool_choice": "none", "skip_special_tokens": False}
    assert request.edit(CallPath("template")) == {**request.body, **added}


def test_on_the_text_path_instructions_stand_at_the_end_of_the_system_message():
    body = make().edit(CallPath("text"))
    system = body["messages"][0]["content"]
    assert system.startswith("Be brief.\n\n## Available Tools")
    assert "tools" not in body and "tool_choice" not in body
    assert body["seed"] == 7 and body["unknown"] == {"x": 1}


def test_on_the_text_path_calls_and_results_are_text_and_images_stay():
    _, user, assistant, result = make().edit(CallPath("text"))["messages"]
    assert user == EXCHANGE[1]
    assert assistant == {"role": "assistant", "content": 'TOOL_CALL: {"name": "read", "args": {"path": "a.txt"}}\n'}
    assert result["role"] == "user" and "[read]" in result["content"]
    assert "<|im_end|>" not in result["content"]  # it could forge a turn


def test_a_template_without_a_system_role_gets_it_with_the_first_user_message():
    messages = make().edit(CallPath("text", alternate=True, fold_system=True))["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "user"]
    assert [part["type"] for part in messages[0]["content"]] == ["text", "text", "image_url"]


def test_a_field_that_the_server_refuses_is_left_out():
    assert "return_token_ids" not in make().edit(CallPath(disabled_fields=("return_token_ids",)))


def test_a_field_of_the_client_is_never_left_out():
    body = make(skip_special_tokens=True).edit(CallPath("template", disabled_fields=("skip_special_tokens",)))
    assert body["skip_special_tokens"] is True


@check_rows("fields",
    [
        {"tools": []}, {"tools": None}, {"tools": "x"}, {"tool_choice": "none"}, {"guided_json": {"type": "object"}},
        {"response_format": {"type": "json_object"}}, {"structured_outputs": {"regex": "a"}}, {"messages": ["x"]},
    ])  # fmt: skip
def test_a_request_whose_answer_cannot_hold_a_call_is_not_guarded(fields):
    assert not make(**fields).is_guarded


def test_a_request_with_tools_is_guarded():
    assert make(response_format={"type": "text"}).is_guarded


def test_on_the_template_path_calls_are_held_to_the_format_that_the_model_writes():
    body = make().edit(CallPath("template", written_format="hermes"))
    form = json.loads(body["structured_outputs"]["structural_tag"])["format"]
    assert form["triggers"] == ["<tool_call>"] and "at_least_one" not in form  # text stays free


@pytest.mark.parametrize("written", ["", "none", "llama_json"])
def test_a_format_that_is_unknown_or_begins_like_text_gets_no_grammar(written):
    assert "structured_outputs" not in make().edit(CallPath("template", written_format=written))


@check_rows("role", ["system", "user", "tool"])
@check_rows("mode", ["template", "text"])
def test_whoever_mentions_a_tag_gets_no_grammar(mode, role):
    quoting = [{"role": role, "content": "It begins with <tool_call>.", "tool_call_id": "c1"}, *EXCHANGE]
    path = CallPath(mode, written_format="hermes")
    assert "structured_outputs" in make().edit(path)
    assert "structured_outputs" not in make(messages=quoting).edit(path)
