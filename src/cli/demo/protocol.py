"""vLLM's protocol around a script: chat completions streamed and whole, models, version, tokenize, and its refusals.

As served by vLLM 0.32: entrypoints/openai/chat_completion, serve/tokenize, serve/exception_handling.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from .loopback import JSON, STREAM, Received, Reply

MODEL = "demo"
CONTEXT = 32_768  # tokens
VERSION = "0.32.0+demo"
CHARACTERS_A_TOKEN = 4
PACE = 0.012  # seconds a word, so that it is seen to stream


class Said(NamedTuple):
    """A turn of the script: what it thinks, says, and calls, by name and arguments."""

    text: str
    thought: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


class Conversation(NamedTuple):
    """A request as the script sees it: `native` where calls go out as tool_calls, and not in the text."""

    messages: list[dict[str, Any]]
    tools: frozenset[str]
    native: bool


Script = Callable[[Conversation], Said]


class Protocol:
    """Answers requests as vLLM would, in the words of `script`. `sleep` waits between the words of a stream."""

    def __init__(self, script: Script, sleep: Callable[[float], None] = time.sleep) -> None:
        self._script = script
        self._sleep = sleep
        self._ids = count(1)

    def __call__(self, asked: Received) -> Reply:
        routes: dict[tuple[str, str], Callable[[dict[str, Any]], Reply]] = {
            ("GET", "/v1/models"): lambda _: _json(200, _models()),
            ("GET", "/version"): lambda _: _json(200, {"version": VERSION}),
            ("GET", "/health"): lambda _: Reply(200, JSON, [b""]),
            ("POST", "/v1/chat/completions"): self._chat,
            ("POST", "/tokenize"): _tokenize,
            ("POST", "/detokenize"): lambda _: _refusal(400, "The demo has no tokens to speak of.", "BadRequestError"),
        }
        route = routes.get((asked.method, asked.path))
        if route is None:
            known = any(path == asked.path for _, path in routes)
            return _json(405, {"detail": "Method Not Allowed"}) if known else _json(404, {"detail": "Not Found"})
        try:
            body = json.loads(asked.body or b"{}")
        except ValueError as error:
            return _refusal(400, f"JSON decode error: {error}", "BadRequestError")
        return route(body) if isinstance(body, dict) else _refusal(400, "Expected an object.", "BadRequestError")

    def _chat(self, body: dict[str, Any]) -> Reply:
        if body.get("model") != MODEL:
            return _refusal(404, f"The model `{body.get('model')}` does not exist.", "NotFoundError", "model")
        messages = [message for message in _list(body.get("messages")) if isinstance(message, dict)]
        if not messages:
            return _refusal(400, "messages: List should have at least 1 item", "BadRequestError", "messages")
        tools = [str(_dict(_dict(tool).get("function")).get("name")) for tool in _list(body.get("tools"))]
        native = bool(tools) and body.get("tool_choice") != "none"
        said = self._script(Conversation(messages, frozenset(tools), native))
        if not native and said.calls:
            blocks = (f"TOOL_CALL: {json.dumps({'name': name, 'args': dict(args)})}" for name, args in said.calls)
            said = Said("\n".join([said.text, *blocks]), said.thought)
        usage = _usage(body, said)
        name = f"chatcmpl-demo-{next(self._ids)}"
        if body.get("stream"):
            return Reply(200, STREAM, self._stream(name, said, usage, bool(_dict(body.get("stream_options")))))
        return _json(200, _whole(name, said, usage))

    def _stream(self, name: str, said: Said, usage: dict[str, int], with_usage: bool) -> Iterator[bytes]:
        chunk = partial(_chunk, name)
        yield chunk({"role": "assistant", "content": ""})
        for key, text in (("reasoning", said.thought), ("content", said.text)):
            for piece in _pieces(text):
                self._sleep(PACE)
                yield chunk({key: piece})
        for index, call in enumerate(_calls(name, said)):
            arguments = call["function"]["arguments"]
            yield chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
            for piece in _pieces(arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, "tool_calls" if said.calls else "stop")
        if with_usage:
            yield _event({"id": name, "object": "chat.completion.chunk", "model": MODEL, "choices": [], "usage": usage})
        yield b"data: [DONE]\n\n"


def _chunk(name: str, delta: dict[str, Any], finish: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return _event({"id": name, "object": "chat.completion.chunk", "model": MODEL, "choices": [choice]})


def _whole(name: str, said: Said, usage: dict[str, int]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": said.text or None, "tool_calls": _calls(name, said)}
    if said.thought:
        message["reasoning"] = said.thought
    finish = "tool_calls" if said.calls else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": name, "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": usage}


def _calls(name: str, said: Said) -> list[dict[str, Any]]:
    return [
        {"id": f"{name}-{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(dict(args))}}
        for number, (tool, args) in enumerate(said.calls)
    ]


def _pieces(text: str) -> Iterator[str]:
    """Word by word, each with the blanks before it."""
    start = 0
    for at, character in enumerate(text):
        if character in " \n" and at > start and text[at - 1] not in " \n":
            yield text[start:at]
            start = at
    if text[start:]:
        yield text[start:]


def _models() -> dict[str, Any]:
    card = {"id": MODEL, "object": "model", "owned_by": "vllm", "root": MODEL, "max_model_len": CONTEXT}
    return {"object": "list", "data": [card]}


def _tokenize(body: dict[str, Any]) -> Reply:
    size = _size(body.get("prompt") or [body.get("messages"), body.get("tools")])
    return _json(200, {"count": size, "max_model_len": CONTEXT, "tokens": list(range(size))})


def _usage(body: dict[str, Any], said: Said) -> dict[str, int]:
    prompt, answer = _size([body.get("messages"), body.get("tools")]), _size([said.text, said.thought, said.calls])
    return {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}


def _size(value: object) -> int:
    """In tokens, about."""
    return len(value if isinstance(value, str) else json.dumps(value)) // CHARACTERS_A_TOKEN + 1


def _refusal(status: int, message: str, kind: str, parameter: str | None = None) -> Reply:
    return _json(status, {"error": {"message": message, "type": kind, "param": parameter, "code": status}})


def _json(status: int, value: object) -> Reply:
    return Reply(status, JSON, [json.dumps(value).encode()])


def _event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
