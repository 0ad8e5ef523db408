"""JSON as the wire has it: what comes in may be anything, what goes out is always valid. No I/O."""

from __future__ import annotations

import json
from typing import Any

from ..errors import WireError
from ..messages import JSON


def load(data: bytes) -> Any:
    """Raises WireError."""
    try:
        return json.loads(data.decode(errors="replace"))
    except (ValueError, RecursionError) as error:
        raise WireError(f"The server sent an event that is no JSON: {data[:100].decode(errors='replace')}") from error


def dumps(value: object) -> str:
    """In one line and without blanks; NaN and the infinities, which JSON lacks, become null."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        return json.dumps(finite, ensure_ascii=False, separators=(",", ":"))


def body(fields: dict[str, JSON], **joined: str) -> bytes:
    """A request's body. `joined` are fields that are JSON already; they come first, so that the bytes of a
    conversation's beginning are the same from turn to turn."""
    ready = "".join(f'"{name}":{value},' for name, value in joined.items())
    return f"{{{ready}{dumps(fields)[1:]}".encode(errors="replace")  # a lone surrogate has no UTF-8


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in what should be a list of them."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def mapping(value: object) -> dict[str, Any]:
    """What should be an object; empty where it is none."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) else 0
