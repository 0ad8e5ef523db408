"""What clients and models are made of: settings turned into their arguments, for threads and for asyncio alike.

What this program knows of servers (FACTS) is shared by all of its models.
"""

from __future__ import annotations

import math
import random
import string
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

from msgspec.structs import replace

from ..config import GivenValue, Settings, check_value
from ..config.settings import BASE_URLS, VllmSettings
from ..errors import ConfigError
from ..model import ModelCore, ModelOptions
from ..model.retry import RetryPolicy
from ..negotiation import CallPath, FactStore, Mode, Reason
from ..providers.table import PROVIDERS
from ..providers.vllm import fits_nothing
from ..transport import Client, Timeouts
from ..types.messages import JSON
from .candidates import WITH_V1, list_candidates
from .sampling import make_model_body

ClientT = TypeVar("ClientT")

DEFAULT_URL = "http://localhost:8000/v1"
ARGUMENTS = {"ssl_verify": "verify"}  # what the library calls a key of the section `vllm`, where the names differ
FACTS = FactStore(time.monotonic)
_ALPHANUMERIC = string.ascii_letters + string.digits


def random_id() -> str:
    """9 letters and digits: the only shape that every chat template takes (Mistral's raises on others)."""
    return "".join(random.choices(_ALPHANUMERIC, k=9))  # noqa: S311 - names a call, guards nothing


def make_settings(base_url: str, provider: str = "vllm", **values: Any) -> Settings:
    """The settings of a program that has no configuration file. `values`: of the section `vllm`; None: not given.

    Raises ConfigError for impossible values.
    """
    arguments = {"base_url": base_url, "provider": provider, **values}
    checked = {
        name: check_value(GivenValue(f"vllm.{name}", value, ARGUMENTS.get(name, name))).value
        for name, value in arguments.items()
        if value is not None or name not in values
    }
    is_whole = "://" in base_url and urlsplit(base_url).path.strip("/")
    if not is_whole:  # nothing is asked before the first question, so the likeliest address counts
        checked["base_url"] = list_candidates(checked["base_url"], has_v1=provider in WITH_V1)[0]
    places = {"vllm.base_url": "argument base_url"}
    return Settings(vllm=VllmSettings(**checked), root=Path(), state=Path(), places=places)  # `state` holds nothing


def take_only(names: list[str], base_url: str) -> str:
    """The name of the only model. Raises ConfigError if there is none, or several."""
    if len(names) == 1:
        return names[0]
    if not names:
        raise ConfigError(f"The server at {base_url} serves no model.")
    raise ConfigError(
        f"The server at {base_url} serves several models: {', '.join(names)}.", f"Name one: model={names[0]!r}."
    )


def fill_client(make: Callable[..., ClientT], settings: Settings, within: float | None = None, **more: Any) -> ClientT:
    """A client for the server of these settings. `make`: Client, or a class with the same arguments. `within`: seconds,
    tighter than the settings' own. `more`: arguments that the settings do not give, or that win over theirs.
    """
    vllm, row = settings.vllm, PROVIDERS[settings.vllm.provider]
    limits = Timeouts(vllm.connect_timeout, vllm.first_token_timeout, vllm.timeout, vllm.total_timeout)
    if within is not None:
        own = within if within < limits.total else math.inf  # a setting that is as tight keeps its name
        limits = replace(limits.cap(within), own=own)
    arguments = {
        "base_url": vllm.base_url,
        "api_key": settings.key_to_send,
        "clocks": limits,
        "key_header": row.key_header,
        "key_prefix": row.key_prefix,
        "headers": {**row.headers, **settings.headers_to_send},
        "ssl_verify": vllm.ssl_verify,
    }
    return make(**{**arguments, **more})


def make_client(settings: Settings, within: float | None = None, **more: Any) -> Client:
    """A client of threads; the arguments as in fill_client. Raises ConfigError."""
    if settings.vllm.provider != "copilot":
        return fill_client(Client, settings, within, **more)
    from ..transport.copilot import CopilotClient  # start-up is measured

    is_service = settings.vllm.base_url == BASE_URLS["copilot"]
    return fill_client(CopilotClient, settings, within, is_service=is_service, **more)


def _make_path(vllm: VllmSettings) -> CallPath:
    """The path to begin with."""
    order = cast("tuple[Mode, ...]", vllm.paths)
    if not vllm.enable_function_calling:
        return CallPath("text", Reason.CONFIGURED)
    if vllm.provider != "vllm":
        order = tuple(mode for mode in order if mode in ("native", "text")) or ("native",)
    return CallPath(order[0], order=order)


def choose_strict(vllm: VllmSettings) -> Callable[[Mapping[str, JSON]], bool]:
    """Whether the server can hold calls to a schema."""
    return PROVIDERS[vllm.provider].strict if vllm.strict_tools else fits_nothing


def make_core(
    settings: Settings,
    model: str,
    *,
    answer_schema: Mapping[str, JSON] | None = None,
    is_retried: bool = True,
    is_name_fixed: bool = False,
) -> ModelCore:
    """A model's logic without I/O. `answer_schema`: see ModelOptions; `is_name_fixed`: see ModelCore.

    Raises ConfigError for a setting that the provider's API does not have.
    """
    vllm = settings.get_model_settings(model)
    return ModelCore(
        model,
        PROVIDERS[vllm.provider].codec(random_id),
        vllm.base_url,
        FACTS,
        options=ModelOptions(
            is_vllm=vllm.provider == "vllm",
            temperature=vllm.temperature,
            strict=choose_strict(vllm),
            stream=vllm.stream,
            constrained=settings.text_protocol.constrained,
            answer_schema=answer_schema,
            extra=make_model_body(settings, model),
            recovers_parser_errors=vllm.recover_parser_errors,
            send_thoughts=vllm.send_thoughts,
        ),
        path=_make_path(vllm),
        max_tokens=vllm.max_tokens,
        new_id=random_id,
        jitter=random.random,
        retry_policy=RetryPolicy(vllm.retries, vllm.load_timeout) if is_retried else RetryPolicy(0, 0),
        is_name_fixed=is_name_fixed,
    )
