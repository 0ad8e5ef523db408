"""vLLM's own /v1/messages, spoken to as Anthropic's: the codec against a server that is not ours."""

from __future__ import annotations

import json

import pytest

from src.app.endpoint import random_id
from src.providers.anthropic import AnthropicCodec
from src.providers.base import ChatRequest
from src.providers.server_errors import read_refusal
from src.transport import Client
from src.types.events import Completed, TextDelta, ToolCallDelta
from src.types.messages import Named, ToolDefinition, ToolResult, ToolResults, UserMessage
from tests.doubles import list_models

ANTHROPIC = {"provider": "anthropic"}
READ = ToolDefinition(
    "read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
)


def saying(*turns: str) -> str:
    """A question to the rig's model that holds what it is to answer, turn by turn."""
    return f"@@SCRIPT@@{json.dumps(turns)}@@END@@"


def call(path: str) -> str:
    return f'<tool_call>\n{{"name": "read", "arguments": {{"path": "{path}"}}}}\n</tool_call>'


HELLO = saying("Hello! How can I help you today?")
READ_NOTES = saying(call("notes.txt"), "It says: {{results}}")


def test_a_tool_is_called_and_its_result_answered(program, server):
    answer = program.ask(server, READ_NOTES, debug="2", vllm=ANTHROPIC)
    assert "The heron stands in the reeds." in answer.stdout
    assert answer.code == 0
    posts = [line for line in answer.debug if line.startswith("[DEBUG] POST")]
    # The tokens of the answer are counted: they show whether the server's parser lost a call.
    assert [post.split()[2].rpartition("/")[2] for post in posts] == ["messages", "messages", "tokenize"]
    assert '"tool_result"' in posts[1]


def test_two_calls_in_one_turn_are_both_answered(program, server):
    both = saying(f"{call('notes.txt')}\n{call('list.txt')}", "They say: {{result}}")
    answer = program.ask(server, both, vllm=ANTHROPIC)
    assert "rope, lamp, bread" in answer.stdout
    assert 'read(path="notes.txt") -> 1\tThe heron stands in the reeds.' in answer.stderr


@pytest.mark.parametrize("server", ["strict"], indirect=True)
def test_without_a_parser_calls_go_through_text(program, server):
    text = saying('TOOL_CALL: {"name": "read", "args": {"path": "notes.txt"}}', "It says: {{results}}")
    answer = program.ask(server, text, vllm={**ANTHROPIC, "max_tokens": 200})
    assert "heron" in answer.stdout
    assert "This server accepts no native tool calls" in answer.stderr


@pytest.mark.parametrize("server", ["no parser"], indirect=True)
def test_a_server_that_asks_for_a_key_gets_it(program, server):
    assert program.ask(server, HELLO, vllm={**ANTHROPIC, "enable_function_calling": False}).stdout.startswith("Hello!")
    refused = program.ask(server._replace(api_key="wrong"), HELLO, vllm=ANTHROPIC)
    assert (refused.stdout, refused.code) == ("", 1)
    assert "HTTP 401" in refused.stderr


class TestTheCodec:
    @pytest.fixture
    def client(self, server):
        with Client(server.base_url, server.api_key) as client:
            yield client

    @pytest.fixture
    def ask(self, client):
        codec = AnthropicCodec(random_id)
        (name,) = list_models(client, codec)

        def ask(*messages, **fields):
            request = codec.encode(ChatRequest(name, messages, **fields))
            with client.open("POST", request.path, request.body) as reply:
                if reply.head.status != 200:
                    raise read_refusal(reply.head.status, reply.read())
                decoder = codec.make_decoder(reply.head.content_type)
                *events, completed = [e for chunk in reply.chunks for e in decoder.feed(chunk)] + decoder.close()
            assert isinstance(completed, Completed)
            return events, completed.response

        return ask

    def test_text_comes_in_pieces(self, ask):
        events, response = ask(UserMessage(HELLO))
        assert len(events) > 5
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == response.text
        assert response.stop_reason == "end_turn"
        assert response.usage.input_tokens > 0 and response.usage.output_tokens > 5

    def test_a_call_comes_in_pieces_and_its_exchange_goes_back(self, ask):
        question = UserMessage(READ_NOTES)
        events, response = ask(question, tools=[READ])
        (call,) = response.calls
        assert len([event for event in events if isinstance(event, ToolCallDelta)]) > 3
        assert (call.name, call.arguments, response.stop_reason) == ("read", {"path": "notes.txt"}, "tool_use")
        result = ToolResults((ToolResult(call.id, "read", "text", "The heron stands."),))
        assert ask(question, response, result, tools=[READ])[1].text.startswith("It says: ")

    @pytest.mark.parametrize("kind_and_value", [("data", {"lines": 2}), ("error", "no such file")])
    def test_every_kind_of_result_is_taken(self, ask, kind_and_value):
        question = UserMessage(READ_NOTES)
        _, response = ask(question, tools=[READ])
        result = ToolResult(response.calls[0].id, "read", *kind_and_value)
        assert ask(question, response, ToolResults((result,)), tools=[READ])[1].text.startswith("It says: ")

    def test_a_tool_that_must_be_called_is_called(self, ask):
        _, response = ask(UserMessage(READ_NOTES), tools=[READ], tool_choice=Named("read"))
        assert [call.name for call in response.calls] == ["read"]

    def test_none_keeps_the_tools_and_calls_none(self, ask):
        _, response = ask(UserMessage(HELLO), tools=[READ], tool_choice="none")
        assert response.calls == ()
        assert response.text.startswith("Hello!")

    def test_an_answer_cut_off_is_said_to_be(self, ask):
        _, response = ask(UserMessage(HELLO), max_tokens=3)
        assert response.stop_reason == "max_tokens"
