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
from .cli.demo.protocol import DemoRequest, DemoServer, DemoTurn
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

    What a turn's function raises is raised at the end of the block; until then the script answers no more requests.
    Raises TypeError for what is no turn.

    `url`: for Server or AsyncServer. `requests`: the bodies that were sent, in order. `turns`: those that are left; a
    request after the last one is refused. `has_parser`: without one the server takes no `tools`, as a vLLM that was
    started without --tool-call-parser, and the calls come in the text.
    """

    def __init__(self, *turns: Turn, models: Sequence[str] = ("scripted",), has_parser: bool = True) -> None:
        for turn in turns:
            if not callable(turn):
                _list_parts(turn)
        self.turns = list(turns)
        self.requests: list[dict[str, Any]] = []
        self.url = ""
        self._error: BaseException | None = None  # of a turn
        self._server = DemoServer(self._take_turn, lambda _: None, has_parser=has_parser, models=models)
        self._stack = ExitStack()

    def __enter__(self) -> ScriptedServer:
        self.url = f"{self._stack.enter_context(serve(self._respond))}/v1"
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        if self._error is not None:
            raise self._error

    def _respond(self, request: LoopbackRequest) -> LoopbackReply:
        if (request.method, request.path) != ("POST", CHAT):
            return self._server(request)
        try:
            self.requests.append(json.loads(request.body))
        except ValueError:
            return self._server(request)  # which refuses it
        if self._error is None:
            if not self.turns:
                return _refuse(f"The script of this test is over, and request {len(self.requests)} came.")
            try:
                return self._server(request)
            except BaseException as error:  # noqa: BLE001 - raised by __exit__; that of pytest.fail is no Exception
                self._error = error
        return _refuse(f"A turn of this script raised {type(self._error).__name__}.")

    def _take_turn(self, request: DemoRequest) -> DemoTurn:
        turn = self.turns.pop(0)
        parts = _list_parts(turn(request.messages) if callable(turn) else turn)
        text = "\n".join(part for part in parts if isinstance(part, str))
        calls = tuple((part.name, part.arguments) for part in parts if isinstance(part, ToolCall))
        return DemoTurn(text, calls=calls)


def _list_parts(content: Part | Sequence[Part]) -> list[Part]:
    """The texts and calls of a turn. Raises TypeError."""
    if isinstance(content, (str, ToolCall)):
        return [content]
    is_list = isinstance(content, Sequence) and len(content) > 0
    if not is_list or not all(isinstance(part, (str, ToolCall)) for part in content):
        raise TypeError(f"Expected a text, a call(...), a list of them or a function as a turn, got {content!r:.60}.")
    return list(content)


def _refuse(message: str) -> LoopbackReply:
    """An answer after which nothing is sent again."""
    error = {"message": message, "type": "BadRequestError", "code": 400}
    return LoopbackReply(400, JSON_TYPE, [json.dumps({"error": error}).encode()])
