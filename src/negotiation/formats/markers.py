"""The words around calls and thoughts that may be tokens of their own, which a server leaves out of a text."""

from __future__ import annotations

from functools import cache

from ...parsing.formats.table import FORMATS
from ...types.lazy_pattern import LazyPattern

_MARKER = LazyPattern(r"</?[^\s<>{}=]{1,40}>|<[|｜][^\s<>]{1,60}[|｜]>|\[/?[A-Z_]{4,20}\]")
_THOUGHTS = ("<think>", "</think>", "[THINK]", "[/THINK]", "<|channel|>", "<|message|>", "<|start|>", "<|end|>")


@cache
def list_markers() -> tuple[str, ...]:
    """Those of all formats."""
    texts = [text for row in FORMATS for text in (row.template, *row.openers, *row.closers)]
    markers = {marker for text in texts for marker in _MARKER.findall(text)}
    return tuple(sorted(markers | set(_THOUGHTS)))
