"""Check the rows by which users describe tools and MCP servers, in YAML and in the settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct

from ...errors import ConfigError


class Key(Struct, frozen=True):
    """What a key holds, in words that follow "is", and the check of a value."""

    what: str
    is_valid: Callable[[Any], bool]


def check_row(place: str, row: Any, keys: Mapping[str, Key], required: Sequence[str] = ()) -> dict[str, Any]:
    """The row without its nulls. Raises ConfigError, which begins with `place`, for any other row."""
    if not isinstance(row, dict):
        raise ConfigError(f"{place}: expected an object of {', '.join(keys)}")
    values = {key: value for key, value in row.items() if value is not None}
    for key, value in values.items():
        if key not in keys:
            raise ConfigError(f"{place}: there is no key {key!r}; it has {', '.join(keys)}")
        if not keys[key].is_valid(value):
            raise ConfigError(f"{place}: {key} is {keys[key].what}")
    for key in required:
        if key not in values:
            raise ConfigError(f"{place}: {key} is missing; it is {keys[key].what}")
    return values


def one_of(*choices: str) -> Key:
    return Key(f"{', '.join(choices[:-1])} or {choices[-1]}", lambda value: isinstance(value, str) and value in choices)


def is_string(value: Any) -> bool:
    return isinstance(value, str)


def is_number(value: Any) -> bool:
    """Infinity and NaN, which JSON lacks, are excluded."""
    return is_integer(value) or (isinstance(value, float) and isfinite(value))


def is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def is_scalar(value: Any) -> bool:
    return isinstance(value, (str, bool)) or is_number(value)


def is_list_of(is_valid: Callable[[Any], bool], value: Any) -> bool:
    """A list that is not empty."""
    return isinstance(value, list) and bool(value) and all(map(is_valid, value))


def is_command(value: Any) -> bool:
    return bool(value) and (is_string(value) or is_list_of(is_string, value))
