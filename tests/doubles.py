"""Stand-ins that speak the real types."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Union

from src.client import HttpReply
from src.messages import Completed, Message, ModelEvent, Response, Text, TextDelta, ToolCall, ToolDefinition
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
    """Answers as told, and keeps what it was asked."""

    refusal = "the user said no."

    def __init__(self, *answers: bool) -> None:
        self.answers = list(answers)
        self.asked: list[ToolCall] = []

    def approve(self, call: ToolCall, reason: str) -> bool:
        self.asked.append(call)
        return self.answers.pop(0)


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


class ScriptedClient:
    """A server's answers, one a request: (status, body), stream deltas, or a stream's bytes; keeps what was asked."""

    base_url = "http://scripted/v1"

    def __init__(self, *answers: tuple[int, dict] | list[dict] | bytes) -> None:
        self.answers = list(answers)
        self.requests: list[dict] = []

    @contextmanager
    def open(self, method: str, path: str, body: bytes | None = None) -> Iterator[HttpReply]:
        self.requests.append(json.loads(body) if body else {"GET": path})
        answer = self.answers.pop(0)
        if isinstance(answer, tuple):
            status, value = answer
            yield HttpReply(status, "application/json", "", iter([json.dumps(value).encode()]))
            return
        stream = [answer] if isinstance(answer, bytes) else [*map(stream_event, answer), b"data: [DONE]\n\n"]
        yield HttpReply(200, "text/event-stream", "", iter(stream))


def stream_event(delta: dict) -> bytes:
    """One chunk of a chat completion as it is streamed; a delta's "finish" becomes its finish_reason."""
    choice = {"index": 0, "delta": delta, "finish_reason": delta.get("finish")}
    chunk = {"model": "tiny", "choices": [choice]}
    return f"data: {json.dumps(chunk)}\n\n".encode()
