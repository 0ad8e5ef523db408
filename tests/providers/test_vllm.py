import json

import pytest

from src.errors import WireError
from src.providers import vllm
from src.providers.base import ChatRequest
from src.providers.vllm import fits_nothing, fits_openai_strict, fits_xgrammar
from src.tools import REGISTRY
from src.types.messages import Named, Response, Text, ToolDefinition, Usage
from tests.each import check_rows

READ = ToolDefinition("read", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})


def test_the_prompt_of_tokenize():
    body = b'{"count": 3, "max_model_len": 512, "tokens": [1, 2, 3]}'
    assert vllm.read_prompt(body) == vllm.TokenizedPrompt([1, 2, 3], 512)


def test_the_text_of_detokenize():
    assert vllm.read_detokenized(b'{"prompt": "hi"}') == "hi"
    assert json.loads(vllm.encode_detokenize("tiny", (1, 2))) == {"model": "tiny", "tokens": [1, 2]}


def test_the_answer_of_completions_is_text():
    body = {"model": "tiny", "choices": [{"text": "Hi", "finish_reason": "length"}], "usage": {"prompt_tokens": 3}}
    response = vllm.read_completion(json.dumps(body).encode())
    assert response == Response((Text("Hi"),), "max_tokens", Usage(3, 0), "tiny")
    with pytest.raises(WireError, match="completions"):
        vllm.read_completion(b'{"choices": []}')


def test_a_completion_always_has_a_limit():
    request = ChatRequest("tiny", [], temperature=0.0)
    sent = json.loads(vllm.encode_completion(request, vllm.TokenizedPrompt([1, 2], 10)))
    assert (sent["prompt"], sent["max_tokens"], sent["temperature"]) == ([1, 2], 7, 0.0)


def test_the_version():
    assert vllm.read_version(b'{"version": "0.32.0"}') == "0.32.0"


def test_the_context_lengths_of_the_models_that_say():
    body = b'{"data": [{"id": "a", "max_model_len": 512}, {"id": "b"}, 3, {"id": "c", "max_model_len": 0}, '
    body += b'{"id": "llama.cpp", "meta": {"n_ctx": 8192}}]}'
    assert vllm.read_model_facts(body).context_lengths == {"a": 512, "llama.cpp": 8192}


def test_what_llama_cpp_says_of_its_model():
    body = b'{"data": [{"id": "a", "owned_by": "llamacpp", "meta": {"n_ctx": 512, "n_params": 7}}]}'
    assert vllm.read_model_facts(body) == vllm.ModelFacts({"a": 512}, {"a": 7}, "llamacpp")


@check_rows("body", [b"{}", b"[]", b"[3]", b'{"data": null}', b'{"data": [{"meta": 3}]}'])
def test_a_list_that_says_nothing_of_its_models(body):
    facts = vllm.read_model_facts(body)
    assert (facts.context_lengths, facts.parameter_counts, facts.owner) == ({}, {}, "")


@check_rows("read", [vllm.read_prompt, vllm.read_detokenized])
@check_rows("body", [b"", b"[]", b"{}", b"<html>", b'{"tokens": 3, "prompt": 3}'])
def test_another_servers_answer_is_an_error(read, body):
    with pytest.raises(WireError):
        read(body)


def test_the_grammar_allows_free_text_and_after_the_trigger_only_offered_calls():
    structure = json.loads(vllm.constrain_calls([READ])["structural_tag"])
    assert structure["format"]["triggers"] == ["TOOL_CALL:"]
    (tag,) = structure["format"]["tags"]
    (call,) = tag["content"]["json_schema"]["anyOf"]
    assert call["properties"] == {"name": {"const": "read"}, "args": READ.parameters}
    assert call["required"] == ["name", "args"]


@pytest.mark.parametrize(
    ("choice", "names", "bounds"),
    [
        ("auto", ["read", "list"], {}),
        ("required", ["read", "list"], {"at_least_one": True}),
        (Named("list"), ["list"], {"at_least_one": True, "stop_after_first": True}),
    ],
)
def test_the_grammar_of_a_forced_call_begins_with_it(choice, names, bounds):
    tools = [READ, ToolDefinition("list", "List files.", READ.parameters)]
    form = json.loads(vllm.constrain_calls(tools, choice)["structural_tag"])["format"]
    calls = form["tags"][0]["content"]["json_schema"]["anyOf"]
    assert [call["properties"]["name"]["const"] for call in calls] == names
    assert {name: form[name] for name in ("at_least_one", "stop_after_first") if name in form} == bounds


OPEN = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
CLOSED = {**OPEN, "required": ["path", "limit"], "additionalProperties": False}


def holding(schema):
    return {"type": "object", "properties": {"one": {"type": "array", "items": schema}}}


def test_the_tools_of_this_program_can_be_pinned_on_vllm():
    assert all(fits_xgrammar(tool.parameters) for tool in REGISTRY.definitions)


@check_rows(
    "schema",
    [
        {"type": "string", "enum": ["a", "b"], "description": "One of two."},
        {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 9}, {"type": "null"}], "default": None},
        {"type": ["string", "null"], "maxLength": 10},
        {"type": "object", "additionalProperties": {"type": "number"}},
        {},
    ],
)
def test_what_a_grammar_can_hold(schema):
    assert fits_xgrammar(schema)
    assert fits_xgrammar(holding(schema))


@check_rows(
    "schema",
    [
        {"type": "string", "pattern": "(?<!x)y"},
        {"type": "string", "format": "uuid"},
        {"type": "nonsense"},
        {"type": {"of": "string"}},
        {"type": [["string"]]},
        {"$ref": "#/$defs/Missing"},
        {"type": "integer", "maximum": 2**70},
        {"type": "integer", "minimum": "1"},
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "number", "multipleOf": 3},
        {"anyOf": "nonsense"},
        {"properties": "nonsense"},
        "nonsense",
    ],
)
def test_what_it_cannot_wherever_it_stands(schema):
    assert not fits_xgrammar(holding(schema))
    assert not fits_openai_strict(holding(schema))


def test_openai_wants_every_object_to_say_all_and_to_need_all():
    assert fits_openai_strict(CLOSED)
    assert not fits_openai_strict(OPEN)
    assert not fits_openai_strict({**CLOSED, "required": ["path"]})
    assert not fits_openai_strict({**CLOSED, "properties": {**CLOSED["properties"], "limit": OPEN}})


def test_other_servers_know_of_none():
    assert not fits_nothing(CLOSED)
