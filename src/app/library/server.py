"""A server for a program: its connections, its models and what is known of it, shared by all agents on it.

with Server("http://localhost:8000/v1") as server:
    print(server.agent(tools=[weather]).answer("Do I need an umbrella in Oslo?"))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...transport.driver import run
from ..model import Model
from .agent import Agent
from .approval import Approve
from .connection import BaseServer
from .options import Sampling, check_model
from .wording import rewording

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Server(BaseServer[Agent, Approve]):
    """For threads: agents may answer in several at once, each one question at a time."""

    _agent_type = Agent

    def _open(self) -> None:
        self._client = self.make_client()  # keeps the connections while agents come and go

    def model(self, model: str = "", **sampling: Unpack[Sampling]) -> Model:
        """A model for a loop of your own, which takes one turn at a time; without `model`, the server's only one.

        Raises BotError if the server does not answer, ConfigError as `agent` does.
        """
        self.check_open()
        check_model(model, sampling)
        made = Model(self.make_client(), self.make_core(model, sampling), self.check_open)
        with rewording():
            made.core.name = run(self.resolve_model(made.core), self._client)
        return made

    def list_models(self) -> list[str]:
        """The names of its models. Raises BotError."""
        self.check_open()
        with rewording():
            return run(self.make_core("", {}).server.list_models(), self._client)

    def close(self) -> None:
        """Close the connections. Its agents and models answer no more questions."""
        self.is_closed = True
        self._client.__exit__()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
