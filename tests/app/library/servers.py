"""Servers for tests of the library: scripted ones on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from src.cli.demo.loopback import JSON, STREAM, LoopbackReply, LoopbackRequest, serve
from src.cli.demo.protocol import DemoServer, DemoTurn
from tests.doubles import stream_event


@contextmanager
def serve_one_call(name: str, arguments: dict) -> Iterator[str]:
    """The address of a server whose model makes one call, and then says what it was told."""

    def respond(conversation):
        last = conversation.messages[-1]
        if last["role"] == "tool":
            return DemoTurn(f"I was told: {last['content']}")
        return DemoTurn("", calls=((name, arguments),))

    with serve(DemoServer(respond, lambda _: None)) as address:
        yield f"{address}/v1"


class ParserlessServer:
    """As vLLM started without a tool parser: it refuses `tools`. `asked` has the path of each request.

    Its model makes one call in the text, and then says what it was told.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []

    def respond(self, request: LoopbackRequest) -> LoopbackReply:
        self.asked.append(request.path)
        body = json.loads(request.body) if request.body else {}
        if request.path.endswith("/models"):
            return _reply(200, {"data": [{"id": "tiny", "max_model_len": 16_384}]})
        if request.path == "/tokenize":
            size = len(json.dumps(body["messages"]))  # of a template that does not show the tools
            return _reply(200, {"tokens": [1] * size, "count": size, "max_model_len": 16_384})
        if not request.path.endswith("/chat/completions"):
            return _reply(404, {"detail": "Not Found"})
        if "tools" in body:
            return _reply(400, {"error": {"message": NO_PARSER, "type": "BadRequestError", "code": 400}})
        last = body["messages"][-1]["content"]
        is_told = "Tool execution results" in last
        text = "It rains." if is_told else 'TOOL_CALL: {"name": "weather", "args": {"city": "Oslo"}}'
        pieces = [stream_event({"content": text}), stream_event({"finish": "stop"}), b"data: [DONE]\n\n"]
        return LoopbackReply(200, STREAM, pieces)

    @contextmanager
    def serve(self) -> Iterator[str]:
        """The address."""
        with serve(self.respond) as address:
            yield f"{address}/v1"


NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'


def _reply(status: int, value: object) -> LoopbackReply:
    return LoopbackReply(status, JSON, [json.dumps(value).encode()])
