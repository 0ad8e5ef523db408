"""Text arrives while the server still works, and what it costs is what the server counted."""

from __future__ import annotations

import json

import pytest

from src.negotiation import CallPath
from src.tools import REGISTRY
from src.transport import Client
from src.types.events import ReasoningDelta, TextDelta
from src.types.messages import Reasoning, SystemMessage, ToolCall, Usage, UserMessage
from tests.doubles import make_model

KINDS = pytest.mark.parametrize("server", ["hermes", "no parser", "strict"], indirect=True)
RUNNING = "vllm:num_requests_running"


@pytest.fixture
def client(server):
    with Client(server.base_url, server.api_key) as client:
        yield client


@pytest.fixture
def root(server):
    """The server above /v1, where its own pages are."""
    with Client(server.base_url.removesuffix("/v1"), server.api_key) as client:
        yield client


def ask(client: Client, method: str, path: str, body: dict | None = None) -> str:
    with client.open(method, path, json.dumps(body).encode() if body else None) as reply:
        assert reply.head.status == 200
        return reply.read().decode()


@KINDS
def test_the_first_words_are_here_while_the_server_is_still_writing(client, root):
    events = make_model(client, "tiny").respond([UserMessage("Count to four hundred.")])
    first = next(event for event in events if isinstance(event, TextDelta))
    assert first.text.startswith("1")
    (running,) = [line for line in ask(root, "GET", "metrics").splitlines() if line.startswith(RUNNING)]
    assert float(running.split()[-1]) >= 1
    *_, completed = events
    assert completed.response.text.endswith("399 400")


@KINDS
def test_a_block_never_shows_in_the_text_that_streams(client):
    messages = [SystemMessage("Be brief."), UserMessage("Quote notes.txt, please.")]
    events = list(make_model(client, "tiny").respond(messages, REGISTRY.definitions))
    shown = "".join(event.text for event in events if isinstance(event, TextDelta))
    assert shown.strip() == "I will look."
    response = events[-1].response
    (call,) = response.calls
    assert call == ToolCall(call.id, "read", {"path": "notes.txt"}, call.origin)
    assert response.stop_reason == "tool_use"


@KINDS
def test_usage_is_what_the_server_counts(client, root):
    *_, completed = make_model(client, "tiny").respond([UserMessage("Say hello.")])
    assert completed.response.text == "Hello there."
    written = json.loads(ask(root, "POST", "tokenize", {"model": "tiny", "prompt": "Hello there."}))["count"]
    asked = {"model": "tiny", "messages": [{"role": "user", "content": "Say hello."}]}
    read = json.loads(ask(root, "POST", "tokenize", asked))["count"]
    assert completed.response.usage == Usage(read, written + 1)  # and the end of the turn


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("server", ["thinking"], indirect=True)
class TestAThinkingModel:
    QUESTION = "Think first, then quote notes.txt, please."

    def test_its_thoughts_are_kept_apart_from_its_text(self, client, native):
        model = make_model(client, "tiny", path=CallPath("native" if native else "text"))
        events = list(model.respond([UserMessage(self.QUESTION)], REGISTRY.definitions))
        response = events[-1].response
        (thought,) = [block for block in response.content if isinstance(block, Reasoning)]
        assert thought.text.strip() == "I should read it."
        assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == thought.text
        assert response.text.strip() == ""
        assert [call.arguments for call in response.calls] == [{"path": "notes.txt"}]

    def test_they_are_no_part_of_the_answer(self, program, server, native):
        answer = program.ask(server, self.QUESTION, vllm={"enable_function_calling": native})
        assert "The heron stands in the reeds." in answer.stdout
        assert "So that is it." not in answer.stdout
        assert answer.code == 0
