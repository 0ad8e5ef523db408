"""What happens during a turn, as it happens: the events that the model and the loop yield.

An event made per chunk is a NamedTuple, which costs half as much to make as a frozen dataclass.
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
    """A piece of a call being written: `call_index` tells parallel calls apart; id and name come once."""

    call_index: int
    id: str | None
    name: str | None
    arguments_delta: str


class Completed(NamedTuple):
    response: Response


class TurnStarted(NamedTuple):
    """The model is asked for the `number`-th time since the user spoke, counted from 1."""

    number: int


class CallStarted(NamedTuple):
    call: ToolCall


class CallDenied(NamedTuple):
    """The call may not run, by the rules or by who was asked; CallFinished follows with what the model is told."""

    call: ToolCall
    reason: str


class CallFinished(NamedTuple):
    call: ToolCall | MalformedCall
    result: ToolResult


class LimitHit(NamedTuple):
    """The question took as many turns as it may: `limit` is the setting that says how many."""

    limit: str


class Notice(NamedTuple):
    """Something the user should know, in one or two lines."""

    text: str


class Compacted(NamedTuple):
    """A summary took the place of the conversation's older messages.

    Of the `before` messages there were, the last `kept` stay, and the system prompt; `by_hand`: the user asked for it.
    """

    summary: UserMessage
    before: int
    kept: int
    by_hand: bool = False


ModelEvent = Union[TextDelta, ReasoningDelta, ToolCallDelta, Notice, Completed]
Event = Union[ModelEvent, TurnStarted, CallStarted, CallDenied, CallFinished, LimitHit, Compacted]
