"""vLLM's protocol with a script as the model: chat completions, models, version, tokenize, and refusals.

As served by vLLM 0.32: entrypoints/openai/chat_completion, serve/tokenize, serve/exception_handling.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec import Struct

from .loopback import JSON, STREAM, LoopbackReply, LoopbackRequest

MODEL = "demo"
CONTEXT_TOKENS = 32_768
VERSION = "0.32.0+demo"
CHARS_PER_TOKEN = 4
WORD_S = 0.012  # between words, so that the stream is visible


class DemoTurn(Struct, frozen=True):
    """A turn of the script: text, thought, and calls, as names with arguments."""

    text: str
    thought: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.calls else "stop"

    def move_calls_to_text(self) -> DemoTurn:
        blocks = (f"TOOL_CALL: {json.dumps({'name': name, 'args': dict(args)})}" for name, args in self.calls)
        return DemoTurn("\n".join([self.text, *blocks]), self.thought)


NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


class DemoRequest(Struct, frozen=True):
    """A request as the script sees it. `native`: calls go out as tool_calls, and not in the text."""

    messages: list[dict[str, Any]]
    tools: frozenset[str]
    native: bool


Script = Callable[[DemoRequest], DemoTurn]


class DemoServer:
    """Answers requests as vLLM would, with the turns of `script`. `sleep` waits between the words of a stream.

    `has_parser`: False refuses calls as a vLLM without --tool-call-parser. `models`: the names that it serves.
    """

    def __init__(
        self,
        script: Script,
        sleep: Callable[[float], None] = time.sleep,
        *,
        has_parser: bool = True,
        models: Sequence[str] = (MODEL,),
    ) -> None:
        self._script = script
        self._sleep = sleep
        self._has_parser = has_parser
        self._models = models
        self._ids = count(1)

    def __call__(self, request: LoopbackRequest) -> LoopbackReply:
        routes: dict[tuple[str, str], Callable[[dict[str, Any]], LoopbackReply]] = {
            ("GET", "/v1/models"): lambda _: self._list_models(),
            ("GET", "/version"): lambda _: _reply_json(200, {"version": VERSION}),
            ("GET", "/health"): lambda _: LoopbackReply(200, JSON, [b""]),
            ("POST", "/v1/chat/completions"): self._complete,
            ("POST", "/tokenize"): _tokenize,
            ("POST", "/detokenize"): lambda _: _refuse(400, "The demo has no tokens to speak of.", "BadRequestError"),
        }
        route = routes.get((request.method, request.path))
        if route is None:
            if any(path == request.path for _, path in routes):
                return _reply_json(405, {"detail": "Method Not Allowed"})
            return _reply_json(404, {"detail": "Not Found"})
        try:
            body = json.loads(request.body or b"{}")
        except ValueError as error:
            return _refuse(400, f"JSON decode error: {error}", "BadRequestError")
        if not isinstance(body, dict):
            return _refuse(400, "Expected an object.", "BadRequestError")
        return route(body)

    def _list_models(self) -> LoopbackReply:
        shared = {"object": "model", "owned_by": "vllm", "max_model_len": CONTEXT_TOKENS}
        return _reply_json(
            200, {"object": "list", "data": [{"id": name, "root": name, **shared} for name in self._models]}
        )

    def _complete(self, body: dict[str, Any]) -> LoopbackReply:
        model = body.get("model")
        if model is None and self._models:  # vLLM answers without a name, too
            model = self._models[0]
        if model not in self._models:
            return _refuse(404, f"The model `{model}` does not exist.", "NotFoundError", "model")
        messages = list(filter(None, map(_as_dict, _as_list(body.get("messages")))))
        if not messages:
            return _refuse(400, "messages: List should have at least 1 item", "BadRequestError", "messages")
        tools = [str(_as_dict(_as_dict(tool).get("function")).get("name")) for tool in _as_list(body.get("tools"))]
        native = bool(tools) and body.get("tool_choice") != "none"
        if native and not self._has_parser:
            return _refuse(400, NO_PARSER, "BadRequestError")
        if literal := _find_literal(body):
            turn = DemoTurn(literal)
        else:
            turn = self._script(DemoRequest(messages, frozenset(tools), native))
        if not native:
            turn = turn.move_calls_to_text()
        return self._send(turn, body | {"model": model})

    def _send(self, turn: DemoTurn, body: dict[str, Any]) -> LoopbackReply:
        """The turn as an answer to the request, which may want it as a stream."""
        prompt = _count_tokens([body.get("messages"), body.get("tools")])
        answer = _count_tokens([turn.text, turn.thought, turn.calls])
        usage = {"prompt_tokens": prompt, "completion_tokens": answer, "total_tokens": prompt + answer}
        name = f"chatcmpl-demo-{next(self._ids)}"
        head = {"id": name, "model": body["model"]}
        if body.get("stream"):
            with_usage = bool(_as_dict(body.get("stream_options")))
            return LoopbackReply(200, STREAM, self._stream(head, turn, usage, with_usage))
        message = {"role": "assistant", "content": turn.text or None, "tool_calls": _format_calls(name, turn)}
        if turn.thought:
            message["reasoning"] = turn.thought
        choice = {"index": 0, "message": message, "finish_reason": turn.finish_reason}
        return _reply_json(200, _make_body(head, "chat.completion", [choice], usage=usage))

    def _stream(self, head: dict[str, str], turn: DemoTurn, usage: dict[str, int], with_usage: bool) -> Iterator[bytes]:
        def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
            choice = {"index": 0, "delta": delta, "finish_reason": finish}
            return _encode_event(_make_body(head, "chat.completion.chunk", [choice]))

        yield chunk({"role": "assistant", "content": ""})
        for key, text in (("reasoning", turn.thought), ("content", turn.text)):
            for piece in _split_words(text):
                self._sleep(WORD_S)
                yield chunk({key: piece})
        for index, call in enumerate(_format_calls(head["id"], turn)):
            arguments = call["function"]["arguments"]
            yield chunk({"tool_calls": [{**call, "index": index, "function": {**call["function"], "arguments": ""}}]})
            for piece in _split_words(arguments):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, turn.finish_reason)
        if with_usage:
            yield _encode_event(_make_body(head, "chat.completion.chunk", [], usage=usage))
        yield b"data: [DONE]\n\n"


def _find_literal(body: dict[str, Any]) -> str:
    """The only text that the request's grammar allows, if it is so narrow; the script never writes against others."""
    try:
        tag = json.loads(_as_dict(body.get("structured_outputs")).get("structural_tag", "{}"))
    except (TypeError, ValueError):
        return ""
    return str(_as_dict(_as_dict(tag).get("format")).get("value", ""))


