"""Agents: a model with tools and a conversation. async_agent.py has those for asyncio.

    agent = server.agent(tools=[weather])
    result = agent.answer("Do I need an umbrella in Oslo?")

Everything is as in the chat: the model's calls run, whether they come natively or in the text; a bad call is answered
to the model; a call of high risk asks first. Nothing is read from a configuration file or the environment, nothing is
printed, nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event as CancelToken
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from ...agent.compaction import Compactor
from ...agent.loop import AgentLoop
from ...agent.pruning import compute_output_budget
from ...agent.subagents import SubagentModel
from ...errors import BotError, ConfigError
from ...security.permissions.approval import REFUSE_ALL, Approver
from ...security.permissions.policy import Policy
from ...tools import Registry, ToolContext, registry_of
from ...tools.sdk.calls import CallRunner
from ...transport import Client
from ...transport.driver import drive, run
from ...types.effects import Aside
from ...types.messages import JSON, Message, Named, ToolChoice, Usage
from ..endpoint import DEFAULT_URL
from ..model import check_messages
from .approval import Approval, Approve
from .connection import CLOSED_HINT, BaseServer
from .conversation import Conversation, read_conversation
from .exchange import Exchange, Question
from .options import NO_OVERRIDES, SYSTEM, Options, Overrides, Sampling, Stored, Tools
from .result import Result, raise_if_cut
from .run import Run
from .structured import Form
from .wording import rewording

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class BaseAgent:
    """What agents of threads and of asyncio share."""

    def __init__(self, server: BaseServer, options: Options) -> None:
        """Raises ConfigError, TypeError and ValueError for options that cannot be used."""
        self._registry = registry_of(options.tools)
        self._options = options = options.check()
        self._server = server
        self._runner = self._make_runner(self._registry)
        self._approver = self._make_approver(options.approve) if options.approve is not None else REFUSE_ALL
        self._check_choice(options.tool_choice)
        self._policy = Policy(workspace=Path(options.workspace))
        self._context = ToolContext(workspace=self._policy.workspace, overrides=cast(Any, options.overrides))
        self._core_options = server.make_core_options(options)
        self._core = server.make_core(options.model, **self._core_options)
        self._conversation = read_conversation(options.conversation, options.system)
        self._loops: dict[str, AgentLoop] = {}
        self._lock = Lock()
        self._is_closed = False

    def _make_runner(self, registry: Registry) -> CallRunner:
        return CallRunner(registry)

    def _make_approver(self, approve: Any) -> Approver:
        return Approval(approve)

    @property
    def conversation(self) -> Conversation:
        """The messages so far. One that is set is read as the argument `conversation` is. Raises ConfigError."""
        return self._conversation

    @conversation.setter
    def conversation(self, given: Stored) -> None:
        self._conversation = read_conversation(given, self._options.system)

    @property
    def model(self) -> str:
        """The name of its model; empty until the server was asked for its only one."""
        return self._core.name

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
                core = self._server.make_core(self.model, **self._core_options, answer_schema=schema)
            self._loops[key] = AgentLoop(
                core,
                self._registry,
                self._context,
                self._approver,
                self._policy,
                max_tool_turns=self._options.max_tool_turns,
                compactor=Compactor(core, leaves_out=True) if self._options.compact else None,
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
        core = self._server.make_core(self.model, **self._core_options)
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

    def describe(self) -> Mapping[str, str]:
        """Who answers, for traces."""
        return {"server": self._server.base_url, "provider": self._server.provider, "model": self.model}

    @property
    def request_settings(self) -> Mapping[str, Any]:
        """What each request asks for, beside the conversation, for traces."""
        return {"stream": True, **self._options.sampling}

    def take(self) -> None:
        """Begin a question. Raises BotError."""
        if self._is_closed:
            raise BotError("This agent is closed.", CLOSED_HINT)
        self._server.check_open()
        check_messages(self.conversation)
        if not self._lock.acquire(blocking=False):
            raise BotError("This agent is answering another question.", "Ask it afterwards, or ask another agent.")
        self.take_approval_error()

    def release(self) -> None:
        """The question is over."""
        self._lock.release()

    def take_approval_error(self) -> TypeError | None:
        """What the approve function did wrong, once."""
        if not isinstance(self._approver, Approval):
            return None
        error, self._approver.error = self._approver.error, None
        return error

    def _make_exchange(self, question: Question, tool_choice: ToolChoice | None, schema: object) -> Exchange:
        choice = self._options.tool_choice if tool_choice is None else tool_choice
        self._check_choice(choice)
        return Exchange(self, question, choice, None if schema is None else Form(schema))

    def _check_choice(self, choice: object) -> None:
        """Raises ConfigError."""
        if isinstance(choice, Named):
            if choice.name not in self.tools:
                names = f"It has {', '.join(self.tools)}." if self.tools else "It has no tools."
                raise ConfigError(f"tool_choice: this agent has no tool {choice.name}.", names)
        elif choice not in ("auto", "none", "required"):
            hint = f'Write Named("{choice}").' if choice in self.tools else ""
            raise ConfigError(f'tool_choice: expected "auto", "none", "required" or Named(...), not {choice!r}.', hint)
        elif choice == "required" and not self.tools:
            raise ConfigError("tool_choice: a call is required, and this agent has no tools.")


class Agent(BaseAgent):
    """A conversation with a model, for threads; `Server.agent` makes one. A context manager, which closes it."""

    def __init__(self, server: BaseServer, client: Client, options: Options) -> None:
        super().__init__(server, options)
        self._client = client
        self._run: Run | None = None

    @classmethod
    def connect(
        cls,
        base_url: str = DEFAULT_URL,
        model: str = "",
        *,
        tools: Tools = (),
        approve: Approve | None = None,
        system: str = SYSTEM,
        tool_choice: ToolChoice = "auto",
        conversation: Stored = None,
        overrides: Overrides = NO_OVERRIDES,
        max_tool_turns: int = 10,
        compact: bool = True,
        workspace: str | Path = ".",
        api_key: str = "",
        provider: str = "vllm",
        **sampling: Unpack[Sampling],
    ) -> Agent:
        """An agent on a server of its own: short for `Server(base_url, ...).agent(...)`, and the server is asked.

        Raises BotError if the server does not answer, ConfigError for
        impossible arguments, a model that the server has not, or one that must be named, TypeError or ValueError for
        tools that cannot be offered. Nothing is left open then.
        """
        options = Options(
            tools,
            model,
            system,
            approve,
            tool_choice,
            conversation,
            overrides,
            max_tool_turns,
            compact,
            workspace,
            sampling,
        )
        server = BaseServer(base_url, api_key=api_key, provider=provider)
        agent = cls(server, server.make_client(), options)
        try:
            with rewording():
                run(agent.resolve_model(), agent._client)
        except BaseException:
            agent.close()
            raise
        return agent

    def ask(self, question: Question, *, tool_choice: ToolChoice | None = None, schema: object = None) -> Run:
        """The answer to a question while it comes: a Run, to iterate.

        `question`: a text, or a list of texts, images and sounds: `["What is this?", Media(data, "image/png")]`.
        `tool_choice`: "none": no tool may be called; "required" or `Named("weather")`: the first turn must call a
        tool, or this one, and a Notice tells if it does not; by default the agent's. `schema`: see `answer`.
        Raises ConfigError for impossible arguments; the run raises BotError.
        Whatever ends it early, leaving the loop over it included, the conversation can go on.
        """
        self._run = Run(self._make_exchange(question, tool_choice, schema), self._client, self._context)
        return self._run

    @overload
    def answer(
        self, question: Question, *, tool_choice: ToolChoice | None = ..., schema: type[T], raise_on_limit: bool = ...
    ) -> Result[T]: ...
    @overload
    def answer(
        self,
        question: Question,
        *,
        tool_choice: ToolChoice | None = ...,
        schema: object = ...,
        raise_on_limit: bool = ...,
    ) -> Result[Any]: ...
    def answer(
        self,
        question: Question,
        *,
        tool_choice: ToolChoice | None = None,
        schema: object = None,
        raise_on_limit: bool = True,
    ) -> Result[Any]:
        """The answer, once it is whole; `tool_choice` as in `ask`.

        `schema`: a dataclass, TypedDict, pydantic model or JSON Schema; the result's `value` has that form. Where the
        model gives another one, it is told what is wrong, once.
        Raises BotError; LimitReached, which has the `result`, for an answer that was cut, unless `raise_on_limit` is
        false.
        """
        result = self.ask(question, tool_choice=tool_choice, schema=schema).finish()
        return raise_if_cut(result) if raise_on_limit else result

    def cancel(self) -> None:
        """Stop the run, from any thread: who iterates gets Cancelled. Without a run, nothing happens.

        The server's answer and commands end at once; a tool of yours ends when it reads `ctx.cancelled`.
        """
        if self._run:
            self._run.cancel()

    def close(self) -> None:
        """End the run, if there is one. The agent answers no more questions."""
        if self._run:
            self._run.close()
        self._is_closed = True
        self._client.__exit__()

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
