"""Agents and the questions to them, without I/O: what threads and asyncio share."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event as CancelToken
from threading import Lock, Timer
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, Union, cast

from ...agent.compaction import Compactor
from ...agent.loop import AgentLoop
from ...agent.pruning import compute_output_budget
from ...agent.subagents import SubagentModel
from ...errors import BotError, Cancelled, ConfigError, Suspended
from ...model import ModelCore
from ...security.permissions.approval import REFUSE_ALL, Approver
from ...security.permissions.policy import Policy
from ...tools import Media, Registry, ToolContext, registry_of
from ...tools.sdk.calls import CallRunner
from ...tools.sdk.result import to_content_block
from ...transport.driver import drive
from ...types.call_results import find_waiting_turn
from ...types.effects import AgentSteps, Aside
from ...types.events import CallFinished, Event
from ...types.messages import JSON, Message, Named, ToolCall, ToolChoice, Usage, UserMessage
from ..model import CLOSED_HINT, check_messages
from .approval import Answers, Approval, GivenAnswer, GivenAnswers, read_answers
from .connection import BaseServer
from .conversation import Conversation, read_conversation
from .options import Options, Sampling, Stored, check_options
from .result import Result, RunRecord, list_attempts
from .structured import Form
from .wording import reword_event

if TYPE_CHECKING:
    from typing_extensions import TypeVar as TypeVarWithDefault

    from ..spans import Spans

    ValueT = TypeVarWithDefault("ValueT", default=Any)
else:
    ValueT = TypeVar("ValueT")

Question = Union[str, Sequence[Union[str, Media]]]
RunnerT = TypeVar("RunnerT", bound=CallRunner)
# What runs need of an agent, and no user does.
INTERNAL = {"describe", "get_loop", "release", "request_settings", "resolve_model", "take", "take_approval_error"}
LEFT = "This run was left before its end."
READ_TWICE = "This run is read in another thread or task already."


class BaseAgent(Generic[RunnerT]):
    """What agents of threads and of asyncio share. `make_approver` gets the function that approves, and the runner."""

    def __init__(
        self,
        server: BaseServer[Any, Any],
        options: Options,
        make_runner: Callable[[Registry], RunnerT],
        make_approver: Callable[[Any, RunnerT], Approver],
    ) -> None:
        """Raises ConfigError, TypeError and ValueError for options that cannot be used."""
        self._registry = registry_of(options.get("tools", ()))
        self._options = options = check_options(options)
        self._server = server
        self._runner = make_runner(self._registry)
        self._approval: Approver = REFUSE_ALL
        approve = options.get("approve")
        if approve is not None:
            self._approval = make_approver(approve, self._runner)
        self._approver = GivenAnswers(self._approval)
        self._check_choice(options["tool_choice"])
        added = tuple(map(Path, options["add_dirs"]))
        self._policy = Policy(workspace=Path(options["workspace"]), added=added)
        context = ToolContext(workspace=self._policy.workspace, overrides=cast(Any, options["overrides"]))
        self._context = context.rewire(added_folders=added)
        self._core = self._make_core(options.get("model", ""))
        self._conversation = read_conversation(options["conversation"], options["system"])
        self._loops: dict[str, AgentLoop] = {}
        self._lock = Lock()
        self._is_closed = False
        self._run: BaseRun[Any] | None = None

    def _make_core(self, model: str, schema: Mapping[str, JSON] | None = None) -> ModelCore:
        return self._server.make_core(model, self._options, schema)

    @property
    def conversation(self) -> Conversation:
        """The messages so far. One that is set is read as the argument `conversation` is. Raises ConfigError."""
        return self._conversation

    @conversation.setter
    def conversation(self, given: Stored) -> None:
        self._conversation = read_conversation(given, self._options["system"])

    @property
    def model(self) -> str:
        """The name of its model; empty until the server was asked for its only one."""
        return self._core.name

    def __dir__(self) -> list[str]:
        """What its user may need, for completion."""
        return sorted(set(super().__dir__()) - INTERNAL)

    def __repr__(self) -> str:
        model = self.model or "its only one"
        turns = sum(isinstance(each, UserMessage) for each in self.conversation)
        sizes = f"{len(self.tools)} tools, {turns} questions"
        return f"<{type(self).__name__} of {model} at {self._server.base_url}: {sizes}>"

    @property
    def usage(self) -> Usage:
        """The tokens of the whole conversation so far, as the server counted them."""
        return self.conversation.usage

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of its tools."""
        return tuple(tool.definition.name for tool in self._registry)

    def resolve_model(self) -> Aside[None]:
        """Find the only model if none was named. Raises BotError, ConfigError with the names that there are."""
        self._core.name = yield from self._server.resolve_model(self._core)

    def get_loop(self, schema: Mapping[str, JSON] | None) -> AgentLoop:
        """The loop whose answers have the form of `schema`, where the server can hold them to one."""
        key = json.dumps(schema)
        if key not in self._loops:
            core = self._core
            if schema is not None:
                core = self._make_core(self.model, schema)
            self._loops[key] = AgentLoop(
                core,
                self._registry,
                self._context,
                self._approver,
                self._policy,
                max_tool_turns=self._options["max_tool_turns"],
                finishes_announced=self._options["finish_announced"],
                compactor=Compactor(core, leaves_out=True) if self._options["compact"] else None,
                output_budget=lambda: compute_output_budget(core.context_limit),
                runner=self._runner,
                open_subagent=self._open_subagent,
            )
        return self._loops[key]

    @contextmanager
    def _open_subagent(
        self, server: str, opening: Sequence[Message], cancelled: CancelToken
    ) -> Iterator[SubagentModel]:
        """See OpenModel of src/agent/subagents.py; there is only one server here."""
        del server
        core = self._make_core(self.model)
        core.path = self._core.path
        with self._server.make_client() as client:
            client.bind_cancellation(cancelled)
            yield SubagentModel(
                core,
                [*opening],
                partial(drive, client=client),
                Compactor(core, leaves_out=True),
                lambda: compute_output_budget(core.context_limit),
            )

    @property
    def pending(self) -> tuple[ToolCall, ...]:
        """The calls at the end of the conversation that wait for an answer, see `resume`."""
        turn = find_waiting_turn(self.conversation)
        if turn is None:
            return ()
        return self.get_loop(None).list_asking(turn.open_calls)

    def _make_resumption(self, answers: Answers, schema: object) -> Exchange:
        self._check_waits()
        given_answers = read_answers(self.pending, answers)
        return Exchange(self, None, "auto", _read_form(schema), given_answers)  # what was required has been called

    def _check_waits(self) -> None:
        """Raises BotError."""
        if find_waiting_turn(self.conversation) is None:
            raise BotError("No call waits for an answer.", "Ask a question instead.")

    def describe(self) -> Mapping[str, str]:
        """Who answers, for traces."""
        return {"server": self._server.base_url, "provider": self._server.provider, "model": self.model}

    @property
    def timeout(self) -> float | None:
        """In seconds, for a whole answer."""
        return self._options["timeout"]

    @property
    def request_settings(self) -> Mapping[str, Any]:
        """What each request asks for, beside the conversation, for traces."""
        options = self._options
        return {"stream": True, **{name: options.get(name) for name in Sampling.__annotations__}}

    def take(self, given: Sequence[GivenAnswer] | None) -> None:
        """Begin a question, or what `given` are the answers for. Raises BotError."""
        if self._is_closed:
            raise BotError("This agent is closed.", CLOSED_HINT)
        self._server.check_open()
        check_messages(self.conversation)
        if given is not None:
            self._check_waits()
        if not self._lock.acquire(blocking=False):
            raise BotError("This agent is answering another question.", "Ask it afterwards, or ask another agent.")
        self.take_approval_error()
        self._approver.begin(given or ())

    def release(self) -> None:
        """The question is over."""
        self._lock.release()

    def take_approval_error(self) -> TypeError | None:
        """What the approve function did wrong, once."""
        if not isinstance(self._approval, Approval):
            return None
        error, self._approval.error = self._approval.error, None
        return error

    def cancel(self) -> None:
        """Stop the run, from any thread: who iterates gets Cancelled. Without a run, nothing happens.

        It takes two seconds at most. The server's answer and commands end at once. A coroutine is cancelled. A function
        has a second to read `ctx.cancelled`; then its thread is left to finish, and its result is dropped.
        """
        if self._run:
            self._run.cancel()

    def _make_exchange(self, question: Question, tool_choice: ToolChoice | None, schema: object) -> Exchange:
        choice = self._options["tool_choice"]
        if tool_choice is not None:
            choice = tool_choice
        self._check_choice(choice)
        form = _read_form(schema)
        return Exchange(self, _to_message(question, form), choice, form)

    def _check_choice(self, choice: object) -> None:
        """Raises ConfigError."""
        if isinstance(choice, Named):
            if choice.name not in self.tools:
                names = ", ".join(self.tools) or "no tools"
                raise ConfigError(f"tool_choice: this agent has no tool {choice.name}.", f"It has {names}.")
        elif choice not in ("auto", "none", "required"):
            hint = f'Write Named("{choice}").' if choice in self.tools else ""
            raise ConfigError(f'tool_choice: expected "auto", "none", "required" or Named(...), not {choice!r}.', hint)
        elif choice == "required" and not self.tools:
            raise ConfigError("tool_choice: a call is required, and this agent has no tools.")