def _make_body(head: dict[str, str], kind: str, choices: list[Any], **more: object) -> dict[str, Any]:
    return {**head, "object": kind, "choices": choices, **more}


def _format_calls(name: str, turn: DemoTurn) -> list[dict[str, Any]]:
    return [
        {"id": f"{name}-{number}", "type": "function", "function": {"name": tool, "arguments": json.dumps(dict(args))}}
        for number, (tool, args) in enumerate(turn.calls)
    ]


def _split_words(text: str) -> Iterator[str]:
    """Yield the words, each with the blanks before it."""
    start = 0
    for at, character in enumerate(text):
        if character in " \n" and at > start and text[at - 1] not in " \n":
            yield text[start:at]
            start = at
    if text[start:]:
        yield text[start:]


def _tokenize(body: dict[str, Any]) -> LoopbackReply:
    size = _count_tokens(body.get("prompt") or [body.get("messages"), body.get("tools")])
    return _reply_json(200, {"count": size, "max_model_len": CONTEXT_TOKENS, "tokens": list(range(size))})


def _count_tokens(value: object) -> int:
    """The approximate number of tokens."""
    return len(json.dumps(value)) // CHARS_PER_TOKEN + 1


def _refuse(status: int, message: str, kind: str, parameter: str | None = None) -> LoopbackReply:
    return _reply_json(status, {"error": {"message": message, "type": kind, "param": parameter, "code": status}})


def _reply_json(status: int, value: object) -> LoopbackReply:
    return LoopbackReply(status, JSON, [json.dumps(value).encode()])


def _encode_event(value: object) -> bytes:
    return f"data: {json.dumps(value)}\n\n".encode()


def _as_list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
