"""Agents: a model with tools and a conversation. async_agent.py has those for asyncio.

    agent = server.agent(tools=[weather])
    result = agent.answer("Do I need an umbrella in Oslo?")

Everything is as in the chat: the model's calls run, whether they come natively or in the text; a bad call is answered
to the model; a call of high risk asks first. Nothing is read from a configuration file or the environment, nothing is
printed, nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...tools.sdk.calls import ThreadCallRunner
from ...transport.driver import run
from ...types.messages import ToolChoice
from ..endpoint import DEFAULT_URL
from .approval import Answers, Approval, Approve
from .connection import BaseServer
from .exchange import BaseAgent, Exchange, Question
from .options import AgentOptions, Options, Tools, name_options
from .result import Result, raise_if_cut
from .run import Run
from .wording import rewording

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class Agent(BaseAgent[ThreadCallRunner]):
    """A conversation with a model, for threads; `Server.agent` makes one. A context manager, which closes it."""

    _run: Run[Any] | None

    def __init__(self, server: BaseServer[Any, Any], options: Options) -> None:
        super().__init__(server, options, ThreadCallRunner, lambda approve, _: Approval(approve))
        self._client = server.make_client()

    @classmethod
    @name_options
    def connect(
        cls,
        base_url: str = DEFAULT_URL,
        model: str = "",
        *,
        tools: Tools = (),
        approve: Approve | None = None,
        api_key: str = "",
        provider: str = "vllm",
        **options: Unpack[AgentOptions],
    ) -> Agent:
        """An agent on a server of its own: short for `Server(base_url, ...).agent(...)`, and the server is asked.

        Raises BotError if the server does not answer, ConfigError for
        impossible arguments, a model that the server has not, or one that must be named, TypeError or ValueError for
        tools that cannot be offered. Nothing is left open then.
        """
        server = BaseServer[Agent, Approve](base_url, api_key=api_key, provider=provider)
        agent = cls(server, {"tools": tools, "model": model, "approve": approve, **options})
        try:
            with rewording():
                run(agent.resolve_model(), agent._client)
        except BaseException:
            agent.close()
            raise
        return agent

    @overload
    def ask(self, question: Question, *, tool_choice: ToolChoice | None = ..., schema: type[T]) -> Run[T]: ...
    @overload
    def ask(self, question: Question, *, tool_choice: ToolChoice | None = ..., schema: object = ...) -> Run[Any]: ...
    def ask(self, question: Question, *, tool_choice: ToolChoice | None = None, schema: object = None) -> Run[Any]:
        """The answer to a question while it comes: a Run, to iterate.

        `question`: a text, or a list of texts, images and sounds: `["What is this?", Media(data, "image/png")]`.
        `tool_choice`: "none": no tool may be called; "required" or `Named("weather")`: the first turn must call a
        tool, or this one, and a Notice tells if it does not; by default the agent's. `schema`: see `answer`.
        Raises ConfigError for impossible arguments; the run raises BotError.
        Whatever ends it early, leaving the loop over it included, the conversation can go on.
        """
        return self._begin(self._make_exchange(question, tool_choice, schema))

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

        `schema`: a dataclass, TypedDict, pydantic model, union or JSON Schema; the result's `value` has that form.
        Where the model gives another one, it is told what is wrong, once.
        Raises BotError; LimitReached, which has the `result`, for an answer that was cut, unless `raise_on_limit` is
        false.
        """
        result = self.ask(question, tool_choice=tool_choice, schema=schema).finish()
        if raise_on_limit:
            raise_if_cut(result)
        return result

    @overload
    def resume(self, answers: Answers, *, schema: type[T]) -> Run[T]: ...
    @overload
    def resume(self, answers: Answers, *, schema: object = ...) -> Run[Any]: ...
    def resume(self, answers: Answers, *, schema: object = None) -> Run[Any]:
        """Go on with a run whose `approve` returned LATER, in this process or another one: a Run, to iterate.

        `answers`: to each call of `pending`, by its id: True, False or an Answer. `schema`: as the question had it.
        Raises BotError if no call waits, ConfigError for answers that are missing or to other calls.
        """
        return self._begin(self._make_resumption(answers, schema))

    def _begin(self, exchange: Exchange) -> Run[Any]:
        self._run = Run(exchange, self._client, self._context)
        return self._run

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
