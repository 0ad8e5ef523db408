"""Stand-ins that speak the real types."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple, Union

from src.client import HttpReply
from src.messages import Completed, Message, ModelEvent, Response, Text, TextDelta, ToolCall, ToolDefinition
from src.model.path import CallPath
from src.security.approval import Answer, Request
from src.security.policy import Policy
from src.tools.registry import Registry, ToolContext


def says(text: str, *calls: ToolCall, **fields) -> Response:
    """A turn of the model: text, then calls."""
    content = ((Text(text),) if text else ()) + calls
    return Response(content, **({"stop_reason": "tool_use" if calls else "end_turn"} | fields))


class Asked(NamedTuple):
    """What the model was asked: the conversation as it was, and the tools offered."""

    messages: list[Message]
    tools: list[str]


class ScriptedModel:
    """Gives the turns it was made with, one a request; an exception in their place is raised after `partial` text."""

    def __init__(self, *turns: Union[Response, BaseException], partial: str = "") -> None:
        self.turns = list(turns)
        self.partial = partial
        self.asked: list[Asked] = []
        self.path = CallPath()
        self.context_length = 1000

    def respond(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> Iterator[ModelEvent]:
        self.asked.append(Asked(list(messages), [tool.name for tool in tools]))
        turn = self.turns.pop(0)
        if isinstance(turn, BaseException):
            if self.partial:
                yield TextDelta(self.partial)
            raise turn
        if turn.text:
            yield TextDelta(turn.text)
        yield Completed(turn)


class ScriptedApprover:
    """Answers as told, yes, no or more than that, and keeps what it was asked."""

    def __init__(self, *answers: Union[bool, Answer]) -> None:
        self.answers = list(answers)
        self.asked: list[ToolCall] = []

    def approve(self, request: Request) -> Answer:
        self.asked.append(request.call)
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Answer) else Answer(answer, "the user said no.")


def toolbox() -> tuple[Registry, list[str]]:
    """Three tools of every kind, and the list in which they note their runs."""
    registry, ran = Registry(), []

    @registry.tool(risk="low")
    def look(path: str) -> str:
        """Look at a file."""
        ran.append(f"look {path}")
        return f"contents of {path}"

    @registry.tool(risk="high")
    def change(path: str) -> str:
        """Change a file."""
        ran.append(f"change {path}")
        return "changed"

    @registry.tool(risk="low")
    def wait() -> str:
        """Wait for ever."""
        raise KeyboardInterrupt

    return registry, ran


def context(folder: Path = Path("/")) -> ToolContext:
    return ToolContext(workspace=folder)


POLICY = Policy(Path("/"))  # that of no settings at all


class ScriptedClient:
    """A server's answers, one a chat request: (status, body), stream deltas, or a stream's bytes; keeps what was asked.

    `aside` are the answers of its other addresses, by path, as a JSON value, an exception or a function of the
    request's body.
    """

    base_url = "http://scripted/v1"

    def __init__(self, *answers: tuple[int, dict] | list[dict] | bytes, **aside: object) -> None:
        self.answers = list(answers)
        self.aside = aside
        self.requests: list[dict] = []
        self.slept: list[float] = []  # between attempts
        self.sleep = self.slept.append

    @contextmanager
    def open(
        self, method: str, path: str, body: bytes | None = None, *, within: float | None = None
    ) -> Iterator[HttpReply]:
        asked = json.loads(body) if body else {}
        if is_chat(path):
            self.requests.append(asked)
            answer = self.answers.pop(0)
        else:
            answer = self._aside(path.strip("/"), asked)
        if isinstance(answer, tuple):
            status, value = answer
            yield HttpReply(status, "application/json", "", iter([json.dumps(value).encode()]))
            return
        stream = [answer] if isinstance(answer, bytes) else [*map(stream_event, answer), b"data: [DONE]\n\n"]
        yield HttpReply(200, "text/event-stream", "", iter(stream))

    def _aside(self, name: str, asked: dict) -> tuple[int, object]:
        if name not in self.aside:
            return 404, {"detail": "Not Found"}
        answer = self.aside[name]
        if isinstance(answer, BaseException):
            raise answer
        return 200, answer(asked) if callable(answer) else answer


def is_chat(path: str) -> bool:
    """Whether a model's turn is asked for, whoever the provider is."""
    return path.endswith(("chat/completions", "messages")) or "enerateContent" in path


def stream_event(delta: dict) -> bytes:
    """One chunk of a chat completion as it is streamed; a delta's "finish" becomes its finish_reason."""
    choice = {"index": 0, "delta": delta, "finish_reason": delta.get("finish"), "token_ids": delta.get("ids")}
    chunk = {"model": "tiny", "choices": [choice], "usage": delta.get("usage")}
    return f"data: {json.dumps(chunk)}\n\n".encode()


class ScriptedServer:
    """A server on loopback: each chat takes the next answer, as ScriptedClient's; GET /v1/models lists `models`."""

    def __init__(self, *answers: tuple[int, dict] | list[dict] | bytes, models: Sequence[str] = ("tiny",)) -> None:
        self.answers = list(answers)
        self.models = models
        self.requests: list[dict] = []
        self.url = ""

    def __enter__(self) -> ScriptedServer:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _handler(scripted: ScriptedServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(
                200, "application/json", json.dumps({"data": [{"id": name} for name in scripted.models]}).encode()
            )

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if not is_chat(self.path):
                self._send(404, "application/json", b'{"detail": "Not Found"}')
                return
            scripted.requests.append(asked)
            answer = scripted.answers.pop(0)
            if isinstance(answer, tuple):
                self._send(answer[0], "application/json", json.dumps(answer[1]).encode())
            elif isinstance(answer, bytes):
                self._send(200, "text/event-stream", answer)
            else:
                self._send(200, "text/event-stream", b"".join([*map(stream_event, answer), b"data: [DONE]\n\n"]))

        def _send(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Quiet."""

    return Handler
