"""What a server does to a call, for better and worse: a grammar that lets none be wrong, parsers that lose some."""

from __future__ import annotations

import pytest

from src.model.recovery import ASKING_AGAIN_NOTICE
from src.model.response_assembler import fits
from src.negotiation import CallPath
from src.providers.vllm import fits_xgrammar
from src.tools import REGISTRY
from src.transport import Client
from src.types.events import Completed, Notice
from src.types.messages import ToolDefinition, UserMessage
from tests.doubles import make_model

from .cells import EMISSIONS, QUESTION

WRONGLY = ("Call a tool wrongly.", "Call a tool that is not there.")
SWALLOWED = QUESTION.format("Python dict in tags")


@pytest.fixture
def client(server):
    with Client(server.base_url, server.api_key) as client:
        yield client


def turn(model, question, tools=REGISTRY.definitions):
    """The response, and what the user was told."""
    *events, completed = model.respond([UserMessage(question)], tools)
    assert isinstance(completed, Completed)
    return completed.response, [event.text for event in events if isinstance(event, Notice)]


class TestStrict:
    @pytest.mark.parametrize("question", WRONGLY)
    def test_without_it_the_server_passes_on_a_call_that_is_wrong(self, client, question):
        response, _ = turn(make_model(client, "tiny"), question)
        assert [fits(call, REGISTRY.definitions) for call in response.calls] == [False]

    @pytest.mark.parametrize("question", WRONGLY)
    def test_with_it_the_model_can_make_none(self, client, question):
        response, _ = turn(make_model(client, "tiny", strict=fits_xgrammar, max_tokens=600), question)
        assert response.calls or response.stop_reason != "end_turn"  # what it then says is random, and may not end
        assert all(fits(call, REGISTRY.definitions) for call in response.calls)

    @pytest.mark.parametrize("stream", [True, False])
    def test_a_model_that_is_asked_about_the_tag_can_name_it(self, client, stream):
        question = 'What is <tool_call>? @@SCRIPT@@["A call begins with <tool_call>, and so on."]@@END@@'
        response, _ = turn(make_model(client, "tiny", strict=fits_xgrammar, stream=stream), question)
        assert (response.text, response.calls) == ("A call begins with <tool_call>, and so on.", ())

    def test_a_schema_that_the_server_cannot_make_a_grammar_of_costs_one_refusal(self, client):
        schema = {"type": "object", "properties": {"path": {"type": "string", "pattern": "(?<!x)y"}}}
        model = make_model(client, "tiny")
        response, told = turn(model, "Say hello.", [ToolDefinition("odd", "Odd.", schema, strict=True)])
        assert (response.text, told, model.path.disabled_fields) == ("Hello there.", [], ("strict",))


@pytest.mark.parametrize("server", ["hermes", "wrong parser"], indirect=True)
class TestWithoutTokenIds:
    """As on servers that give none; with them it is the matrix."""

    def path(self):
        return CallPath(disabled_fields=("return_token_ids",))

    @pytest.mark.parametrize("emission", ["Python dict in tags", "GLM"])
    def test_a_swallowed_call_is_asked_for_in_raw_mode(self, client, emission):
        response, told = turn(make_model(client, "tiny", path=self.path()), QUESTION.format(emission))
        assert [(call.name, dict(call.arguments)) for call in response.calls] == [("read", {"path": "notes.txt"})]
        assert told[0] == ASKING_AGAIN_NOTICE

    def test_a_call_with_a_comma_too_many_is_a_call(self, client):
        """hermes passes it on, and it is mended; the wrong parser swallows it."""
        response, _ = turn(make_model(client, "tiny", path=self.path()), QUESTION.format("malformed, can be mended"))
        assert [(call.name, dict(call.arguments)) for call in response.calls] == [("read", {"path": "notes.txt"})]

    def test_text_that_was_cut_is_whole_again(self, client):
        response, _ = turn(make_model(client, "tiny", path=self.path()), QUESTION.format("no call"))
        assert response.text.startswith("A call begins with <tool_call>. The heron")

    @pytest.mark.parametrize("emission", [name for name, turns in EMISSIONS.items() if turns and "<" not in turns[0]])
    def test_a_call_that_is_there_is_not_asked_for_again(self, client, emission):
        response, told = turn(make_model(client, "tiny", path=self.path()), QUESTION.format(emission))
        assert len(response.calls) == 1
        assert ASKING_AGAIN_NOTICE not in told


def test_vllm_that_is_taken_for_another_server_is_asked_in_raw_mode(client):
    response, told = turn(make_model(client, "tiny", is_vllm=False), SWALLOWED)
    assert [call.origin for call in response.calls] == ["hermes"]
    assert told[0] == ASKING_AGAIN_NOTICE
