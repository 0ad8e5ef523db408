import pytest

from src.errors import ServerError, WireError
from src.negotiation import FactStore, ServerApi
from src.providers.base import ChatRequest
from src.providers.openai import OpenAICodec
from src.transport.driver import run
from src.types.messages import UserMessage
from tests.doubles import ScriptedClient, list_models
from tests.providers.doubles import codec

REQUEST = ChatRequest("tiny", [UserMessage("go")])
VLLM = {
    "models": {"data": [{"id": "tiny", "max_model_len": 512}]},
    "version": {"version": "0.32.0"},
    "tokenize": lambda asked: {"tokens": [1] * len(asked["messages"]), "max_model_len": 512},
    "detokenize": lambda asked: {"prompt": "x" * len(asked["tokens"])},
}


class Asked:
    """What a server answers to each of its questions."""

    def __init__(self, is_vllm=True, **aside):
        self._client = ScriptedClient(**aside)
        self._server = ServerApi(OpenAICodec(str), self._client.base_url, FactStore(), is_vllm=is_vllm)

    def __getattr__(self, name):
        return lambda *given: run(getattr(self._server, name)(*given), self._client)


def test_a_vllm_server_tells_all():
    asked = Asked(**VLLM)
    assert asked.list_models() == ["tiny"]
    assert asked.context_length("tiny") == 512
    assert asked.context_length("other") is None
    assert asked.version() == "0.32.0"
    assert asked.tokenize_prompt(REQUEST).tokens == [1]
    assert asked.detokenize("tiny", [1, 2]) == "xx"


def test_what_a_server_does_not_have_is_none():
    asked = Asked()
    assert asked.context_length("tiny") is None
    assert asked.version() == ""
    assert asked.tokenize_prompt(REQUEST) is None
    assert asked.detokenize("tiny", [1]) is None


def test_a_provider_whose_usage_hides_what_was_thought_counts_no_texts():
    client = ScriptedClient()
    server = ServerApi(codec("copilot"), client.base_url, FactStore(), is_vllm=False)
    assert run(server.count_by_prompts("gpt-5", "Hello."), client) is None
    assert client.requests == []


def test_another_server_is_not_asked_for_what_only_vllm_has():
    asked = Asked(is_vllm=False, **VLLM)
    assert asked.list_models() == ["tiny"]
    assert asked.context_length("tiny") is None
    assert asked.tokenize_prompt(REQUEST) is None


def test_where_there_is_no_list_of_models_one_can_be_named():
    client = ScriptedClient()
    with pytest.raises(ServerError) as refused:
        list_models(client)
    assert "choose one with --model" in refused.value.hint


def test_a_page_in_place_of_the_list_is_named():
    client = ScriptedClient()
    client.statuses["models"] = (200, "<html>")
    with pytest.raises(WireError, match='unknown shape: "<html>"'):
        list_models(client)
