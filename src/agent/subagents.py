"""Subagents: a call of `task` runs a loop of its own, and only its report comes back.

A subagent has its parent's tools but `task`, a conversation of its own, and a model on the same or another server. It
runs in the thread of its call. What it may do follows from its parent's permissions as they are at that moment: in mode
plan, unless the call asked to change things. Its questions for the user go through the inbox to the parent's loop, so
that the thread which owns the terminal asks them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, closing
from threading import Event as CancelToken

from msgspec import Struct
from msgspec.structs import replace

from ..errors import BotError, Cancelled, Suspended, ToolError
from ..security.permissions.approval import Answer, Request
from ..tools.sdk.context import ToolContext
from ..tools.sdk.wiring import Inbox
from ..types.effects import AgentSteps, Aside, Await
from ..types.ending import describe_ending, find_ending
from ..types.events import CallFinished, CallStarted, Completed, Event, SubagentStep
from ..types.messages import Message, Response, SystemMessage, ToolCall, ToolResult, Usage, UserMessage
from .compaction import Compactor, SummaryModel

TASK = "task"  # the tool
CANNOT_WAIT = "a subagent cannot wait for an answer that comes later."
MAX_TASK_TURNS = 100  # with calls, before a subagent must report
INSTRUCTIONS = """\
You are a subagent: another agent gave you the task below, and nobody answers questions. Your last message is your \
report, and all that the other agent sees of your work. Make it complete, exact and short, at most 500 words: what \
you found or did, with the names of files and the lines, and what is left open."""


class SubagentModel(Struct, frozen=True):
    """What a subagent works with: its model, its conversation, and what drives its steps.

    `drive` performs the effects of its steps on a client of its own, and records them.
    """

    core: SummaryModel
    messages: list[Message]
    drive: Callable[[AgentSteps[None]], Generator[Event, None, None]]
    compactor: Compactor
    get_output_budget: Callable[[], int]


# Opens what a subagent works with: (the server's name or "" for its parent's, how its conversation begins, what ends
# what it does). Raises BotError.
OpenModel = Callable[[str, Sequence[Message], CancelToken], AbstractContextManager[SubagentModel]]


class SubagentQuestion(Struct, frozen=True):
    """What a subagent must ask the user."""

    request: Request
    answer: Future[Answer]


class _RelayedApprover:
    """Has the parent's loop ask."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def approve(self, request: Request) -> Future[Answer]:
        question = SubagentQuestion(replace(request, reason=f"a subagent asks; {request.reason}"), Future())
        self._inbox.put(question)
        return question.answer


class CallGroup:
    """Calls that run at the same time in threads of their own, and what they tell and ask meanwhile in `inbox`.

    `ask` asks the user what a subagent asks.
    """

    def __init__(
        self, futures: Sequence[Future[ToolResult]], inbox: Inbox, ask: Callable[[Request], Aside[Answer]]
    ) -> None:
        self.futures = futures
        self._inbox = inbox
        self._ask = ask
        self._usages: dict[int, Usage] = {}  # by the id() of a call
        for future in futures:
            future.add_done_callback(lambda _: self._inbox.put())

    def wait_for(self, call: ToolCall, future: Future[ToolResult]) -> AgentSteps[ToolResult]:
        """The result of one of the calls. Meanwhile, all of them are listened to."""
        is_done = False
        while not is_done:
            is_done = future.done()  # before the inbox is emptied: a call tells nothing after its end
            items, arrival = self._inbox.take()
            for item in items:
                if isinstance(item, SubagentQuestion):
                    try:
                        answer = yield from self._ask(item.request)
                    except Suspended:
                        answer = Answer(False, CANNOT_WAIT)
                    item.answer.set_result(answer)
                    continue
                if isinstance(item.step, Completed):
                    used = self._usages.get(id(item.call), Usage())
                    self._usages[id(item.call)] = used + item.step.response.usage
                yield item
            if not future.done():  # else its wake may have come before `arrival` was made
                yield Await(arrival)
        yield Await(future)
        return self.get_result(call, future)

    def get_result(self, call: ToolCall, future: Future[ToolResult]) -> ToolResult:
        """The result of a call that is over."""
        result, used = future.result(), self._usages.get(id(call))
        if used is None:
            return result
        return replace(result, usage=used + result.usage)


def run_subagent(
    start_loop: Callable[..., AgentSteps[None]],
    open_model: OpenModel,
    system: Sequence[str],
    prompt: str,
    ctx: ToolContext,
    *,
    may_change: bool,
    server: str,
) -> str:
    """Run a subagent to its end, as Wiring.run_task does. `system`: its parent's system prompt.

    `start_loop`: the steps of a loop with (model, approver, context, may_change=), within its parent's permissions.
    """
    if ctx.call is None or ctx.wiring.inbox is None:
        raise ToolError("no subagent can be started here")
    last: Response | None = None
    words = ""  # its last ones
    opening: list[Message] = [
        SystemMessage("\n\n".join([*system, INSTRUCTIONS])),
        UserMessage(prompt),
    ]
    approver = _RelayedApprover(ctx.wiring.inbox)
    try:
        with (
            open_model(server, opening, ctx.cancelled) as model,
            ctx.for_subagent() as within,
            closing(model.drive(start_loop(model, approver, within, may_change=may_change))) as events,
        ):
            for event in events:
                if isinstance(event, Completed):
                    last = event.response
                    words = last.text.strip() or words
                if isinstance(event, (CallStarted, CallFinished, Completed)):
                    ctx.wiring.inbox.put(SubagentStep(ctx.call, event))
    except Cancelled as error:
        raise ToolError("it was cancelled") from error
    except BotError as error:
        if words:
            words = f" Its last words were: {words}"
        raise ToolError(f"the subagent failed: {error}{words}") from error
    return _make_report(last)


def _make_report(last: Response | None) -> str:
    """The last answer of a subagent; of one that was cut, behind a word about it. Raises ToolError if there is none."""
    ending = find_ending(last)
    why = describe_ending(ending, last.provider_stop_reason if last else "")
    if last is None or last.requested_calls or not (last.text.strip() or ending == "end_turn"):
        raise ToolError(f"the subagent ended without a report. {why}")
    text = last.text.strip()
    if ending == "end_turn":
        return text
    return f"[This report is not complete. {why}]\n{text}"  # in front, as the end of a long report is not shown
