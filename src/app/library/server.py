"""A server for a program: its connections, its models and what is known of it, shared by all agents on it.

with Server("http://localhost:8000/v1") as server:
    print(server.agent(tools=[weather]).answer("Do I need an umbrella in Oslo?"))
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...transport.driver import run
from ...types.messages import ToolChoice
from ..model import Model
from .agent import Agent
from .approval import Approve
from .connection import BaseServer
from .options import NO_OVERRIDES, SYSTEM, Options, Overrides, Sampling, Stored, Tools
from .wording import rewording

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Server(BaseServer):
    """For threads: agents may answer in several at once, each one question at a time."""

    def _open(self) -> None:
        self._client = self.make_client()  # keeps the connections while agents come and go

    def agent(
        self,
        tools: Tools = (),
        model: str = "",
        *,
        system: str = SYSTEM,
        approve: Approve | None = None,
        tool_choice: ToolChoice = "auto",
        conversation: Stored = None,
        overrides: Overrides = NO_OVERRIDES,
        max_tool_turns: int = 10,
        compact: bool = True,
        workspace: str | Path = ".",
        **sampling: Unpack[Sampling],
    ) -> Agent:
        """A conversation with a model; without `model`, the server's only one. Nothing is sent before its question.

        `tools`: functions with type hints and a docstring, decorated with @tool or not. One of low risk,
        `@tool(risk="low")`, runs when the model calls it. For any other, `approve` is asked; without `approve` it does
        not run. `system`: the system prompt. `tool_choice`: "auto", "none", "required" or Named("weather").
        `conversation`: to go on with, see Conversation. `overrides`: factories that replace those of dependencies.
        `max_tool_turns`: turns with tool calls before the model must answer. `compact`: whether the older part of the
        conversation is summed up before it fills the model's context. `workspace`: the folder of tools that work on
        files. `sampling`: see Sampling.
        Raises ConfigError for impossible arguments, TypeError or ValueError for tools that cannot be offered.
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
        return Agent(self, self.make_client(), options)

    def model(self, model: str = "", **sampling: Unpack[Sampling]) -> Model:
        """A model for a loop of your own, which takes one turn at a time; without `model`, the server's only one.

        Raises BotError if the server does not answer, ConfigError as `agent` does.
        """
        self.check_open()
        options = self.make_core_options(Options((), model, sampling=sampling).check())
        made = Model(self.make_client(), model, **options)
        with rewording():
            made.core.name = run(self.resolve_model(made.core), self._client)
        return made

    def list_models(self) -> list[str]:
        """The names of its models. Raises BotError."""
        self.check_open()
        with rewording():
            return run(self.make_core("").server.list_models(), self._client)

    def close(self) -> None:
        """Close the connections. Its agents answer no more questions."""
        self.is_closed = True
        self._client.__exit__()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
