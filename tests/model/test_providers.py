"""The model on each provider's wire: what it answered goes back as it came, signatures and order included."""

from __future__ import annotations

import pytest

from src.negotiation import MODES, CallPath
from src.transport import Client
from src.types.events import Completed, Notice
from src.types.messages import ToolDefinition, ToolResult, ToolResults, UserMessage
from tests.doubles import ScriptedClient, ScriptedServer, make_model, stream_event
from tests.each import check_rows
from tests.providers.doubles import codec
from tests.providers.test_exchanges import ANSWERS, WHOLE, answer

STREAMS = [name for name in WHOLE if ANSWERS[name]["content_type"] == "text/event-stream"]
TOOLS = [
    ToolDefinition(name, "Do it.", {"type": "object", "properties": {"path": {}, "limit": {}, "content": {}}})
    for name in ("read", "write", "list_boats")
]


def last(events):
    *_, completed = events
    assert isinstance(completed, Completed)
    return completed.response


def refused(provider, message):
    errors = {"anthropic": {"type": "error", "error": {"message": message}}}
    return errors.get(provider, {"error": {"message": message}})


@check_rows("name", STREAMS)
def test_an_answer_goes_back_as_it_came(name):
    case = ANSWERS[name]
    client = ScriptedClient(answer(case), answer(case))
    model = make_model(client, "any", codec=codec(case["provider"]), is_vllm=False)
    conversation = [UserMessage("Look.")]
    conversation.append(last(model.respond(conversation, TOOLS)))
    asked = [*conversation[1].calls, *conversation[1].malformed]
    results = [ToolResult(call.id, call.name or "unreadable call", "text", "done") for call in asked]
    conversation += [ToolResults(tuple(results))] if results else [UserMessage("Go on.")]
    last(model.respond(conversation, TOOLS))
    first, second = client.requests
    turns = [each.get("messages") or each["contents"] for each in (first, second)]
    said = [turn for turn in turns[1] if turn["role"] in ("assistant", "model")]
    assert said == case["sent_back"]
    assert turns[1][: len(turns[0])] == turns[0]


def test_a_gemini_turn_over_http():
    call, said = ANSWERS["gemini-call"], ANSWERS["gemini-thoughts-and-text"]
    with ScriptedServer(answer(call), answer(said)) as server, Client(server.url) as client:
        model = make_model(client, "gemini-3-pro-preview", codec=codec("gemini"), is_vllm=False)
        conversation = [UserMessage("When is high water?")]
        conversation.append(last(model.respond(conversation, TOOLS)))
        conversation.append(ToolResults((ToolResult("made0", "read", "text", "noon"),)))
        assert last(model.respond(conversation, TOOLS)).text == "High water at noon."
    response = {"functionResponse": {"name": "read", "response": {"output": "noon"}}}
    assert server.requests[1]["contents"][-1] == {"role": "user", "parts": [response]}


def test_a_stop_reason_of_the_providers_own_is_kept():
    said = "Here: <think>hm</think> ok"
    stream = b"".join(map(stream_event, [{"content": said}, {"finish": "content_filter"}]))
    for mode in MODES:
        model = make_model(ScriptedClient(stream), "any", is_vllm=False, path=CallPath(mode))
        response = last(model.respond([UserMessage("Look.")], TOOLS))
        assert (response.stop_reason, response.provider_stop_reason) == ("other", "content_filter")


@pytest.mark.parametrize(
    ("provider", "message"),
    [
        ("anthropic", '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        ("ollama", "registry.ollama.ai/library/gemma2:2b does not support tools"),
    ],
)
def test_a_server_that_takes_no_tools_is_asked_through_text(provider, message):
    case = ANSWERS["anthropic-redacted-thinking" if provider == "anthropic" else "openai-refusal"]
    client = ScriptedClient((400, refused(provider, message)), answer(case))
    events = list(
        make_model(client, "any", codec=codec(provider), is_vllm=False).respond([UserMessage("Look.")], TOOLS)
    )
    assert [type(event) for event in events].count(Notice) == 1
    first, second = client.requests
    assert first["tools"] and "tools" not in second
