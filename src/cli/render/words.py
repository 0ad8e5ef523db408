"""Words around a value, for lines that leave out what there is not."""

from __future__ import annotations

import json

from ...types.messages import JSON


def fill(template: str, value: object) -> str:
    """The template with the value in its place; "" where the value is none, zero or empty."""
    return template.format(value) if value else ""


def count(number: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def write_value(value: JSON) -> str:
    """A text as it is, any other value as JSON."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
