"""One model for a program that runs its own loop: calls out, results back in. `from vllm_bot import Model`.

with Model.connect("http://localhost:8000/v1") as model:
    for event in model.respond(messages, tools=[weather.definition]):
        ...  # the last event is Completed, with the response and its calls
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Generator, Mapping, Sequence
from threading import Event, Lock
from typing import Any

from ..model import CallPath, FactStore, ModelCore, ModelOptions, Server
from ..model.retry import RetryPolicy
from ..model.server import ASIDE_TIMEOUT_S
from ..providers.base import Codec
from ..providers.openai import OpenAICodec
from ..providers.vllm import fits_nothing
from ..transport import Client
from ..transport.driver import drive, run
from ..types.events import ModelEvent
from ..types.messages import JSON, Message, ToolChoice, ToolDefinition

_ASKING: dict[str, Event] = {}  # by address
_ASKING_LOCK = Lock()
_ALPHANUMERIC = string.ascii_letters + string.digits


def random_id() -> str:
    """9 letters and digits: the only shape that every chat template takes (Mistral's raises on others)."""
    return "".join(random.choices(_ALPHANUMERIC, k=9))  # noqa: S311 - names a call, guards nothing


def make_core(
    address: str,
    name: str,
    *,
    codec: Codec | None = None,
    is_vllm: bool = True,
    path: CallPath | None = None,
    temperature: float | None = None,
    max_tokens: int | None = None,
    strict: Callable[[Mapping[str, JSON]], bool] = fits_nothing,
    stream: bool = True,
    constrained: str = "auto",
    answer_schema: Mapping[str, JSON] | None = None,
    new_id: Callable[[], str] = random_id,
    jitter: Callable[[], float] = random.random,
    retry_policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - a NamedTuple
    facts: FactStore | None = None,
) -> ModelCore:
    """`codec`: OpenAI's by default. `facts`: shared with other models; by default its own. See ModelOptions."""
    return ModelCore(
        name,
        codec or OpenAICodec(new_id),
        address,
        facts or FactStore(),
        options=ModelOptions(is_vllm, temperature, strict, stream, constrained, answer_schema),
        path=path or CallPath(),
        max_tokens=max_tokens,
        new_id=new_id,
        jitter=jitter,
        retry_policy=retry_policy,
    )


def list_models(client: Client, codec: Codec | None = None) -> list[str]:
    """The names of the models that the server has. Raises ClientError, ServerError, WireError."""
    server = Server(codec or OpenAICodec(random_id), client.base_url, FactStore(), is_vllm=False)
    return run(server.list_models(), client)


def ask_once(address: str, question: Callable[[], object]) -> None:
    """Run `question` about a server, or wait for the end of one that another thread is running."""
    with _ASKING_LOCK:
        running = _ASKING.get(address)
        if running is None:
            _ASKING[address] = over = Event()
    if running is not None:
        running.wait(ASIDE_TIMEOUT_S)
        return
    try:
        question()
    finally:
        del _ASKING[address]
        over.set()


class Model:
    """A model that answers conversations, one at a time. `options`: see make_core."""

    def __init__(self, client: Client, name: str, **options: Any) -> None:
        self._client = client
        self._core = make_core(client.base_url, name, **options)

    @property
    def name(self) -> str:
        return self._core.name

    @property
    def path(self) -> CallPath:
        """How tools are offered to it, with what its server has refused so far."""
        return self._core.path

    @path.setter
    def path(self, path: CallPath) -> None:
        self._core.path = path

    @property
    def max_tokens(self) -> int | None:
        """Of one answer; None leaves it to the server."""
        return self._core.max_tokens

    @max_tokens.setter
    def max_tokens(self, limit: int | None) -> None:
        self._core.max_tokens = limit

    @property
    def context_length(self) -> int | None:
        """In tokens; None if the server does not say."""
        return run(self._core.context_length(), self._client)

    @property
    def server_version(self) -> str:
        """The version of vLLM; empty if the server does not say."""
        return run(self._core.server.version(), self._client)

    def measure_fill(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = (), *, exact_from: float = 0.0
    ) -> float | None:
        """The share of the context that the prompt takes, from 0; None if not known.

        Below `exact_from` an upper bound is enough; the server counts tokens above it.
        """
        return run(self._core.measure_fill(messages, tools, exact_from=exact_from), self._client)

    def respond(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolDefinition] = (),
        tool_choice: ToolChoice = "auto",
    ) -> Generator[ModelEvent, None, None]:
        """The model's next turn; the last event is Completed. Raises BotError.

        No call of a turn that raises may be run.
        """
        if not self._core.server.is_described:
            ask_once(self._client.base_url, lambda: self.context_length)
        yield from drive(self._core.respond(messages, tools, tool_choice), self._client)
