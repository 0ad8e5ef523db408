import json

import pytest

from src.errors import WireError
from src.providers import vllm
from src.types.messages import ToolDefinition

READ = ToolDefinition("read", "Read.", {"type": "object", "properties": {"path": {"type": "string"}}})


def test_the_prompt_of_tokenize():
    body = b'{"count": 3, "max_model_len": 512, "tokens": [1, 2, 3]}'
    assert vllm.prompt_of(body) == vllm.Prompt([1, 2, 3], 512)


def test_the_text_of_detokenize():
    assert vllm.text_of(b'{"prompt": "hi"}') == "hi"
    assert json.loads(vllm.detokenize("tiny", (1, 2))) == {"model": "tiny", "tokens": [1, 2]}


def test_the_version():
    assert vllm.version_of(b'{"version": "0.32.0"}') == "0.32.0"


def test_the_context_lengths_of_the_models_that_say():
    body = b'{"data": [{"id": "a", "max_model_len": 512}, {"id": "b"}, 3]}'
    assert vllm.context_lengths(body) == {"a": 512}


@pytest.mark.parametrize("read", [vllm.prompt_of, vllm.text_of])
@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b"<html>", b'{"tokens": 3, "prompt": 3}'])
def test_another_servers_answer_is_an_error(read, body):
    with pytest.raises(WireError):
        read(body)


def test_the_grammar_allows_free_text_and_after_the_trigger_only_offered_calls():
    structure = json.loads(vllm.constrained([READ])["structural_tag"])
    assert structure["format"]["triggers"] == ["TOOL_CALL:"]
    (tag,) = structure["format"]["tags"]
    (call,) = tag["content"]["json_schema"]["anyOf"]
    assert call["properties"] == {"name": {"const": "read"}, "args": READ.parameters}
    assert call["required"] == ["name", "args"]
