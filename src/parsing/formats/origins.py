"""The name of the format a block was found in, by its markers and its grammar."""

from __future__ import annotations

import functools
import re

from .table import FORMATS

_SPACE = re.compile(r"\s+")
_GRAMMARS = {"empty": "pairs", "element": "tags", "arguments": "argument blocks"}


@functools.lru_cache(maxsize=512)
def origin(opener: str, kind: str) -> str:
    """The row whose marker is in `opener` and whose grammar is `kind`; the longest marker wins, then the first row."""
    markers = _SPACE.sub("", opener).casefold()
    grammar = _GRAMMARS.get(kind, kind)
    rows = [row for row in FORMATS if row.opener and _SPACE.sub("", row.opener).casefold() in markers]
    if not rows:
        rows = [row for row in FORMATS if not row.opener and row.grammar == grammar]
        return rows[0].found_as if rows else "wrapped"
    best = max(rows, key=lambda row: (row.grammar == grammar, len(row.opener), -row.number))
    return best.found_as
