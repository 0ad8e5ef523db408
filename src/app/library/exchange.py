"""One question to one agent, without I/O: what runs of threads and of asyncio share."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from threading import Event as CancelToken
from typing import TYPE_CHECKING, Any, Protocol, Union

from ...agent.loop import AgentLoop
from ...errors import BotError
from ...tools import Media, ToolContext
from ...tools.sdk.result import to_content_block
from ...types.effects import AgentSteps, Aside
from ...types.events import CallFinished, Event
from ...types.messages import JSON, ToolChoice, UserMessage
from .conversation import Conversation
from .result import Result, RunRecord
from .structured import Form
from .wording import reword_event

if TYPE_CHECKING:
    from ..spans import Spans

Question = Union[str, Sequence[Union[str, Media]]]


class Answerer(Protocol):
    """The agent that a question is put to, see BaseAgent."""

    conversation: Conversation

    @property
    def tools(self) -> tuple[str, ...]: ...

    def take(self) -> None: ...

    def release(self) -> None: ...

    def resolve_model(self) -> Aside[None]: ...

    def get_loop(self, schema: Mapping[str, JSON] | None) -> AgentLoop: ...

    def take_approval_error(self) -> TypeError | None: ...

    def describe(self) -> Mapping[str, str]: ...

    @property
    def request_settings(self) -> Mapping[str, Any]: ...


class Exchange:
    """`cancelled` tells tools to end."""

    def __init__(self, agent: Answerer, question: Question, tool_choice: ToolChoice, form: Form | None) -> None:
        self._agent = agent
        self._asked = _to_message(question, form)
        self._tool_choice = tool_choice
        self._form = form
        self._record = RunRecord()
        self._spans: Spans | None = None  # of OpenTelemetry
        self.cancelled = CancelToken()
        self.is_over = False
        self.is_answered = False

    def open(self) -> None:
        """Raises BotError if the agent is closed, or answers another question."""
        self._agent.take()
        self._agent.conversation.append(self._asked)

    def close(self) -> None:
        """A question without an answer is taken back: the next one must not inherit it."""
        conversation = self._agent.conversation
        if any(last is self._asked for last in conversation[-1:]):
            conversation.pop()
        self.is_over = True
        if self._spans:
            self._spans.end(None if self.is_answered else sys.exc_info()[1])
        self._agent.release()

    def run(self, ctx: ToolContext) -> AgentSteps[None]:
        """Answer the question; see AgentLoop.run. Raises BotError."""
        agent, conversation = self._agent, self._agent.conversation
        yield from agent.resolve_model()
        if "opentelemetry.trace" in sys.modules:  # the program around the library uses it
            from ..spans import make_library_spans

            self._spans = make_library_spans(agent.request_settings)
            self._spans.begin(agent.describe())
        form = self._form
        has_calls = bool(agent.tools) and self._tool_choice != "none"
        loop = agent.get_loop(None if form is None or has_calls else form.schema)
        yield from loop.run(conversation, self.cancelled, self._tool_choice, ctx=ctx)
        if form is None or not self.result.is_complete:
            return
        if wrong := form.find_mistake(self._record.text):
            conversation.append(UserMessage(form.describe_mistake(wrong)))
            yield from agent.get_loop(form.schema).run(conversation, self.cancelled, "none", ctx=ctx)
        if self.result.is_complete:
            self._record.value = form.read(self._record.text)

    def see(self, event: Event) -> Event:
        """Record the event; returns it as the program gets it. Raises what the approve function did wrong."""
        event = reword_event(event)
        self._record.add(event)
        if self._spans:
            self._spans.take(event)
        if isinstance(event, CallFinished) and (error := self._agent.take_approval_error()):
            raise error
        return event

    @property
    def result(self) -> Result[object]:
        """So far."""
        return self._record.make_result()


def _to_message(question: Question, form: Form | None) -> UserMessage:
    """Raises BotError for what is no question."""
    parts = [question] if isinstance(question, str) else question
    if not isinstance(parts, (list, tuple)) or not all(isinstance(each, (str, Media)) for each in parts):
        raise BotError(f"A question is a text, or a list of texts and Media, not {question!r:.80}.")
    if not any(isinstance(each, Media) or each.strip() for each in parts):
        raise BotError("The question is empty.")
    if isinstance(question, str):
        return UserMessage(f"{question}\n\n{form.instructions}" if form else question)
    return UserMessage("", tuple(map(to_content_block, [*question, *([form.instructions] if form else [])])))
