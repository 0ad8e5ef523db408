"""The demo's server answers the program's own client and codec, and refuses requests as vLLM does."""

import json

import pytest

from src.cli.demo.loopback import LoopbackRequest, serve
from src.cli.demo.protocol import CONTEXT_TOKENS, MODEL, VERSION, DemoServer, DemoTurn
from src.negotiation import CallPath
from src.tools import REGISTRY
from src.transport import Client
from src.types.events import Completed
from src.types.messages import Reasoning, UserMessage
from tests.doubles import make_model
from tests.each import check_rows

TURN = DemoTurn("I read it.", "A file, then.", (("read", {"path": "a.txt"}), ("read", {"path": "b.txt"})))


def protocol(turn=TURN):
    return DemoServer(lambda _: turn, lambda _: None)


def asked(method, path, body=b""):
    reply = protocol()(LoopbackRequest(method, path, body if isinstance(body, bytes) else json.dumps(body).encode()))
    return reply.status, json.loads(b"".join(reply.chunks) or "null")


@pytest.fixture
def model():
    with serve(protocol()) as address, Client(f"{address}/v1") as client:
        yield lambda mode: make_model(client, MODEL, path=CallPath(mode))


@pytest.mark.parametrize("mode", ["native", "template", "text"])
def test_the_program_reads_its_calls_on_every_path(model, mode):
    *_, last = model(mode).respond([UserMessage("go")], REGISTRY.definitions)
    assert isinstance(last, Completed)
    response = last.response
    assert [(call.name, call.arguments) for call in response.calls] == list(TURN.calls)
    assert {call.origin for call in response.calls} == {"native" if mode == "native" else "text"}
    assert response.text.strip() == TURN.text
    assert [block.text for block in response.content if isinstance(block, Reasoning)] == [TURN.thought]
    assert response.usage.output_tokens > 0


def test_it_says_its_context_and_version(model):
    assert (model("native").context_length, model("native").server_version) == (CONTEXT_TOKENS, VERSION)


def test_an_answer_that_is_not_streamed():
    body = {"model": MODEL, "messages": [{"role": "user", "content": "go"}], "tools": [{"function": {"name": "read"}}]}
    status, whole = asked("POST", "/v1/chat/completions", body)
    message = whole["choices"][0]["message"]
    assert (status, message["content"], message["reasoning"]) == (200, TURN.text, TURN.thought)
    assert json.loads(message["tool_calls"][1]["function"]["arguments"]) == {"path": "b.txt"}
    assert whole["choices"][0]["finish_reason"] == "tool_calls"


def test_tokenize_counts_more_with_tools():
    counts = [
        asked("POST", "/tokenize", {"messages": [{"role": "user", "content": "go"}], "tools": tools})[1]["count"]
        for tools in ([], [{"function": {"name": "read"}}])
    ]
    assert counts[0] < counts[1]


def test_a_request_that_names_no_model_is_answered_as_vllm_does():
    status, answer = asked("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "go"}]})
    assert (status, answer["model"]) == (200, MODEL)


@check_rows(
    "method, path, body, status, message",
    [
        ("GET", "/v1/nothing", b"", 404, "Not Found"),
        ("GET", "/v1/chat/completions", b"", 405, "Method Not Allowed"),
        ("DELETE", "/v1/responses/x", b"", 404, "Not Found"),
        ("POST", "/v1/chat/completions", b"{", 400, "JSON decode error"),
        ("POST", "/v1/chat/completions", b"[]", 400, "Expected an object"),
        (
            "POST",
            "/v1/chat/completions",
            {"model": "other", "messages": [{}]},
            404,
            "The model `other` does not exist.",
        ),
        ("POST", "/v1/chat/completions", {"model": MODEL, "messages": []}, 400, "at least 1 item"),
    ],
)
def test_it_refuses_as_vllm_does(method, path, body, status, message):
    came, value = asked(method, path, body)
    assert came == status
    assert message in (value["error"]["message"] if "error" in value else value["detail"])
