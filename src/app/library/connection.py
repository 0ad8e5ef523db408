"""A server as agents share it: where it is, how it is reached, and what is known of it. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from msgspec.structs import astuple, replace

from ...config.checks import resolve_path
from ...config.settings import WEEK_S
from ...errors import BotError, ConfigError, ServerError, join_names
from ...model import ModelCore
from ...transport import Client, Timeouts
from ...types.effects import Aside
from ...types.messages import JSON
from ..endpoint import DEFAULT_URL, make_client, make_core, make_settings, take_only
from ..model import CLOSED_HINT
from .approval import AsyncApprove
from .options import AgentOptions, Options, Sampling, Tools, check_names, name_options
from .wording import rewording

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

AgentT = TypeVar("AgentT")
ApproveT = TypeVar("ApproveT", bound=AsyncApprove)
INTERNAL = {"check_open", "make_client", "make_core", "resolve_model"}  # what agents need of a server


class BaseServer(Generic[AgentT, ApproveT]):
    """`provider`: vllm, openai, ollama, anthropic, gemini, vertex or copilot. `timeouts`: in seconds, see Timeouts.

    `headers` are sent with every request. `verify`: whether to check the server's certificate, or the path of a CA
    file; `cert`: the path of a client certificate, or the paths of it and of its key. `retries`: of a request that
    failed before anything of its answer came. Nothing is sent before the first question. Raises ConfigError for
    impossible arguments.
    """

    _agent_type: Callable[[Any, Options], AgentT]

    def __new__(cls, *_: object, **options: object) -> Self:
        """Raises TypeError for an option that there is not."""
        check_names(f"A {cls.__name__}", options, [*signature(cls.__init__).parameters][1:])
        return super().__new__(cls)

    def __init__(
        self,
        base_url: str = DEFAULT_URL,
        *,
        api_key: str = "",
        provider: str = "vllm",
        timeouts: Timeouts | None = None,
        headers: Mapping[str, str] | None = None,
        verify: bool | str | Path = True,
        cert: str | Path | tuple[str | Path, str | Path] | None = None,
        retries: int = 2,
    ) -> None:
        with rewording():
            self._settings = make_settings(
                base_url,
                provider,
                api_key=api_key,
                headers=dict(headers) if isinstance(headers, Mapping) else headers,
                ssl_verify=str(verify) if isinstance(verify, Path) else verify,
                retries=retries,
            )
            self.base_url = self._settings.vllm.base_url
            self.provider = provider
            self.is_closed = False
            self._client_options: dict[str, Any] = {}  # that no setting holds
            if cert is not None:
                paths = cert if isinstance(cert, tuple) else (cert,)
                self._client_options["cert"] = tuple(str(resolve_path(str(path), "cert", "file")) for path in paths)
            if timeouts is not None:
                self._client_options["clocks"] = _check_timeouts(timeouts)
            self._open()

    def _open(self) -> None:
        """Make what the agents share."""

    @name_options
    def agent(
        self,
        tools: Tools = (),
        model: str = "",
        *,
        approve: ApproveT | None = None,
        **options: Unpack[AgentOptions],
    ) -> AgentT:
        """A conversation with a model; without `model`, the server's only one. Nothing is sent before its question.

        `tools`: functions with type hints and a docstring, decorated with @tool or not. One of low risk,
        `@tool(risk="low")`, runs when the model calls it. For any other, `approve` is asked; without `approve` it does
        not run. On asyncio, both may be coroutine functions.
        `system`: the system prompt. `tool_choice`: "auto", "none", "required" or Named("weather").
        `conversation`: to go on with, see Conversation. `overrides`: factories that replace those of dependencies.
        `max_tool_turns`: turns with tool calls before the model must answer. `compact`: whether the older part of the
        conversation is summed up before it fills the model's context. `workspace`: the folder of tools that work on
        files; `add_dirs`: more of them. `timeout`: seconds for a whole answer, with all its requests and calls.
        `finish_announced`: whether the model is asked once more where its answer behind results ends in what it is
        about to do. The others are those of Sampling.
        Raises ConfigError for impossible arguments, TypeError or ValueError for tools that cannot be offered.
        """
        return self._agent_type(self, {"tools": tools, "model": model, "approve": approve, **options})

    def __dir__(self) -> list[str]:
        """What its user may need, for completion."""
        return sorted(set(super().__dir__()) - INTERNAL)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.provider} at {self.base_url}{', closed' * self.is_closed}>"

    def check_open(self) -> None:
        """Raises BotError once it is closed."""
        if self.is_closed:
            raise BotError("This server is closed.", CLOSED_HINT)

    def make_client(self) -> Client:
        """A client for one agent in one thread; those of a server share their connections."""
        return make_client(self._settings, **self._client_options)

    def make_core(
        self, model: str, options: Mapping[str, Any], answer_schema: Mapping[str, JSON] | None = None
    ) -> ModelCore:
        """One model's logic. `options`: those of Sampling count. Raises ConfigError for one that it has not."""
        values = {name: options[name] for name in Sampling.__annotations__ if options.get(name) is not None}
        settings = replace(self._settings, vllm=replace(self._settings.vllm, **values))
        return make_core(settings, model, answer_schema=answer_schema, is_name_fixed=True)

    def resolve_model(self, core: ModelCore) -> Aside[str]:
        """The name of the model: the one that was named, or the server's only one.

        Raises ConfigError with the names that there are. Raises BotError if the server does not answer.
        """
        if core.name and self.provider != "vllm":  # other lists leave out names that work
            return core.name
        try:
            names = yield from core.server.find_models()
        except ServerError:
            if core.name:  # a proxy without a list
                return core.name
            raise
        if not core.name:
            return take_only(names, self.base_url)
        if core.name not in names:
            names = yield from core.server.list_models()  # one that was loaded meanwhile
        if core.name not in names:
            served = join_names(names) or "none"
            raise ConfigError(f"The server at {self.base_url} has no model {core.name!r}.", f"It serves {served}.")
        return core.name


def _check_timeouts(timeouts: Timeouts) -> Timeouts:
    """The limits, which the system's clocks can hold. Raises ConfigError."""
    if not isinstance(timeouts, Timeouts):
        raise ConfigError(f"timeouts: expected Timeouts(total=60.0), got {timeouts!r}.")
    if not all(isinstance(each, (int, float)) and each > 0 for each in astuple(timeouts)):
        raise ConfigError(f"timeouts: expected seconds, more than 0, got {timeouts!r}.")
    return timeouts.cap(WEEK_S)
