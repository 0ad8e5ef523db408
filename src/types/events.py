"""The events that the model and the agent loop yield during a turn.

They are NamedTuples, which cost half as much to make as frozen dataclasses: some are made per chunk.
"""

from __future__ import annotations

from typing import NamedTuple, Union

from .messages import MalformedCall, Response, ToolCall, ToolResult, UserMessage


class TextDelta(NamedTuple):
    """Text to show."""

    text: str


class ReasoningDelta(NamedTuple):
    text: str


class ToolCallDelta(NamedTuple):
    """A piece of a call. `call_index` identifies the call among parallel ones; id and name come once."""

    call_index: int
    id: str | None
    name: str | None
    arguments_delta: str


class Completed(NamedTuple):
    response: Response


class TurnStarted(NamedTuple):
    """The model is about to be asked. `number` counts the requests since the user's message, from 1."""

    number: int


class CallStarted(NamedTuple):
    call: ToolCall


class CallDenied(NamedTuple):
    """The call may not run: a rule or a person denied it. CallFinished follows, with the result for the model.

    `is_unasked`: nobody was there to be asked, and `--yes` would have let it run.
    """

    call: ToolCall
    reason: str
    is_unasked: bool = False


class CallFinished(NamedTuple):
    call: ToolCall | MalformedCall
    result: ToolResult


class SubagentStep(NamedTuple):
    """What a subagent does while the call of `task` that started it runs. `step` is an event of its own run."""

    call: ToolCall
    step: CallStarted | CallFinished | Completed


class ModeChanged(NamedTuple):
    """The user accepted a plan, so that more may happen without asking from now on: `mode` holds."""

    mode: str


class LimitHit(NamedTuple):
    """The question took as many turns as allowed by the setting `limit`."""

    limit: str


class Notice(NamedTuple):
    """Something the user should know, in one or two lines."""

    text: str


class PromptChanged(NamedTuple):
    """A request begins otherwise than the one before it, so that nothing of it is in the server's prefix cache.

    `parts`: what changed, of path, system prompt and tools.
    """

    parts: tuple[str, ...]


class PrefixKept(NamedTuple):
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


class Compacted(NamedTuple):
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
