"""One model for a program that runs its own loop: calls out, results back in. `from vllm_bot import Model`.

    with Model.connect("http://localhost:8000/v1") as model:
        for event in model.respond(messages, [weather.definition]):
            ...  # the last event is Completed, with the response and its calls

async_model.py is the same for asyncio.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TypeVar, get_args

from ..errors import BotError, ConfigError
from ..model import ModelCore
from ..negotiation import CallPath
from ..transport import Client
from ..transport.driver import drive, run
from ..types.effects import AgentSteps, Aside, Turn
from ..types.events import Event, ModelEvent
from ..types.messages import Message, ToolChoice, ToolDefinition
from .endpoint import DEFAULT_URL, make_client, make_core, make_settings, take_only

T = TypeVar("T")
CLOSED_HINT = "Ask inside its `with` block, or make another one."


def check_messages(messages: Sequence[Message]) -> None:
    """Raises ConfigError for anything else than messages of ours."""
    if not isinstance(messages, Sequence):
        raise ConfigError(f"Expected a list of messages, got {messages!r:.60}.")
    for each in messages:
        if not isinstance(each, get_args(Message)):
            raise ConfigError(
                f"A conversation holds messages, and not {type(each).__name__}: {str(each)[:60]!r}.",
                "Use UserMessage, Response and the others, or Conversation.from_dict for what to_dict gave.",
            )


class BaseModel:
    """What models of threads and of asyncio share. `core`: its logic without I/O, for an agent's loop.

    `check_server` raises BotError once the server that the model belongs to is closed; None: it belongs to none.
    """

    def __init__(self, core: ModelCore, check_server: Callable[[], object] | None = None) -> None:
        self.core = core
        self._check_server = check_server
        self._is_closed = False

    @property
    def name(self) -> str:
        return self.core.name

    @property
    def path(self) -> CallPath:
        """How tools are offered to it, with what its server has refused so far."""
        return self.core.path

    @path.setter
    def path(self, path: CallPath) -> None:
        self.core.path = path

    def _start_turn(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition], choice: ToolChoice
    ) -> Turn[None]:
        """The steps of a turn. Raises ConfigError for what is no message or no definition of a tool."""
        check_messages(messages)
        for each in tools:
            if not isinstance(each, ToolDefinition):
                raise ConfigError(f"tools: expected a ToolDefinition, got {each!r:.60}.", "Write `weather.definition`.")
        return self._respond(messages, tools, choice)

    def _respond(self, messages: Sequence[Message], tools: Sequence[ToolDefinition], choice: ToolChoice) -> Turn[None]:
        self._check_open()
        yield from self.core.respond(messages, tools, choice)

    def _check_open(self) -> None:
        """Raises BotError once it or its server is closed."""
        if self._is_closed:
            raise BotError("This model is closed.", CLOSED_HINT)
        if self._check_server:
            self._check_server()

    @property
    def max_tokens(self) -> int | None:
        """Of one answer; None leaves it to the server."""
        return self.core.max_tokens

    @max_tokens.setter
    def max_tokens(self, limit: int | None) -> None:
        self.core.max_tokens = limit


class Model(BaseModel):
    """A model that answers conversations, one at a time."""

    @classmethod
    def connect(
        cls,
        base_url: str = DEFAULT_URL,
        model: str = "",
        *,
        api_key: str = "",
        provider: str = "vllm",
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> Model:
        """A model on a server. Without `model` it is the only one that the server has. See Agent.connect.

        Raises BotError if the server does not answer, ConfigError for impossible arguments or if a model must be named.
        """
        settings = make_settings(
            base_url, provider, model=model, api_key=api_key, temperature=temperature, max_tokens=max_tokens
        )
        connected = cls(make_client(settings), make_core(settings, model, is_name_fixed=True))
        if not model:
            try:
                names = run(connected.core.server.find_models(), connected._client)
                connected.core.name = take_only(names, base_url)
            except BaseException:
                connected.__exit__()
                raise
        return connected

    def __init__(self, client: Client, core: ModelCore, check_server: Callable[[], object] | None = None) -> None:
        super().__init__(core, check_server)
        self._client = client

    def _run(self, steps: Aside[T]) -> T:
        self._check_open()
        return run(steps, self._client)

    @property
    def context_length(self) -> int | None:
        """In tokens; None if the server does not say."""
        return self._run(self.core.context_length())

    @property
    def server_version(self) -> str:
        """The version of vLLM; empty if the server does not say."""
        return self._run(self.core.server.version())

    def measure_fill(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), *, exact_from: float = 0.0
    ) -> float | None:
        """The share of the context that the prompt takes, from 0; None if not known.

        Below `exact_from` an upper bound is enough; the server counts tokens above it.
        """
        return self._run(self.core.measure_fill(messages, tools, exact_from=exact_from))

    def drive(self, steps: AgentSteps[T], on_silence: Callable[[], object] = lambda: None) -> Generator[Event, None, T]:
        """The events of an agent's run, whose effects this model's client performs.

        `on_silence` is called each time that the server has sent nothing for a quarter of a second.
        """
        self._client.bind_silence(on_silence)
        return drive(steps, self._client)

    def respond(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        tool_choice: ToolChoice = "auto",
    ) -> Generator[ModelEvent, None, None]:
        """The model's next turn; the last event is Completed. Raises BotError.

        No call of a turn that raises may be run.
        """
        return drive(self._start_turn(messages, tools, tool_choice), self._client)

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *raised: object) -> None:
        self._is_closed = True
        self._client.__exit__()
