"""The settings of sampling as fields of a request, under the names that a provider's API has for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..config import Settings
from ..errors import ConfigError
from ..providers.table import PROVIDERS
from ..types.messages import JSON

SAMPLING = (
    *("top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "stop"),
    *("reasoning_effort", "chat_template_kwargs"),
)


def make_body(values: Mapping[str, Any], provider: str) -> dict[str, JSON]:
    """The values of SAMPLING and of `extra_body` as fields of a request. Those not given, None or empty, are left out.

    Raises ConfigError for one that this provider does not take.
    """
    body: dict[str, Any] = {}
    row = PROVIDERS[provider]
    named = [name for name in SAMPLING if values.get(name) not in (None, "", (), [], {})]
    unknown = [name for name in named if name not in row.sampling]
    if values.get("temperature") is not None and not row.has_temperature:
        unknown.insert(0, "temperature")
    if unknown:
        raise ConfigError(f"{unknown[0]}: the API of {provider} has no such setting.")
    for name in named:
        value = values[name]
        if name == "stop":
            value = [value] if isinstance(value, str) else list(value)
        for part in reversed(row.sampling[name].split(".")):
            value = {part: value}
        body = merge_objects(body, value)
    return merge_objects(body, values.get("extra_body") or {})


def merge_objects(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both; `over` wins, and objects that both have are merged in the same way."""
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        is_both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = merge_objects(old, value) if is_both else value  # type: ignore[arg-type]
    return merged


def make_model_body(settings: Settings, model: str) -> dict[str, JSON]:
    """What the settings add to each request to this model. Raises ConfigError, which names the place."""
    vllm = settings.get_model_settings(model)
    values = {name: getattr(vllm, name) for name in ("temperature", *SAMPLING, "extra_body")}
    try:
        return make_body(values, vllm.provider)
    except ConfigError as error:
        name = error.message.partition(":")[0]
        places = [
            place
            for key, place in settings.places.items()
            if key.rpartition(".")[2] == name and key.partition(".")[0] in ("vllm", "models", "servers")
        ]
        raise ConfigError(f"{places[-1] if places else name}{error.message[len(name) :]}") from error
