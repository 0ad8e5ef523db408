"""A request that does not fit the model's context, as the client of each API is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from src.serve.apis.too_long import word_for_messages
from tests.each import check_rows
from tests.serve.test_gateway import BODY, FUNCTION, drive

PROMPT = (
    "This model's maximum context length is 16384 tokens. However, your prompt contains at least 16385 input tokens, "
    "which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
)
BOTH = (
    "This model's maximum context length is 16384 tokens. However, you requested 9000 output tokens and your prompt "
    "contains at least 7385 input tokens, for a total of at least 16385 tokens."
)
CHARACTERS = "This model's maximum context length is 16384 tokens. However, your prompt contains 7200403 characters."
OTHER = "max_tokens=20000 cannot be greater than max_model_len=16384. Please request fewer output tokens."


def refuse(message: str) -> tuple[int, dict[str, Any]]:
    return 400, {"error": {"message": message, "type": "BadRequestError", "param": "input_tokens", "code": 400}}


@check_rows(
    "message, fields, worded",
    [
        (PROMPT, {}, "prompt is too long: 16385 tokens > 16384 maximum"),
        (
            BOTH,
            {},
            "input length and `max_tokens` exceed context limit: 7385 + 9000 > 16384, "
            "decrease input length or `max_tokens` and try again",
        ),
        (CHARACTERS, {}, f"prompt is too long: {CHARACTERS}"),
        (
            "the request exceeds the available context size, try increasing it",
            {"n_prompt_tokens": 9000, "n_ctx": 8192},
            "prompt is too long: 9000 tokens > 8192 maximum",
        ),
        (OTHER, {}, OTHER),
        ("The model is loading.", {}, "The model is loading."),
    ],
)
def test_in_the_words_of_messages(message, fields, worded):
    assert word_for_messages(message, fields) == worded


def ask_all(tmp_path, message: str, *, stream: bool = False) -> dict[str, tuple[int, str]]:
    """Status and answer of each API."""
    answers: dict[str, tuple[int, str]] = {}
    messages_tool = {"name": "read", "input_schema": FUNCTION["parameters"]}
    bodies = {
        "chat/completions": BODY,
        "messages": {**BODY, "tools": [messages_tool], "max_tokens": 100},
        "responses": {"model": "m", "input": "Read it.", "tools": [{"type": "function", **FUNCTION}]},
    }

    async def use(client, _):
        for path, body in bodies.items():
            async with client.post(f"/v1/{path}", json={**body, "stream": stream}) as reply:
                answers[path] = reply.status, await reply.text()

    drive(tmp_path, lambda _: refuse(message), use)
    return answers


@pytest.mark.parametrize("stream", [False, True])
def test_openai_s_code_and_anthropic_s_words_reach_the_client(tmp_path, stream):
    answers = ask_all(tmp_path, PROMPT, stream=stream)
    status, text = answers["chat/completions"]
    error = json.loads(text)["error"]
    assert (status, error["code"], error["type"]) == (400, "context_length_exceeded", "invalid_request_error")
    assert error["message"] == PROMPT
    status, text = answers["messages"]
    assert (status, json.loads(text)["error"]) == (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 16385 tokens > 16384 maximum"},
    )
    assert "context_length_exceeded" in answers["responses"][1]


def test_a_stream_of_responses_fails_with_the_code_that_codex_reads(tmp_path):
    status, text = ask_all(tmp_path, PROMPT, stream=True)["responses"]
    (event,) = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    assert (status, event["type"]) == (200, "response.failed")
    assert event["response"]["error"] == {"code": "context_length_exceeded", "message": PROMPT}


@pytest.mark.parametrize("stream", [False, True])
def test_another_refusal_stays_as_it_is(tmp_path, stream):
    answers = ask_all(tmp_path, OTHER, stream=stream)
    assert json.loads(answers["chat/completions"][1]) == refuse(OTHER)[1]
    assert json.loads(answers["responses"][1]) == refuse(OTHER)[1]
    assert json.loads(answers["messages"][1])["error"]["message"] == OTHER
