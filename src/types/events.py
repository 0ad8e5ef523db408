"""The events that the model and the agent loop yield during a turn.

They are structs of msgspec, which cost little to make: some are made per chunk.
"""

from __future__ import annotations

from typing import Union

from msgspec import Struct

from .messages import MalformedCall, Response, ToolCall, ToolResult, UserMessage


class TextDelta(Struct, frozen=True):
    """Text to show."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    text: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of a call. `call_index` identifies the call among parallel ones; id and name come once."""

    call_index: int
    id: str | None
    name: str | None
    arguments_delta: str


class Completed(Struct, frozen=True):
    response: Response


class TurnStarted(Struct, frozen=True):
    """The model is about to be asked. `number` counts the requests since the user's message, from 1."""

    number: int


class CallStarted(Struct, frozen=True):
    call: ToolCall


class CallDenied(Struct, frozen=True):
    """The call may not run: a rule or a person denied it. CallFinished follows, with the result for the model.

    `is_unasked`: nobody was there to be asked, and `--yes` would have let it run.
    """

    call: ToolCall
    reason: str
    is_unasked: bool = False


class CallFinished(Struct, frozen=True):
    call: ToolCall | MalformedCall
    result: ToolResult


class SubagentStep(Struct, frozen=True):
    """What a subagent does while the call of `task` that started it runs. `step` is an event of its own run."""

    call: ToolCall
    step: CallStarted | CallFinished | Completed


class ModeChanged(Struct, frozen=True):
    """The user accepted a plan, so that more may happen without asking from now on: `mode` holds."""

    mode: str


class LimitHit(Struct, frozen=True):
    """The question took as many turns as allowed by the setting `limit`."""

    limit: str


class Notice(Struct, frozen=True):
    """Something the user should know, in one or two lines."""

    text: str


class PromptChanged(Struct, frozen=True):
    """A request begins otherwise than the one before it, so that nothing of it is in the server's prefix cache.

    `parts`: what changed, of path, system prompt and tools.
    """

    parts: tuple[str, ...]


class PrefixKept(Struct, frozen=True):
    """How much of the last prompt and answer a prompt begins with, in tokens.

    `cause`: what changed, a name of negotiation/continuity.py; empty if the prompt begins with all of it. `place`: of
    the first message of the request that differs; None if the messages are the same.
    """

    tokens: int
    of: int
    cause: str = ""
    place: int | None = None

    @property
    def share(self) -> float:
        return self.tokens / self.of if self.of else 1.0


class Compacted(Struct, frozen=True):
    """A summary replaced the older messages of the conversation.

    Of its `before` messages, the system prompt and the last `kept` stay. `by_hand`: the user asked for it.
    """

    summary: UserMessage
    before: int
    kept: int
    by_hand: bool = False


ModelEvent = Union[TextDelta, ReasoningDelta, ToolCallDelta, Notice, PromptChanged, PrefixKept, Completed]
Event = Union[
    ModelEvent, TurnStarted, CallStarted, CallDenied, CallFinished, SubagentStep, ModeChanged, LimitHit, Compacted
]
