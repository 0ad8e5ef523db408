"""What came of a question: the answer, why it ended, and what happened on the way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar, Union

from msgspec import Struct

from ...errors import LimitReached
from ...types.ending import AnswerEnding, describe_ending, find_ending
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
from ...types.messages import JSON, Message, Response, ToolCall, Usage, UserMessage

if TYPE_CHECKING:
    from .structured import Form

T = TypeVar("T")
# Of a question, where a StopReason is that of one response.
Ending: TypeAlias = Union[AnswerEnding, Literal["pending", "timeout"]]

HINTS: dict[str, str] = {
    "max_tokens": "Allow more (max_tokens), or ask to go on: what came is in the conversation.",
    "max_tool_turns": "Allow more (max_tool_turns), or ask to go on: what was found is in the conversation.",
    "timeout": "Allow more (timeout), or ask to go on: what came is in the conversation.",
}


class Result(Struct, Generic[T], frozen=True, weakref=True):
    """The answer to one question. `str(result)` is its text.

    `stop_reason`: "end_turn" if the model ended its answer itself; "pending" if calls wait for an answer; "max_tokens",
    "repetition" or "other" if it was cut, "max_tool_turns" if the question took too many turns, "timeout" if it took
    too long, "stuck" if the model only made calls that cannot be run, "no_answer" if it ended without a word, such as
    with a thought alone. `provider_stop_reason`: with "other", the word of the server, if it gave one.
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

    @property
    def is_complete(self) -> bool:
        """Whether there is an answer that the model ended itself."""
        return self.stop_reason == "end_turn"

    @property
    def ending(self) -> str:
        """Why the answer is not complete, as a sentence; empty if it is, or if calls wait."""
        return describe_ending(self.stop_reason, self.provider_stop_reason)


class RunRecord:
    """Collects the events of one question."""

    def __init__(self) -> None:
        self._responses: list[Response] = []
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
            self._responses.append(event.response)
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
    def last(self) -> Response | None:
        return self._responses[-1] if self._responses else None

    @property
    def text(self) -> str:
        """The last turn's."""
        return self.last.text.strip() if self.last else ""

    def make_result(self) -> Result[object]:
        usage = sum(filter(None, [*(each.usage for each in self._responses), *self._usages]), Usage())
        calls, notices = tuple(self._calls), tuple(self._notices)
        stop = self._find_stop()
        word = self.last.provider_stop_reason if self.last and stop == "other" else ""
        return Result(self.text, stop, usage, calls, notices, self.value, self.pending, word)

    def _find_stop(self) -> Ending:
        if self.pending:
            return "pending"
        if self.has_expired:
            return "timeout"
        return find_ending(self.last, has_hit_limit=self._has_hit_limit)


def list_attempts(form: Form | None, record: RunRecord, messages: list[Message]) -> Iterator[dict[str, JSON] | None]:
    """None to answer the last message; then the schema that the answer is held to, if it has to be repaired.

    Between the two, `record` has seen the answer, and the model is told what is wrong with it.
    """
    yield None
    if form is None:
        return
    has_ended_itself = record.make_result().stop_reason in ("end_turn", "no_answer")
    if has_ended_itself and (mistake := form.find_mistake(record.text)):
        messages.append(UserMessage(form.describe_mistake(mistake)))
        yield form.schema


def raise_if_cut(result: Result[T]) -> Result[T]:
    """The result, if it is complete or calls wait. Raises LimitReached, which has the result, if not."""
    if result.is_complete or result.pending:
        return result
    error = LimitReached(result.ending, HINTS.get(result.stop_reason, ""))
    error.result = result
    raise error
