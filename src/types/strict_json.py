"""JSON whose objects hold each key once.

Readers differ on which of two values of a repeated key counts, and so what was checked might not be what runs.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def loads_strict(
    text: str,
    *,
    error: Callable[[str], ValueError] = lambda _key: ValueError("a key stands twice in an object"),
    **options: Any,
) -> Any:
    """The value of `text`, read by `json.loads` with `options`.

    Raises ValueError and RecursionError as `json.loads` does, and `error(key)` for a repeated key.
    """
    return json.loads(text, object_pairs_hook=build_unique(error), **options)


def build_unique(
    error: Callable[[str], ValueError],
) -> Callable[[list[tuple[str, Any]]], dict[str, Any]]:
    """The `object_pairs_hook` of `loads_strict`, for a JSON decoder of the caller's own."""

    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members = dict(pairs)
        if len(members) < len(pairs):
            seen: set[str] = set()
            for key, _ in pairs:
                if key in seen:
                    raise error(key)
                seen.add(key)
        return members

    return build
