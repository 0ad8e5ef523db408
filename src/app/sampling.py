"""The settings of sampling as fields of a request, under the names that a provider's API has for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..config import Settings
from ..config.settings import VllmSettings
from ..errors import ConfigError
from ..providers.table import PROVIDERS
from ..types.messages import JSON

SAMPLING = (
    *("top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "seed", "stop"),
    *("reasoning_effort", "chat_template_kwargs"),
)


def merge_objects(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of both; `over` wins, and objects that both have are merged in the same way."""
    merged = dict(base)
    for name, value in over.items():
        old = merged.get(name)
        is_both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[name] = merge_objects(old, value) if is_both else value  # type: ignore[arg-type]
    return merged


def make_model_body(settings: Settings, model: str) -> dict[str, JSON]:
    """What the settings add to each request to this model: the values of SAMPLING and of `extra_body` as fields.

    Those that are not set are left out. Raises ConfigError, which names the place, for one that the API does not take.
    """
    vllm = settings.get_model_settings(model)
    row = PROVIDERS[vllm.provider]
    values = {name: value for name in SAMPLING if (value := getattr(vllm, name)) not in (None, "", (), [], {})}
    _refuse_unknown(settings, vllm, values)
    body: dict[str, Any] = {}
    for name, value in values.items():
        if name == "stop":
            value = [value] if isinstance(value, str) else list(value)
        for part in reversed(row.sampling[name].split(".")):
            value = {part: value}
        body = merge_objects(body, value)
    return merge_objects(body, vllm.extra_body)


def _refuse_unknown(settings: Settings, vllm: VllmSettings, names: Iterable[str]) -> None:
    """Raises ConfigError, which names the place, for what the API does not take."""
    row = PROVIDERS[vllm.provider]
    unknown = [name for name in names if name not in row.sampling]
    if vllm.temperature is not None and not row.has_temperature:
        unknown.insert(0, "temperature")
    if unknown:
        name, tables = unknown[0], ("vllm.", "models.", "servers.")
        keys = [key for key in settings.places if key.startswith(tables) and key.rpartition(".")[2] == name]
        places = [name, *(settings.places[key] for key in keys)]
        raise ConfigError(f"{places[-1]}: the API of {vllm.provider} has no such setting.")  # the last place counts