class Exchange:
    """One question, or None where the conversation ends in open calls, and goes on from there with the answers `given`.

    `cancelled` tells tools to end.
    """

    def __init__(
        self,
        agent: BaseAgent[Any],
        asked: UserMessage | None,
        tool_choice: ToolChoice,
        form: Form | None,
        given: Sequence[GivenAnswer] | None = None,
    ) -> None:
        self._agent = agent
        self._asked = asked
        self._given = given
        self._tool_choice = tool_choice
        self._form = form
        self._record = RunRecord()
        self._spans: Spans | None = None  # of OpenTelemetry
        self.cancelled = CancelToken()
        self._timer: Timer | None = None
        self._is_time_over = False
        self.on_expiry: Callable[[], None] = self.cancelled.set
        self.is_over = False
        self.is_answered = False

    def open(self) -> None:
        """Raises BotError if the agent is closed, or answers another question."""
        self._agent.take(self._given)
        if timeout := self._agent.timeout:
            self._timer = Timer(timeout, self._expire)
            self._timer.daemon = True
            self._timer.start()
        if self._asked:
            self._agent.conversation.close_open_calls()
            self._agent.conversation.append(self._asked)

    def _expire(self) -> None:
        self._is_time_over = True
        self.on_expiry()

    @contextmanager
    def limiting(self) -> Iterator[None]:
        """Cancelled because the time is over, it ends as an answer that is cut does."""
        try:
            yield
        except Cancelled:
            if not self._is_time_over:
                raise
            self._record.has_expired = True

    def close(self) -> None:
        """A question without an answer is taken back: the next one must not inherit it."""
        conversation = self._agent.conversation
        if any(last is self._asked for last in conversation[-1:]):
            conversation.pop()
        self.is_over = True
        if self._timer:
            self._timer.cancel()
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
        form, choice, held = self._form, self._tool_choice, None
        if form and (choice == "none" or not agent.tools):
            held = form.schema
        try:
            for schema in list_attempts(form, self._record, conversation):
                if schema:  # the answer is repaired
                    choice, held = "none", schema
                yield from agent.get_loop(held).run(conversation, self.cancelled, choice, ctx=ctx)
        except Suspended:
            self._record.pending = agent.pending
        if form and self.result.is_complete:
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


