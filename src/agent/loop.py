"""The loop: ask, run the calls, send the results, ask again. A generator of events; it prints nothing.

The model's mistakes become messages to the model: an unknown tool, wrong arguments, a malformed or a
refused call is answered with a tool result of kind error, and the loop goes on. Whatever ends a turn
early, an interrupt included, the conversation stays one that can be sent: what was said is kept, and
every call has its result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from threading import Event as Flag
from typing import Protocol

from ..errors import BotError, ContextTooLong, WireError
from ..security.permissions.approval import Approver
from ..security.permissions.policy import Policy
from ..security.permissions.review import ReviewBoard
from ..tools.sdk.context import ToolContext
from ..tools.sdk.registry import Registry
from ..types.events import Completed, Event, LimitHit, ModelEvent, Notice, TextDelta, TurnStarted
from ..types.messages import (
    Message,
    Response,
    Text,
    ToolDefinition,
    ToolResult,
    ToolResults,
    UserMessage,
)
from .compaction import Compactor
from .dispatch import Calls, Question, error, in_order
from .pruning import budget, trim
from .room import make_room

MAX_MALFORMED_TURNS = 2

SUM_UP = UserMessage("No more tool calls are possible for this question. Answer now with what you have found so far.")
NUDGE = UserMessage("Your last turn was empty. Answer the question, or call a tool for what you still need to know.")
GO_ON = "What came is kept: ask to go on from there."
ORDERS = (SUM_UP, NUDGE)


class Responder(Protocol):
    """What the loop needs of a model; src.model.Model is one."""

    def respond(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> Iterator[ModelEvent]: ...


class Agent:
    """A model with tools. `max_tool_turns`: how often calls are answered before the model must sum up.

    `compactor`: sums up what was said long ago before it fills the context; None: only tool results are shortened.
    `output_budget`: tokens that tool outputs may take before the oldest are left out (src/agent/pruning.py).
    """

    def __init__(
        self,
        model: Responder,
        registry: Registry,
        context: ToolContext,
        approver: Approver,
        policy: Policy,
        *,
        max_tool_turns: int = 10,
        max_parallel_calls: int = 4,
        compactor: Compactor | None = None,
        output_budget: Callable[[], int] = lambda: budget(None),
        panel: ReviewBoard | None = None,
    ) -> None:
        self._model = model
        self._registry = registry
        self._context = context
        self._calls = Calls(registry, approver, policy, max_parallel_calls, panel)
        self._max_tool_turns = max_tool_turns
        self.compactor = compactor
        self._output_budget = output_budget

    def run(self, conversation: list[Message], cancelled: Flag | None = None) -> Generator[Event, None, None]:
        """Answer the user's last message, appending to `conversation` what is said on the way.

        `cancelled` tells tools to end, once another thread sets it.
        Raises what the model raises; the conversation can be gone on with after that, and after an interrupt.
        """
        try:
            with self._context.for_run(cancelled) as ctx:
                yield from self._run(conversation, ctx)
        finally:
            while conversation and conversation[-1] in ORDERS:  # not answered: the next question must not inherit it
                conversation.pop()

    def _run(self, conversation: list[Message], ctx: ToolContext) -> Generator[Event, None, None]:
        malformed_turns = 0
        nudged = False
        question = Question(_question(conversation))
        tools = self._registry.definitions
        while self._registry.notices:
            yield Notice(self._registry.notices.pop(0))
        for number in range(1, self._max_tool_turns + 1):
            yield TurnStarted(number)
            response = yield from self._ask(conversation, tools)
            yield from self._answer(conversation, response, ctx, question)
            if not response.requested_calls:
                if response.text.strip() or response.stop_reason != "end_turn" or nudged:
                    return
                nudged = True
                conversation.append(NUDGE)
                continue
            if ctx.summary is not None:
                yield from _end(conversation, ctx.summary)
                return
            if question.is_endless:
                yield Notice("Stopped: the model made the same call with the same arguments again and again.")
                return
            malformed_turns = 0 if response.calls else malformed_turns + 1
            if malformed_turns > MAX_MALFORMED_TURNS:
                yield Notice(f"Stopped: {malformed_turns} answers in a row held only tool calls that cannot be read.")
                return
        yield from self._sum_up(conversation)

    def _ask(self, conversation: list[Message], tools: Sequence[ToolDefinition]) -> Generator[Event, None, Response]:
        """The model's turn; where the conversation fills its context, after room was made."""
        if freed := trim(conversation, self._output_budget):
            yield Notice(f"Old tool outputs were left out, about {freed:,} tokens; the model can read them again.")
        if self.compactor:
            yield from self.compactor.if_full(conversation, tools)
        try:
            return (yield from self._turn(conversation, tools))
        except ContextTooLong as full:
            if freed := make_room(conversation, full.excess):
                yield Notice(f"The model's context is full: old tool results were shortened by about {freed:,} tokens.")
            elif not (self.compactor and (yield from self.compactor.refused(conversation))):
                raise
        return (yield from self._turn(conversation, tools))

    def _turn(self, conversation: list[Message], tools: Sequence[ToolDefinition]) -> Generator[Event, None, Response]:
        said: list[str] = []
        response: Response | None = None
        ended = False
        try:
            for event in self._model.respond(conversation, tools):
                if isinstance(event, TextDelta):
                    said.append(event.text)
                elif isinstance(event, Completed):
                    response = event.response
                    conversation.append(response)
                yield event
            ended = True
        except BotError as broken:
            if said:
                broken.hint = f"{broken.hint} {GO_ON}".lstrip()
            raise
        finally:
            if response is None and said:  # interrupted or cut: what was shown stays said
                conversation.append(Response((Text("".join(said)),), "other"))
            elif response and not ended and response.requested_calls:  # interrupted while its end was drawn
                conversation.append(ToolResults(in_order(response.requested_calls, {})))
        if response is None:
            raise WireError("The model's turn ended without an answer.")
        return response

    def _answer(
        self, conversation: list[Message], response: Response, ctx: ToolContext, question: Question
    ) -> Iterator[Event]:
        """Answer the response's calls, if any; each has its result in the conversation, come what may."""
        asked = response.requested_calls
        results: dict[int, ToolResult] = {}
        try:
            yield from _said_why(response)
            yield from self._calls.answer(asked, ctx, question, results)
        finally:
            if asked:
                conversation.append(ToolResults(in_order(asked, results)))

    def _sum_up(self, conversation: list[Message]) -> Iterator[Event]:
        """One last turn without tools. Calls in it are not run, and the user is told."""
        limit = self._max_tool_turns
        yield Notice(f"Stopped after {limit} turns with tool calls (agent.max_tool_turns); asking for a summary.")
        yield LimitHit("agent.max_tool_turns")
        conversation.append(SUM_UP)
        yield TurnStarted(limit + 1)
        response = yield from self._ask(conversation, ())
        if asked := response.requested_calls:
            conversation.append(ToolResults(tuple(error(call, SUM_UP.text) for call in asked)))
            yield Notice(f"That answer held more tool calls ({len(asked)}); they were not run.")
        yield from _said_why(response)


def _question(conversation: Sequence[Message]) -> str:
    return next((each.text for each in reversed(conversation) if isinstance(each, UserMessage)), "")


def _end(conversation: list[Message], summary: str) -> Iterator[Event]:
    """A tool ended the run: its summary is the answer."""
    response = Response((Text(summary),) if summary else ())
    conversation.append(response)
    if summary:
        yield TextDelta(summary)
    yield Completed(response)


def _said_why(response: Response) -> Iterator[Event]:
    """A turn that ended otherwise than by the model's own will is no silent success."""
    if response.stop_reason == "max_tokens":
        rest = "" if response.requested_calls else " Ask to go on for the rest."
        yield Notice(f"The answer was cut off at max_tokens (vllm.max_tokens, or the model's context).{rest}")
    elif response.stop_reason == "repetition":
        yield Notice("The answer kept repeating itself, so it was stopped.")
    elif response.stop_reason == "other":
        yield Notice("The server stopped the answer for a reason of its own.")
    elif not response.text.strip() and not response.requested_calls:
        yield Notice("The model ended its turn without saying anything.")
