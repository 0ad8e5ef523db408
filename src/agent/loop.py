"""The loop: ask the model, run its calls, send the results, ask again. It prints nothing, and waits for nothing.

It is a generator of effects and events, as the model's turn is, so that threads and asyncio share it: a driver of
`transport` performs the effects.

The model's mistakes become messages to the model: an unknown tool, wrong arguments, a malformed or a denied call is
answered with a tool result of kind error, and the loop goes on. Whatever ends a turn early, an interrupt included,
the conversation can be sent again: it keeps the text that the user saw, and every call has its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import count
from threading import Event as CancelToken
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from ..errors import Advice, ContextTooLong, RequestFailed, Suspended, WireError
from ..model.stalls import STALL_PROMPTS, Stall, find_stall
from ..model.steps import watch
from ..security.permissions.approval import SUBMIT_PLAN, Approver
from ..security.permissions.policy import Policy
from ..tools.sdk.calls import CallRunner
from ..tools.sdk.context import ToolContext
from ..tools.sdk.registry import Registry
from ..types.caching import MessageMemo
from ..types.call_results import OpenTurn, find_waiting_turn, make_error
from ..types.effects import AgentSteps
from ..types.ending import describe_ending, find_ending
from ..types.events import Completed, Event, LimitHit, ModelEvent, Notice, TextDelta, TurnStarted
from ..types.messages import (
    Message,
    RequestedCall,
    Response,
    SystemMessage,
    Text,
    ToolCall,
    ToolChoice,
    ToolDefinition,
    ToolResults,
    UserMessage,
)
from .compaction import Compactor, SummaryModel
from .dispatch import LoopWatch, ToolDispatcher, TurnCalls
from .permission import PermissionGate
from .pruning import (
    StoreText,
    compute_output_budget,
    count_output_chars,
    shorten_old_results,
    store_nothing,
    trim_old_outputs,
)
from .steps import await_hooks
from .subagents import MAX_TASK_TURNS, TASK, OpenModel, SubagentModel, run_subagent

if TYPE_CHECKING:
    from ..security.permissions.hooks import Hooks
    from ..security.permissions.review import ReviewBoard

MAX_MALFORMED_TURNS = 2  # in a row

FINAL_ANSWER_PROMPT = UserMessage(
    "No more tool calls are possible for this question. Answer now with what you have found so far."
)
EMPTY_TURN_PROMPT = UserMessage(STALL_PROMPTS["empty"])
ANNOUNCED_PROMPT = UserMessage(STALL_PROMPTS["announced"])
INJECTED_PROMPTS = (FINAL_ANSWER_PROMPT, EMPTY_TURN_PROMPT, ANNOUNCED_PROMPT)
ANNOUNCED_NOTICE = "The model said what it would do next and ended its turn; it is asked to do it."
NO_CALLS = "No tool may be called for this question: the user chose so."
RESUMABLE_HINT = "What came is kept: ask to go on from there."


class _Question(Struct):
    """What the turns of one question share."""

    text: str
    conversation: list[Message]
    ctx: ToolContext
    tool_choice: ToolChoice = "auto"  # of the next turn
    open_turn: OpenTurn | None = None  # left by a run that was suspended
    watch: LoopWatch = field(default_factory=LoopWatch)
    malformed_turns: int = 0  # in a row
    was_prompted: bool = False  # after a turn that stopped halfway, since the last one with calls


class AgentLoop:
    """A model with tools.

    `max_tool_turns`: how often calls are answered before the model must give its final answer; see also
    `set_turn_limit`. `compactor` replaces the older part of a conversation by a summary before it fills the
    context; without one, only tool results are shortened. `hooks`: the user's programs that hear of calls and of
    answers. `output_budget`: tokens that tool outputs may take before the oldest are left out, see pruning.py.
    `runner` runs the calls; by default in threads. `open_subagent`: what subagents work with; None: there are none.
    `finishes_announced`: an answer behind results that ends in what the model is about to do gets one more turn.
    `gate` and `alone`: of a subagent, see PermissionGate and ToolDispatcher.
    """

    def __init__(
        self,
        model: SummaryModel,
        registry: Registry,
        context: ToolContext,
        approver: Approver,
        policy: Policy,
        *,
        max_tool_turns: int = 10,
        max_parallel_calls: int = 4,
        compactor: Compactor | None = None,
        output_budget: Callable[[], int] = lambda: compute_output_budget(None),
        review_board: ReviewBoard | None = None,
        hooks: Hooks | None = None,
        runner: CallRunner | None = None,
        open_subagent: OpenModel | None = None,
        gate: PermissionGate | None = None,
        alone: Lock | None = None,
        finishes_announced: bool = False,
    ) -> None:
        self._finishes_announced = finishes_announced
        self._model = model
        self._registry = registry
        self._context = context
        self.approver = approver
        self._gate = gate or PermissionGate(registry, approver, policy, review_board, hooks=hooks)
        self._hooks = hooks
        self._dispatcher = ToolDispatcher(registry, self._gate, max_parallel_calls, runner, alone)
        self._open_subagent = open_subagent
        self._max_parallel_calls = max_parallel_calls
        self._max_tool_turns: int | None = max_tool_turns
        self._may_go_on: Callable[[int], bool] = lambda _turns: False
        self.compactor = compactor
        self._output_budget = output_budget
        self._count_outputs = MessageMemo(count_output_chars)
        outputs = context.wiring.outputs
        self._store: StoreText = outputs.put if outputs else store_nothing

    @property
    def tools(self) -> Sequence[ToolDefinition]:
        """The tools that the model is offered."""
        return self._gate.list_offered()

    def list_asking(self, calls: Sequence[RequestedCall]) -> tuple[ToolCall, ...]:
        """Those of the calls that may not run without asking."""
        can_run = [
            call
            for call in map(self._registry.unwrap, calls)
            if isinstance(call, ToolCall) and not self._registry.check(call)
        ]
        return tuple(call for call in can_run if not self._gate.find_free(call))

    def may_run_command(self, call: ToolCall) -> bool:
        """Whether the call may use the sandbox: tools of low risk that have no access of their own run no command."""
        registry, name = self._registry, self._registry.unwrap(call).name
        return name == TASK or registry.risk(name) == "high" or registry.access(name) is not None

    def set_mode(self, mode: str) -> None:
        """Choose how much may happen without asking, from the next call on; one of MODES."""
        self._gate.policy = replace(self._gate.policy, mode=mode)

    def set_turn_limit(self, turns: int | None, may_go_on: Callable[[int], bool]) -> None:
        """Have `may_go_on` asked after so many turns with calls, and again after as many more; None: no limit."""
        self._max_tool_turns, self._may_go_on = turns, may_go_on

    def watch_output(self, on_output: Callable[[str, str], None]) -> None:
        """Have `on_output` called with what commands print while they run; "" when one begins."""
        self._context = self._context.rewire(on_output=on_output)

    def run(
        self,
        conversation: list[Message],
        cancelled: CancelToken | None = None,
        tool_choice: ToolChoice = "auto",
        *,
        ctx: ToolContext | None = None,
    ) -> AgentSteps[None]:
        """Answer the user's last message, appending each turn's messages to `conversation`.

        Where that ends in calls that wait, these run first.

        `cancelled` tells tools to end, once another thread sets it. `tool_choice` none holds for the whole answer;
        a choice that requires a call holds for the first turn. `ctx`: the context of this run, if the caller opens and
        closes it.
        Raises what the model raises, and Suspended where the approver does. The conversation can be continued after
        that, and after an interrupt.
        """
        text = next((each.text for each in reversed(conversation) if isinstance(each, UserMessage)), "")
        try:
            with nullcontext(ctx) if ctx else self._context.for_run(cancelled) as within:
                if self._open_subagent:
                    system = [message.text for message in conversation[:1] if isinstance(message, SystemMessage)]
                    start = partial(self._start_subagent, Lock())
                    within = within.rewire(run_task=partial(run_subagent, start, self._open_subagent, system))
                yield from self._answer(
                    _Question(text, conversation, within, tool_choice, find_waiting_turn(conversation))
                )
            yield from self._tell_end(conversation)
        finally:
            while conversation and conversation[-1] in INJECTED_PROMPTS:  # without an answer: not for the next question
                conversation.pop()

    def _tell_end(self, conversation: list[Message]) -> AgentSteps[None]:
        """Tell the user's hooks of the answer."""
        if self._hooks and self._hooks.find("turn_end"):
            answer = next((each.text for each in reversed(conversation) if isinstance(each, Response)), "")
            pending = self._hooks.tell_end(answer, self._gate.policy.mode)
            report = yield from await_hooks(self._hooks, pending)
            yield from map(Notice, report.failures)

    def _start_subagent(
        self, alone: Lock, model: SubagentModel, approver: Approver, ctx: ToolContext, *, may_change: bool
    ) -> AgentSteps[None]:
        """The steps of a subagent; `alone` is held while one runs a call that must run alone."""
        registry = self._registry.without(TASK, SUBMIT_PLAN)
        loop = AgentLoop(
            model.core,
            registry,
            ctx,
            approver,
            self._gate.policy,
            max_tool_turns=MAX_TASK_TURNS,
            max_parallel_calls=self._max_parallel_calls,
            compactor=model.compactor,
            output_budget=model.get_output_budget,
            gate=self._gate.narrow(registry, approver, may_change=may_change),
            alone=alone,
            finishes_announced=self._finishes_announced,
        )
        return loop.run(model.messages, ctx.cancelled, ctx=ctx)

    def _answer(self, question: _Question) -> AgentSteps[None]:
        while self._registry.notices:
            yield Notice(self._registry.notices.pop(0))
        if question.tool_choice == "none":
            yield from self._answer_without_calls(question.conversation, 1, NO_CALLS)
            return
        for number in count(1):
            if not question.open_turn:
                yield TurnStarted(number)
            is_over = yield from self._step(question)
            if is_over:
                return
            if self._max_tool_turns and number % self._max_tool_turns == 0 and not self._may_go_on(number):
                stopped, ask = f"Stopped after {number} turns with tool calls", "asking for a summary."
                yield Notice(Advice(f"{stopped} (agent.max_tool_turns); {ask}", f"{stopped} (max_tool_turns); {ask}"))
                yield LimitHit("agent.max_tool_turns")
                question.conversation.append(FINAL_ANSWER_PROMPT)
                yield from self._answer_without_calls(question.conversation, number + 1, FINAL_ANSWER_PROMPT.text)
                return

    def _step(self, question: _Question) -> AgentSteps[bool]:
        """One turn: the model's response, then its calls. Whether the loop ends with it; the user is told why."""
        if question.open_turn:
            response = yield from self._run_open_calls(question, question.open_turn)
        else:
            response = yield from self._respond(question.conversation, question.tool_choice)
            question.tool_choice = "auto"
            turn = TurnCalls(response.requested_calls, question.text, question.watch)
            yield from self._run_calls(question, response, turn)
        if not response.requested_calls:
            stall = self._find_stall(question, response)
            if not stall:
                return True
            question.was_prompted = True
            if stall == "announced":
                yield Notice(ANNOUNCED_NOTICE)
            question.conversation.append(UserMessage(STALL_PROMPTS[stall]))
            return False
        question.was_prompted = False
        summary = question.ctx.wiring.running.summary
        if summary is not None:
            yield from _end_with(summary, question.conversation)
            return True
        if question.watch.end:
            yield Notice(f"Stopped: {question.watch.end}.")
            return True
        question.malformed_turns += 1
        if response.calls:
            question.malformed_turns = 0
        if question.malformed_turns <= MAX_MALFORMED_TURNS:
            return False
        turns = question.malformed_turns
        yield Notice(f"Stopped: {turns} answers in a row held only tool calls that cannot be read.")
        return True

    def _find_stall(self, question: _Question, response: Response) -> Stall:
        """How an answer without calls stopped halfway, if it gets one more turn."""
        if question.was_prompted or response.stop_reason != "end_turn":
            return ""
        if not response.text.strip():
            return "empty"
        is_behind_results = isinstance(question.conversation[-2], ToolResults)
        return find_stall(response, is_behind_results=is_behind_results and self._finishes_announced)

    def _run_open_calls(self, question: _Question, open_turn: OpenTurn) -> AgentSteps[Response]:
        """Run the calls of a turn that was suspended, and return its response."""
        question.open_turn = None
        # what is stored meanwhile, by a process that is killed then, tells what is known of each call
        question.conversation[-1] = replace(open_turn, is_settled=False).close()
        response = open_turn.response
        turn = TurnCalls(response.requested_calls, question.text, question.watch, open_turn.results)
        yield from self._run_calls(question, response, turn)
        return response

    def _run_calls(self, question: _Question, response: Response, turn: TurnCalls) -> AgentSteps[None]:
        """Run the response's calls, if any. Each gets its result in the conversation, even when this is interrupted.

        Where the run is suspended, the call that waits and those after it get none. The results are there then, too, if
        only as an empty message: a turn without them was stopped in its midst.
        """
        try:
            yield from _explain_stop(response)
            yield from self._dispatcher.run(turn, question.ctx)
        except Suspended:
            turn.is_suspended = True
            raise
        finally:
            settled = turn.settle()
            if isinstance(question.conversation[-1], ToolResults):  # so far, of a turn that was suspended
                question.conversation.pop()
            if settled.results or turn.is_suspended:
                question.conversation.append(settled)

    def _respond(self, conversation: list[Message], choice: ToolChoice) -> AgentSteps[Response]:
        """The model's response. Where the conversation fills the context, room is made first."""
        tools = self.tools
        if freed := trim_old_outputs(conversation, self._output_budget, self._count_outputs, self._store):
            yield Notice(f"Old tool outputs were left out, about {freed:,} tokens; the model can read them again.")
        if self.compactor:
            yield from self.compactor.compact_if_full(conversation, tools, self._store)
        remedies = [self._shorten_results, self._compact_after_refusal]
        while True:
            try:
                return (yield from self._stream(conversation, tools, choice))
            except ContextTooLong as full:
                is_shorter = False
                while remedies and not is_shorter:
                    is_shorter = yield from remedies.pop(0)(conversation, full.excess)
                if not is_shorter:
                    raise

    def _shorten_results(self, conversation: list[Message], excess: int) -> AgentSteps[bool]:
        freed = shorten_old_results(conversation, excess, self._store)
        if freed:
            yield Notice(
                "The request was longer than the model's context: old tool results were shortened by about "
                f"{freed:,} tokens."
            )
        return bool(freed)

    def _compact_after_refusal(self, conversation: list[Message], _excess: int) -> AgentSteps[bool]:
        if self.compactor is None:
            return False
        return (yield from self.compactor.compact_after_refusal(conversation, self.tools))

    def _stream(
        self, conversation: list[Message], tools: Sequence[ToolDefinition], choice: ToolChoice
    ) -> AgentSteps[Response]:
        """Append the response to the conversation; of one that breaks off, the text so far."""
        pieces: list[str] = []
        response: Response | None = None
        is_over = False

        def keep(event: ModelEvent) -> None:
            nonlocal response
            if isinstance(event, TextDelta):
                pieces.append(event.text)
            elif isinstance(event, Completed):
                response = event.response
                conversation.append(response)

        try:
            yield from watch(self._model.respond(conversation, tools, choice), keep)
            is_over = True
        except RequestFailed as error:
            if pieces:
                error.add_hint(RESUMABLE_HINT)
            raise
        finally:
            if response is None and pieces:
                conversation.append(Response((Text("".join(pieces)),), "other"))
            elif response and not is_over and response.requested_calls:  # interrupted while its end was drawn
                conversation.append(TurnCalls(response.requested_calls).settle())
        if response is None:
            raise WireError("The model's turn ended without an answer.")
        return response

    def _answer_without_calls(self, conversation: list[Message], number: int, reason: str) -> AgentSteps[None]:
        """A turn whose calls are not run, but answered with `reason`; the user is told."""
        yield TurnStarted(number)
        response = yield from self._respond(conversation, "none")
        if calls := response.requested_calls:
            conversation.append(ToolResults(tuple(make_error(call, reason) for call in calls)))
            yield Notice(f"That answer held more tool calls ({len(calls)}); they were not run.")
        yield from _explain_stop(response)


def _end_with(summary: str, conversation: list[Message]) -> Iterator[Event]:
    """A tool ended the run, and its summary is the answer."""
    text = summary.strip()
    answer = Response((Text(text),))  # an empty one is one, see EMPTY_ANSWER
    conversation.append(answer)
    if text:
        yield TextDelta(text)
    yield Completed(answer)


def _explain_stop(response: Response) -> Iterator[Event]:
    """Tell the user of a turn that the model did not end itself, or ended without a word."""
    ending = find_ending(response)
    if ending == "max_tokens":
        rest = "" if response.requested_calls else " Ask to go on for the rest."
        cut_off = "The answer was cut off at max_tokens"
        yield Notice(
            Advice(
                f"{cut_off} (vllm.max_tokens, or the model's context).{rest}",
                f"{cut_off} (`max_tokens`, or the model's context).{rest}",
            )
        )
    elif ending not in ("end_turn", "stuck"):  # calls are no end here: they run
        yield Notice(describe_ending(ending, response.provider_stop_reason))
