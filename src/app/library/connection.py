"""A server as agents share it: where it is, how it is reached, and what is known of it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...config.checks import resolve_path
from ...config.settings import WEEK_S
from ...errors import BotError, ConfigError, ServerError, join_names
from ...model import ModelCore
from ...transport import Client, Timeouts
from ...types.effects import Aside
from ..endpoint import (
    DEFAULT_URL,
    make_client,
    make_client_options,
    make_core,
    make_model_options,
    make_settings,
    take_only,
)
from ..sampling import make_body
from .options import Options
from .wording import rewording

CLOSED_HINT = "Ask inside its `with` block, or make another one."


class BaseServer:
    """`provider`: vllm, openai, ollama, anthropic, gemini, vertex or copilot. `timeouts`: in seconds, see Timeouts.

    `headers` are sent with every request. `verify`: whether to check the server's certificate, or the path of a CA
    file; `cert`: the path of a client certificate, or the paths of it and of its key. `retries`: of a request that
    failed before anything of its answer came. Nothing is sent before the first question. Raises ConfigError for
    impossible arguments.
    """

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
            settings = make_settings(
                base_url,
                provider,
                api_key=api_key,
                headers=dict(headers) if isinstance(headers, Mapping) else headers,
                ssl_verify=str(verify) if isinstance(verify, Path) else verify,
                retries=retries,
            )
            self.base_url = settings.vllm.base_url
            self.provider = provider
            self.is_closed = False
            self._client_options = make_client_options(settings) | {"cert": _read_cert(cert)}
            if timeouts is not None:
                self._client_options["clocks"] = _check_timeouts(timeouts)
            self._model_options = make_model_options(settings, "") | {"is_name_fixed": True}
            self._open()

    def _open(self) -> None:
        """Make what the agents share."""

    def check_open(self) -> None:
        """Raises BotError once it is closed."""
        if self.is_closed:
            raise BotError("This server is closed.", CLOSED_HINT)

    def make_client(self) -> Client:
        """A client for one agent in one thread; those of a server share their connections."""
        return make_client(self.provider, **self._client_options)

    def make_core_options(self, options: Options) -> dict[str, Any]:
        """What endpoint.make_core takes. Raises ConfigError for a setting that this provider does not take."""
        sampling = options.sampling
        return {
            **self._model_options,
            "temperature": sampling["temperature"],
            "max_tokens": sampling["max_tokens"],
            "extra": make_body(sampling, self.provider),
        }

    def make_core(self, model: str, **options: Any) -> ModelCore:
        """One model's logic; `options` as in endpoint.make_core."""
        return make_core(self.base_url, model, **{**self._model_options, **options})

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


def _read_cert(cert: str | Path | tuple[str | Path, ...] | None) -> tuple[str, ...]:
    """Raises ConfigError."""
    if cert is None:
        return ()
    paths = cert if isinstance(cert, tuple) else (cert,)
    return tuple(str(resolve_path(str(path), "cert", "file")) for path in paths)


def _check_timeouts(timeouts: Timeouts) -> Timeouts:
    """The limits, which the system's clocks can hold. Raises ConfigError."""
    if not isinstance(timeouts, Timeouts):
        raise ConfigError(f"timeouts: expected Timeouts(total=60.0), got {timeouts!r}.")
    if not all(isinstance(each, (int, float)) and each > 0 for each in timeouts):
        raise ConfigError(f"timeouts: expected seconds, more than 0, got {timeouts!r}.")
    return Timeouts(*(min(each, WEEK_S) for each in timeouts))
