"""What came of a question: the answer, why it ended, and what happened on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Literal, NoReturn, TypeAlias, TypeVar

from msgspec import Struct

from ...errors import LimitReached
from ...types.events import (
    CallFinished,
    Completed,
    Event,
    LimitHit,
    Notice,
    ReasoningDelta,
    SubagentStep,
    TextDelta,
    ToolCallDelta,
)
from ...types.messages import JSON, Message, ToolCall, Usage, UserMessage

if TYPE_CHECKING:
    from .structured import Form

T = TypeVar("T")
Ending: TypeAlias = Literal[  # of a question, where a StopReason is that of one response
    "end_turn", "pending", "max_tokens", "repetition", "max_tool_turns", "timeout", "stuck", "other"
]

STOPS: dict[str, str] = {
    "max_tokens": "The answer was cut off at its limit of tokens.",
    "repetition": "The answer kept repeating itself, so it was stopped.",
    "max_tool_turns": "The question took more turns with tool calls than are allowed.",
    "timeout": "The answer took longer than is allowed.",
    "stuck": "The model made calls that cannot be run, again and again, and gave no answer.",
    "other": "The server stopped the answer: {reason}.",
}
HINTS: dict[str, str] = {
    "max_tokens": "Allow more (max_tokens), or ask to go on: what came is in the conversation.",
    "max_tool_turns": "Allow more (max_tool_turns), or ask to go on: what was found is in the conversation.",
    "timeout": "Allow more (timeout), or ask to go on: what came is in the conversation.",
}


class Result(Struct, Generic[T], frozen=True, weakref=True):
    """The answer to one question. `str(result)` is its text.

    `stop_reason`: "end_turn" if the model ended its answer itself; "pending" if calls wait for an answer; "max_tokens",
    "repetition" or "other" if it was cut, "max_tool_turns" if the question took too many turns, "timeout" if it took
    too long, "stuck" if the model only made calls that cannot be run. `provider_stop_reason`: with "other", the word of
    the server, if it gave one.
    `usage`: the tokens of all requests of the question. `calls`: each call with its result, in order. `notices`: what
    the user should know. `value`: the answer as the `schema` that was asked for. `pending`: the calls that wait for an
    answer, for `agent.resume`.
    """

    text: str
    stop_reason: Ending
    usage: Usage
    calls: tuple[CallFinished, ...]
    notices: tuple[str, ...]
    value: T
    pending: tuple[ToolCall, ...] = ()
    provider_stop_reason: str = ""

    def __str__(self) -> str:
        return self.text

    def __await__(self) -> NoReturn:
        raise TypeError("This is a Result already. Only an agent of AsyncServer is awaited.")

    @property
    def is_complete(self) -> bool:
        """Whether there is an answer that the model ended itself."""
        return self.stop_reason == "end_turn"


class RunRecord:
    """Collects the events of one question."""

    def __init__(self) -> None:
        self._completed: list[Completed] = []
        self._calls: list[CallFinished] = []
        self._usages: list[Usage | None] = []  # of subagents
        self._notices: list[str] = []
        self._has_hit_limit = False
        self.value: object = None
        self.has_expired = False  # its time is over
        self.pending: tuple[ToolCall, ...] = ()

    def add(self, event: Event) -> None:
        if isinstance(event, (TextDelta, ToolCallDelta, ReasoningDelta)):  # most are
            return
        if isinstance(event, Completed):
            self._completed.append(event)
        elif isinstance(event, CallFinished):
            self._calls.append(event)
        elif isinstance(event, SubagentStep):
            if isinstance(event.step, Completed):
                self._usages.append(event.step.response.usage)
        elif isinstance(event, Notice):
            self._notices.append(event.text)
        elif isinstance(event, LimitHit):
            self._has_hit_limit = True

    @property
    def text(self) -> str:
        """The last turn's."""
        if not self._completed:
            return ""
        return self._completed[-1].response.text.strip()

    def make_result(self) -> Result[object]:
        usage = sum(filter(None, [*(each.response.usage for each in self._completed), *self._usages]), Usage())
        calls, notices = tuple(self._calls), tuple(self._notices)
        stop = self._find_stop()
        word = self._completed[-1].response.provider_stop_reason if stop == "other" else ""
        return Result(self.text, stop, usage, calls, notices, self.value, self.pending, word)

    def _find_stop(self) -> Ending:
        if self.pending:
            return "pending"
        if self.has_expired:
            return "timeout"
        if self._has_hit_limit:
            return "max_tool_turns"
        if not self._completed:  # the calls that waited were its last ones
            return "stuck"
        response = self._completed[-1].response
        if response.stop_reason in ("max_tokens", "repetition"):
            return response.stop_reason
        if response.is_stopped_by_server:
            return "other"
        if response.requested_calls:
            return "stuck"
        return "end_turn"


def list_attempts(form: Form | None, record: RunRecord, messages: list[Message]) -> Iterator[dict[str, JSON] | None]:
    """None to answer the last message; then the schema that the answer is held to, if it has to be repaired.

    Between the two, `record` has seen the answer, and the model is told what is wrong with it.
    """
    yield None
    if form and record.make_result().is_complete and (mistake := form.find_mistake(record.text)):
        messages.append(UserMessage(form.describe_mistake(mistake)))
        yield form.schema


def raise_if_cut(result: Result[T]) -> Result[T]:
    """The result, if the model ended its answer itself, or waits. Raises LimitReached, which has the result, if not."""
    if result.is_complete or result.pending:
        return result
    message = STOPS[result.stop_reason].format(reason=result.provider_stop_reason or "it gave no reason")
    error = LimitReached(message, HINTS.get(result.stop_reason, ""))
    error.result = result
    raise error
