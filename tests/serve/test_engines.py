"""Doubles of other engines: their streams, as their sources write them, through the gateway and in the chat.

Ollama: middleware/openai.go and openai/openai.go; SGLang: srt/entrypoints/openai; LM Studio: its developer docs.
llama.cpp's server runs for real: docs/servers.md.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.model.test_model import Served
from tests.serve.test_gateway import find_arguments
from tests.serve.test_rescue import CHAT, PATHS, TEXT_CALL, drive, has_tools, is_error, read_events

ARGUMENTS = '{"path": "a.txt"}'
HERMES = '<tool_call>\n{"name": "read", "arguments": {"path": "a.txt"}}\n</tool_call>'


class Engine:
    """How one server writes a stream."""

    def __init__(self, shell: dict[str, Any], choice: dict[str, Any], delta: dict[str, Any], error: str) -> None:
        self._shell = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 1, "model": "m", **shell}
        self._choice = choice
        self._delta = delta
        self._error = error

    def write_chunk(self, delta: dict[str, Any], finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": {**self._delta, **delta}, "finish_reason": finish, **self._choice}
        return b"data: " + json.dumps({**self._shell, "choices": [choice]}).encode() + b"\n\n"

    def write_native(self) -> list[bytes]:
        """A call that the server's parser found: whole, in one chunk."""
        function = {"name": "read", "arguments": ARGUMENTS}
        call = {"id": "call_7", "index": 0, "type": "function", "function": function}
        first = self.write_chunk({"content": "", "tool_calls": [call]})
        return [first, self.write_chunk({"content": ""}, "tool_calls"), b"data: [DONE]\n\n"]

    def write_text(self, text: str) -> list[bytes]:
        pieces = [self.write_chunk({"content": text[start : start + 3]}) for start in range(0, len(text), 3)]
        return [*pieces, self.write_chunk({"content": ""}, "stop"), b"data: [DONE]\n\n"]

    def write_failure(self) -> list[bytes]:
        """What its parser makes of a call that it cannot read, once the stream has begun."""
        return [self.write_chunk({"content": ""}), *([self._error.encode()] if self._error else [])]


ENGINES = {
    # of an error in a stream, its middleware makes an empty chunk, and ends the stream without a finish reason
    "ollama": Engine({"system_fingerprint": "fp_ollama"}, {}, {"role": "assistant"}, ""),
    "sglang": Engine(
        {"usage": None},
        {"logprobs": None, "matched_stop": None},
        {"role": None, "reasoning_content": None, "tool_calls": None},
        'data: {"error": {"object": "error", "message": "Unexpected token 12606 while expecting start token 200006", '
        '"type": "InternalServerError", "param": null, "code": 500}}\n\n',
    ),
    "lm studio": Engine(
        {"system_fingerprint": "m"},
        {"logprobs": None},
        {},
        'event: error\ndata: {"error": {"message": "Failed to parse tool call: Unexpected end of content"}}\n\n',
    ),
}
REFUSALS = {
    "ollama": (500, {"error": {"message": "XML syntax error on line 8: element <function> closed by </parameter>",
                               "type": "api_error", "param": None, "code": None}}),
    "sglang": (400, {"object": "error", "message": "400", "code": 400, "param": None,
                     "type": "Failed to parse fc related info to json format!"}),
    "lm studio": (500, {"error": "Failed to parse tool call: Extra content after end of tool call"}),
}  # fmt: skip
ALL = [(name, engine, path, body) for name, engine in ENGINES.items() for path, body in PATHS]


def check(folder: Any, answer: Any, path: str, body: dict[str, Any]) -> None:
    async def use(client, _):
        events = await read_events(client, path, body)
        assert not any(map(is_error, events))
        assert json.loads("".join(map(find_arguments, events))) == {"path": "a.txt"}

    drive(folder, answer, use)


@pytest.mark.parametrize(("name", "engine", "path", "body"), ALL)
class TestServe:
    def test_its_own_calls_reach_the_client(self, tmp_path, name, engine, path, body):
        check(tmp_path, lambda _: engine.write_native(), path, body)

    def test_a_call_that_it_leaves_in_the_text_lands(self, tmp_path, name, engine, path, body):
        check(tmp_path, lambda _: engine.write_text(HERMES), path, body)

    def test_a_failure_of_its_parser_in_the_stream_lands(self, tmp_path, name, engine, path, body):
        text = engine.write_text(TEXT_CALL)
        check(tmp_path, lambda asked: engine.write_failure() if has_tools(asked) else text, path, body)

    def test_a_refusal_of_its_parser_lands(self, tmp_path, name, engine, path, body):
        text = engine.write_text(TEXT_CALL)
        check(tmp_path, lambda asked: REFUSALS[name] if has_tools(asked) else text, path, body)


@pytest.mark.parametrize("name", ENGINES)
class TestChat:
    def test_its_own_calls_are_read(self, name):
        served = Served(b"".join(ENGINES[name].write_native()))
        assert [call.arguments for call in served.ask().calls] == [{"path": "a.txt"}]

    def test_a_refusal_of_its_parser_is_asked_again(self, name):
        served = Served(REFUSALS[name], b"".join(ENGINES[name].write_text(TEXT_CALL)))
        assert [call.arguments for call in served.ask().calls] == [{"path": "a.txt"}]


def test_ollama_s_whole_refusal_reaches_a_client_that_requires_a_call(tmp_path):
    async def use(client, _):
        body = {**PATHS[0][1], "stream": False, "tool_choice": "required"}
        async with client.post(CHAT, json=body) as reply:
            assert (reply.status, await reply.json()) == REFUSALS["ollama"]

    drive(tmp_path, lambda _: REFUSALS["ollama"], use)
