"""What `serve.guards` changes in answers, for a client of the gateway."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.serve.test_gateway import drive, read_metrics, say

PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}},
    "required": ["path"],
}
TOOL = {"type": "function", "function": {"name": "read", "description": "Read.", "parameters": PARAMETERS}}
BODY = {"model": "m", "messages": [{"role": "user", "content": "Read it."}], "tools": [TOOL]}
WRITTEN = '{"path":"a.txt","limit":"5"}'


def call_read(arguments: str = WRITTEN) -> dict[str, Any]:
    answer = say("")
    call = {"id": "n0", "type": "function", "function": {"name": "read", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    answer["choices"][0] |= {"message": message, "finish_reason": "tool_calls"}
    return answer


def stream_read(pieces: list[str]) -> list[bytes]:
    begun = {"index": 0, "id": "n0", "type": "function", "function": {"name": "read", "arguments": ""}}
    calls = [begun, *({"index": 0, "function": {"arguments": piece}} for piece in pieces)]
    choices = [
        *({"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": None} for call in calls),
        {"index": 0, "delta": {}, "finish_reason": "tool_calls"},
    ]
    chunks = [json.dumps({"id": "1", "created": 1, "model": "m", "choices": [choice]}) for choice in choices]
    return [f"data: {chunk}\n\n".encode() for chunk in [*chunks, "[DONE]"]]


async def post(client: Any, body: dict[str, Any]) -> tuple[Any, str]:
    """The header that says what was done, and the answer."""
    async with client.post("/v1/chat/completions", json=body) as reply:
        return reply.headers["x-vllm-bot"], await reply.text()


def read_arguments(text: str) -> str:
    answers = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] or [json.loads(text)]
    choices = [answer["choices"][0] for answer in answers]
    calls = [call for each in choices for call in each.get("delta", each.get("message")).get("tool_calls", ())]
    return "".join(call["function"].get("arguments", "") for call in calls)


class TestFit:
    def test_an_argument_of_the_wrong_type_is_fitted_and_counted(self, tmp_path, caplog):
        async def use(client, _):
            done, text = await post(client, BODY)
            assert read_arguments(text) == '{"path":"a.txt","limit":5}'
            assert done == "path=native; repaired=fitted limit: string to integer; guards=fit:1"
            await post(client, BODY)
            assert 'vllm_bot_guards_total{guard="fit",model="m"} 2.0' in await read_metrics(client)

        with caplog.at_level(logging.WARNING):
            drive(tmp_path, lambda _: call_read(), use)
        assert [record.getMessage() for record in caplog.records] == [
            "serve.guards: fit changed an answer of m, for the first time; vllm_bot_guards_total counts on."
        ]

    def test_in_a_stream_too(self, tmp_path):
        events = stream_read(['{"path":', '"a.txt",', '"limit":"', "5", '"', "}"])

        async def use(client, _):
            _, text = await post(client, {**BODY, "stream": True})
            assert read_arguments(text) == '{"path":"a.txt","limit":5}'
            assert 'vllm_bot_guards_total{guard="fit",model="m"} 1.0' in await read_metrics(client)

        drive(tmp_path, lambda _: events, use)

    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_what_the_model_wrote_goes_back_to_the_server(self, tmp_path, is_streamed):
        async def use(client, fake):
            _, text = await post(client, {**BODY, "stream": is_streamed})
            function = {"name": "read", "arguments": json.dumps(json.loads(read_arguments(text)))}
            call = {"id": "n0", "type": "function", "function": function}
            answer = {"role": "assistant", "content": None, "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": "n0", "content": "It says hello."}
            await post(client, {**BODY, "messages": [*BODY["messages"], answer, result]})
            (sent,) = fake.bodies[-1]["messages"][1]["tool_calls"]
            assert sent["function"]["arguments"] == WRITTEN

        drive(tmp_path, lambda body: stream_read([WRITTEN]) if body.get("stream") else call_read(), use)

    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_is_switched_off_by_its_name(self, tmp_path, is_streamed):
        async def use(client, _):
            done, text = await post(client, {**BODY, "stream": is_streamed})
            assert read_arguments(text) == WRITTEN
            assert done == "path=native"

        drive(tmp_path, lambda _: stream_read([*WRITTEN]) if is_streamed else call_read(), use, guards=())

    @pytest.mark.parametrize("arguments", ['{"path": "5", "limit": 5}', '{"path": "a", "limit": "many"}'])
    def test_an_answer_that_needs_nothing_or_has_no_reading_is_the_server_s(self, tmp_path, arguments):
        async def use(client, _):
            done, text = await post(client, BODY)
            assert json.loads(text) == call_read(arguments)
            assert done == "path=native"

        drive(tmp_path, lambda _: call_read(arguments), use)

    def test_the_old_form_of_a_call_is_fitted_as_well(self, tmp_path):
        answer = call_read()
        (call,) = answer["choices"][0]["message"].pop("tool_calls")
        answer["choices"][0]["message"]["function_call"] = call["function"]

        async def use(client, _):
            _, text = await post(client, BODY)
            message = json.loads(text)["choices"][0]["message"]
            assert json.loads(message["function_call"]["arguments"])["limit"] == 5

        drive(tmp_path, lambda _: answer, use)
