"""A model that says what a test lists, for tests of programs that use this library. It is a real server on loopback.

    with ScriptedServer(call("weather", city="Oslo"), "It rains.") as scripted, Server(scripted.url) as server:
        assert str(server.agent([weather]).answer("How is Oslo?")) == "It rains."

What the program sends takes the way that it takes to vLLM, so a test also sees what the model would be told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TypeAlias, Union

from .cli.demo.loopback import JSON as JSON_TYPE
from .cli.demo.loopback import LoopbackReply, LoopbackRequest, serve
from .cli.demo.protocol import CONTEXT_TOKENS, MODEL, DemoRequest, DemoServer, DemoTurn
from .types.messages import JSON, ToolCall

__all__ = ["ScriptedServer", "Turn", "call"]

Part: TypeAlias = Union[str, ToolCall]
# A text, a call, several of them, or a function that makes them of the messages of the request.
Turn: TypeAlias = Union[Part, Sequence[Part], Callable[[list[dict[str, Any]]], Union[Part, Sequence[Part]]]]
CHAT = "/v1/chat/completions"


def call(tool: str, /, **arguments: JSON) -> ToolCall:
    """A call of a tool, as a turn of the script or as a part of one."""
    return ToolCall("", tool, arguments)


class ScriptedServer:
    """Answers each request for a turn with the next of `turns`. It serves `models`, and runs inside its `with` block.

    `url`: for Server or AsyncServer. `requests`: the bodies that were sent, in order. `turns`: those that are left; a
    request after the last one is refused. `has_parser`: without one the server takes no `tools`, as a vLLM that was
    started without --tool-call-parser, and the calls come in the text.
    """

    def __init__(self, *turns: Turn, models: Sequence[str] = ("scripted",), has_parser: bool = True) -> None:
        self.turns = list(turns)
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self._models = models
        self._server = DemoServer(self._take_turn, lambda _: None, has_parser=has_parser)
        self._stack = ExitStack()

    def __enter__(self) -> ScriptedServer:
        self.url = f"{self._stack.enter_context(serve(self._respond))}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _respond(self, request: LoopbackRequest) -> LoopbackReply:
        if request.method == "GET" and request.path == "/v1/models":
            cards = [{"id": name, "owned_by": "vllm", "max_model_len": CONTEXT_TOKENS} for name in self._models]
            return _reply(200, {"object": "list", "data": cards})
        if request.path != CHAT:
            return self._server(request)
        body = json.loads(request.body)
        self.requests.append(body)
        if not self.turns:
            message = f"The script of this test is over, and request {len(self.requests)} came."
            return _reply(400, {"error": {"message": message, "type": "BadRequestError", "code": 400}})
        return self._server(LoopbackRequest(request.method, request.path, json.dumps(body | {"model": MODEL}).encode()))

    def _take_turn(self, request: DemoRequest) -> DemoTurn:
        turn = self.turns.pop(0)
        content = turn(request.messages) if callable(turn) else turn
        parts = [content] if isinstance(content, (str, ToolCall)) else list(content)
        text = "\n".join(part for part in parts if isinstance(part, str))
        calls = tuple((part.name, part.arguments) for part in parts if isinstance(part, ToolCall))
        return DemoTurn(text, calls=calls)


def _reply(status: int, value: object) -> LoopbackReply:
    return LoopbackReply(status, JSON_TYPE, [json.dumps(value).encode()])
