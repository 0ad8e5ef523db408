"""JSON on the wire: input may be anything, output is always valid. No I/O."""

from __future__ import annotations

import json
import logging
from typing import Any

from ..errors import WireError
from ..types.messages import JSON

log = logging.getLogger(__name__.rpartition(".")[0])

_DECODE = json.JSONDecoder().raw_decode


def load(data: bytes) -> Any:
    """Raises WireError."""
    text, beginning = data.decode(errors="replace"), data[:100]
    del data
    try:
        value, end = _DECODE(text)  # faster than json.loads, which looks for blanks around it
        if end == len(text):
            return value
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise WireError(f"The server sent an event that is not JSON: {beginning.decode(errors='replace')}") from error


def dumps(value: object) -> str:
    """Compact JSON; NaN and infinities become null."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        finite = json.loads(json.dumps(value), parse_constant=lambda _: None)
        return json.dumps(finite, ensure_ascii=False, separators=(",", ":"))


def body(fields: dict[str, JSON], **joined: str) -> bytes:
    """The body of a request. The fields in `joined` are JSON already; they come first, so that the beginning of a
    conversation has the same bytes every turn."""
    ready = "".join(f'"{name}":{value},' for name, value in joined.items())
    return f"{{{ready}{dumps(fields)[1:]}".encode(errors="replace")  # a lone surrogate has no UTF-8


def objects(value: object) -> list[dict[str, Any]]:
    """The objects in a list; none if it is not a list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def event_object(value: object) -> dict[str, Any]:
    """The event if it is an object, else an empty one."""
    if isinstance(value, dict):
        return value
    log.debug("Skipped an event that is not an object: %s", type(value).__name__)
    return {}


def mapping(value: object) -> dict[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def count(value: object) -> int:
    return value if isinstance(value, int) else 0
