"""Stand-ins that speak the real types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Union

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
