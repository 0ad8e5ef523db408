"""What a local `$ref` of a JSON Schema points to. A pure function."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote


def find_reference(reference: str, root: object) -> object:
    """What `#/$defs/city` points to in a schema, by RFC 6901; None if that is nothing or outside of it."""
    begin, *steps = unquote(reference).split("/")
    if begin != "#":
        return None
    at = root
    for step in steps:
        if isinstance(at, list):
            at = {str(index): item for index, item in enumerate(at)}
        if not isinstance(at, Mapping):
            return None
        at = at.get(step.replace("~1", "/").replace("~0", "~"))
    return at
