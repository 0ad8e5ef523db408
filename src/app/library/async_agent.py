"""Servers and agents for asyncio. They need aiohttp: `pip install "vllm-bot[async]"`.

async with AsyncServer("http://localhost:8000/v1") as server:
    async for event in server.agent(tools=[weather]).ask("Do I need an umbrella in Oslo?"):
        ...
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar, overload

from ...security.permissions.approval import Answer, Request
from ...tools.sdk.async_calls import AsyncCallRunner
from ...transport.async_driver import run_async
from ...types.messages import ToolChoice
from ..async_model import AsyncModel, make_async_client
from .approval import Answers, Approval, AsyncApprove
from .async_run import AsyncRun
from .connection import BaseServer
from .exchange import AsyncOnly, BaseAgent, Exchange, Question
from .options import Options, Sampling, check_model
from .result import Result, raise_if_cut
from .wording import rewording

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")


class AsyncApproval(Approval):
    """As Approval; a coroutine function is awaited, another one runs in a thread, as it may wait for a person."""

    takes_coroutines = True

    def __init__(self, approve: AsyncApprove, runner: AsyncCallRunner) -> None:
        super().__init__(approve)
        self._runner = runner

    def approve(self, request: Request) -> Future[Answer]:
        return self._runner.spawn(self._ask(request))

    async def _ask(self, request: Request) -> Answer:
        return self._read(await self._runner.call(self._approve, request))


class AsyncAgent(AsyncOnly, BaseAgent[AsyncCallRunner]):
    """As Agent, for asyncio; `AsyncServer.agent` makes one. Coroutine functions as tools run in its event loop."""

    _run: AsyncRun[Any] | None

    def __init__(self, server: AsyncServer, options: Options) -> None:
        super().__init__(server, options, AsyncCallRunner, AsyncApproval)
        self._client = server._client

    @overload
    def ask(self, question: Question, *, tool_choice: ToolChoice | None = ..., schema: type[T]) -> AsyncRun[T]: ...
    @overload
    def ask(
        self, question: Question, *, tool_choice: ToolChoice | None = ..., schema: object = ...
    ) -> AsyncRun[Any]: ...
    def ask(self, question: Question, *, tool_choice: ToolChoice | None = None, schema: object = None) -> AsyncRun[Any]:
        """As Agent.ask, to iterate with `async for`."""
        return self._begin(self._make_exchange(question, tool_choice, schema))

    @overload
    async def answer(
        self, question: Question, *, tool_choice: ToolChoice | None = ..., schema: type[T], raise_on_limit: bool = ...
    ) -> Result[T]: ...
    @overload
    async def answer(
        self,
        question: Question,
        *,
        tool_choice: ToolChoice | None = ...,
        schema: object = ...,
        raise_on_limit: bool = ...,
    ) -> Result[Any]: ...
    async def answer(
        self,
        question: Question,
        *,
        tool_choice: ToolChoice | None = None,
        schema: object = None,
        raise_on_limit: bool = True,
    ) -> Result[Any]:
        """As Agent.answer."""
        result = await self.ask(question, tool_choice=tool_choice, schema=schema).finish()
        if raise_on_limit:
            raise_if_cut(result)
        return result

    @overload
    def resume(self, answers: Answers, *, schema: type[T]) -> AsyncRun[T]: ...
    @overload
    def resume(self, answers: Answers, *, schema: object = ...) -> AsyncRun[Any]: ...
    def resume(self, answers: Answers, *, schema: object = None) -> AsyncRun[Any]:
        """As Agent.resume, to iterate with `async for`."""
        return self._begin(self._make_resumption(answers, schema))

    def _begin(self, exchange: Exchange) -> AsyncRun[Any]:
        self._run = AsyncRun(exchange, self._client, self._context, self._runner, self._run)
        return self._run

    async def close(self) -> None:
        """End the run, if there is one. The agent answers no more questions."""
        if self._run:
            await self._run.close()
        self._is_closed = True

    async def __aenter__(self) -> AsyncAgent:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncServer(AsyncOnly, BaseServer[AsyncAgent, AsyncApprove]):
    """As Server, for asyncio: any number of agents may answer at once, in one event loop. It needs aiohttp."""

    _agent_type = AsyncAgent

    def _open(self) -> None:
        self._client = make_async_client(self._settings, **self._client_options)

    async def model(self, model: str = "", **sampling: Unpack[Sampling]) -> AsyncModel:
        """As Server.model. It shares the connections of the server, and is closed with it."""
        self.check_open()
        check_model(model, sampling)
        made = AsyncModel(self._client, self.make_core(model, sampling), self.check_open)
        with rewording():
            made.core.name = await run_async(self.resolve_model(made.core), self._client)
        return made

    async def list_models(self) -> list[str]:
        """The names of its models. Raises BotError."""
        self.check_open()
        with rewording():
            return await run_async(self.make_core("", {}).server.list_models(), self._client)

    async def close(self) -> None:
        """Close the connections. Its agents and models answer no more questions."""
        self.is_closed = True
        await self._client.close()

    async def __aenter__(self) -> AsyncServer:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
