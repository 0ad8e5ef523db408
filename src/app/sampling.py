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
    unknown = next((name for name in values if name not in row.sampling), "")
    if vllm.temperature is not None and not row.has_temperature:
        unknown = "temperature"
    if unknown:
        raise ConfigError(f"{_find_place(settings, unknown)}: the API of {vllm.provider} has no such setting.")
    body: dict[str, Any] = {}
    for name, value in values.items():
        if name == "stop":
            value = [value] if isinstance(value, str) else list(value)
        for part in reversed(row.sampling[name].split(".")):
            value = {part: value}
        body = merge_objects(body, value)
    return merge_objects(body, vllm.extra_body)


def _find_place(settings: Settings, name: str) -> str:
    """Where a setting of the server was set."""
    found = name
    for key, place in settings.places.items():
        if key.rpartition(".")[2] == name and key.partition(".")[0] in ("vllm", "models", "servers"):
            found = place  # the last one counts
    return found
