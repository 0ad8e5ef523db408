"""What clients and models are made of: settings turned into their arguments, for threads and for asyncio alike.

What this program knows of servers (FACTS) is shared by all of its models.
"""

from __future__ import annotations

import math
import random
import string
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from ..config import GivenValue, Settings, check_value
from ..config.settings import BASE_URLS, VllmSettings
from ..errors import ConfigError
from ..model import ModelCore, ModelOptions
from ..model.retry import RetryPolicy
from ..negotiation import BY_CONFIGURATION, CallPath, FactStore, Mode
from ..providers.base import Codec
from ..providers.openai import OpenAICodec
from ..providers.table import PROVIDERS
from ..providers.vllm import fits_nothing
from ..transport import Client, Timeouts
from ..types.messages import JSON
from .sampling import make_model_body

DEFAULT_URL = "http://localhost:8000/v1"
ARGUMENTS = {"ssl_verify": "verify"}  # what the library calls a key of the section `vllm`, where the names differ
FACTS = FactStore()
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
    extra: Mapping[str, JSON] | None = None,
    new_id: Callable[[], str] = random_id,
    jitter: Callable[[], float] = random.random,
    retry_policy: RetryPolicy = RetryPolicy(),  # noqa: B008 - a NamedTuple
    is_name_fixed: bool = False,
    facts: FactStore | None = None,
    send_thoughts: str = "auto",
) -> ModelCore:
    """`codec`: OpenAI's by default. `facts`: shared with other models; by default its own. See ModelOptions."""
    return ModelCore(
        name,
        codec or OpenAICodec(new_id),
        address,
        facts or FactStore(),
        options=ModelOptions(
            is_vllm, temperature, strict, stream, constrained, answer_schema, extra or {}, send_thoughts
        ),
        path=path or CallPath(),
        max_tokens=max_tokens,
        new_id=new_id,
        jitter=jitter,
        retry_policy=retry_policy,
        is_name_fixed=is_name_fixed,
    )


def make_settings(base_url: str, provider: str = "vllm", **values: Any) -> Settings:
    """The settings of a program that has no configuration file. `values`: of the section `vllm`; None: not given.

    Raises ConfigError for impossible values.
    """
    given = {"base_url": base_url, "provider": provider, **values}
    checked = {
        name: check_value(GivenValue(f"vllm.{name}", value, ARGUMENTS.get(name, name))).value
        for name, value in given.items()
        if value is not None or name not in values
    }
    if "://" not in base_url:
        raise ConfigError(f"base_url: expected an address such as {DEFAULT_URL}, got {base_url!r}.")
    places = {"vllm.base_url": "argument base_url"}
    return Settings(vllm=VllmSettings(**checked), root=Path(), state=Path(), places=places)  # `state` holds nothing


def take_only(names: list[str], base_url: str) -> str:
    """The name of the only model. Raises ConfigError if there is none, or several."""
    if len(names) == 1:
        return names[0]
    serves = f"several models: {', '.join(names)}" if names else "no model"
    raise ConfigError(f"The server at {base_url} serves {serves}.", f"Name one: model={names[0]!r}." if names else "")


def make_client_options(settings: Settings, within: float | None = None) -> dict[str, Any]:
    """The arguments of Client and AsyncClient, but for `sleep`. `within`: seconds, tighter than the settings' own."""
    vllm, row = settings.vllm, PROVIDERS[settings.vllm.provider]
    limits = Timeouts(vllm.connect_timeout, vllm.first_token_timeout, vllm.timeout, vllm.total_timeout)
    return {
        "base_url": vllm.base_url,
        "api_key": settings.key_to_send,
        "clocks": limits if within is None else _tighten(limits, within),
        "key_header": row.key_header,
        "key_prefix": row.key_prefix,
        "headers": {**row.headers, **settings.headers_to_send},
        "ssl_verify": vllm.ssl_verify,
    }


def make_client(provider: str, **options: Any) -> Client:
    """A client of threads for a server of this provider. `options`: those of Client. Raises ConfigError."""
    if provider != "copilot":
        return Client(**options)
    from ..transport.copilot import CopilotClient  # start-up is measured

    return CopilotClient(**options, is_service=options["base_url"] == BASE_URLS["copilot"])


def check_async(provider: str) -> None:
    """Raises ConfigError where there is no client for asyncio."""
    if provider == "copilot":
        hint = "Use Server, Agent or Model; for `vllm-bot serve`, name the server that the CLI would use."
        raise ConfigError("The provider copilot answers in threads only, not on asyncio.", hint)


def _tighten(limits: Timeouts, within: float) -> Timeouts:
    """The limits, none of them longer; a setting that is as tight keeps its name."""
    connect, first_token, idle, total, _ = limits
    own = within if within < total else math.inf
    return Timeouts(min(connect, within), min(first_token, within), min(idle, within), min(total, within), own)


def _make_path(vllm: VllmSettings) -> CallPath:
    """The path to begin with."""
    order = cast("tuple[Mode, ...]", vllm.paths)
    if not vllm.enable_function_calling:
        return CallPath("text", BY_CONFIGURATION)
    if vllm.provider != "vllm":
        order = tuple(mode for mode in order if mode in ("native", "text")) or ("native",)
    return CallPath(order[0], order=order)


def make_model_options(settings: Settings, model: str, *, is_retried: bool = True) -> dict[str, Any]:
    """The arguments of make_core, but for the address and the name.

    Raises ConfigError for a setting that the provider's API does not have.
    """
    vllm, row = settings.get_model_settings(model), PROVIDERS[settings.vllm.provider]
    return {
        "codec": row.codec(random_id),
        "is_vllm": vllm.provider == "vllm",
        "path": _make_path(vllm),
        "strict": row.strict if vllm.strict_tools else fits_nothing,
        "stream": vllm.stream,
        "temperature": vllm.temperature,
        "max_tokens": vllm.max_tokens,
        "extra": make_model_body(settings, model),
        "constrained": settings.text_protocol.constrained,
        "retry_policy": RetryPolicy(vllm.retries, vllm.load_timeout) if is_retried else RetryPolicy(0, 0),
        "facts": FACTS,
        "send_thoughts": vllm.send_thoughts,
    }