class BaseRun(Generic[ValueT]):
    """What runs of threads and of asyncio share."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        exchange.on_expiry = self.cancel

    def __repr__(self) -> str:
        state = "running or not begun"
        if self._exchange.is_over:
            state = "left before its end"
            if self._exchange.is_answered:
                state = "answered"
        return f"<{type(self).__name__}: {state}>"

    @property
    def result(self) -> Result[ValueT]:
        """What came of it. Raises BotError if it is not over."""
        if not self._exchange.is_over:
            raise BotError("The run is not over, so it has no result yet.", "Iterate it to its end first.")
        if not self._exchange.is_answered:
            raise BotError(LEFT, "Its events so far are what there is.")
        return cast("Result[ValueT]", self._exchange.result)

    def cancel(self) -> None:
        """Stop it from another thread: who iterates gets Cancelled. After its end, nothing happens."""
        self._exchange.cancelled.set()


class AsyncOnly:
    """What is used with `async for` and `async with`, and says so."""

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is asynchronous. Use `async for`, or an agent of Server.")

    def __enter__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} is asynchronous. Use `async with`, or Server.")

    def __exit__(self, *_: object) -> None:
        """Without it, Python has an error of its own."""


def _read_form(schema: object) -> Form | None:
    """Raises ConfigError."""
    if schema is None:
        return None
    return Form(schema)


def _to_message(question: Question, form: Form | None) -> UserMessage:
    """Raises BotError for what is no question."""
    parts: list[str | Media] = _list_parts(question)
    if not any(isinstance(each, Media) or each.strip() for each in parts):
        raise BotError("The question is empty.")
    if form:
        parts.append(form.instructions)
    if isinstance(question, str):
        return UserMessage("\n\n".join(map(str, parts)))
    return UserMessage("", tuple(map(to_content_block, parts)))


def _list_parts(question: Question) -> list[str | Media]:
    if isinstance(question, str):
        return [question]
    if isinstance(question, (list, tuple)) and all(isinstance(each, (str, Media)) for each in question):
        return [*question]
    raise BotError(f"A question is a text, or a list of texts and Media, not {question!r:.80}.")
