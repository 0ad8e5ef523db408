"""Events that differ from the last one in nothing but their text: read without decoding the rest of them. No I/O.

A server writes the same thirty words around each piece of an answer, and decoding those is most of what a piece
costs. What stands before and after the text of one event is remembered; an event with the same around a string
without escapes says that string, and, where token ids come with it, those. That is exact: whether the place that
was found is the text's is made sure of by decoding the event once more with something else in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KEYS = (b'"content":"', b'"content": "')
_IDS = (b'"token_ids":[', b'"token_ids": [')
_PROBE = "probe 0123"
_PROBED_ID = 7
LONGEST_IDS = 200  # characters
MAX_TRIES = 6  # events in a row that are not like the one before, until it is given up: each try costs a bit


class Likeness:
    """`read` takes an event's data apart; `learn` is told of one that held text and nothing else."""

    def __init__(self) -> None:
        self._before = b"\n"  # no event begins so
        self._between = self._after = b""
        self._has_ids = False
        self._tries = 0

    def read(self, data: bytes) -> tuple[str, list[int]] | None:
        """The text and the token ids; None where the event is not alike."""
        if not data.startswith(self._before):
            return None
        start = len(self._before)
        end = data.find(b'"', start)
        ids_at, ids_end = end + len(self._between), len(data) - len(self._after)
        if not start < end <= ids_at <= ids_end or not data.startswith(self._between, end):
            return None
        if not data.endswith(self._after):
            return None
        ids = data[ids_at:ids_end]
        if len(ids) > LONGEST_IDS or bool(ids) is not self._has_ids or (ids and not ids.replace(b",", b"").isdigit()):
            return None
        text = _plain(data[start:end])
        if text:
            self._tries = 0
        return (text, [int(each) for each in ids.split(b",") if each]) if text else None

    def learn(self, data: bytes, text: str, read: Callable[[bytes], Any]) -> None:
        """`read` gives text and token ids of data, of whatever shape."""
        if self._tries >= MAX_TRIES or data.startswith(self._before):
            return
        self._tries += 1
        key = next((key for key in _KEYS if data.count(key) == 1), b"")
        start = data.find(key) + len(key)
        end = data.find(b'"', start)
        if not key or data[start:end] != text.encode(errors="replace"):
            return
        before, rest = data[:start], data[end:]
        opened = next((key for key in _IDS if key in rest), b"")
        split = rest.find(opened) + len(opened)
        between, after = (rest[:split], rest[rest.find(b"]", split) :]) if opened else (rest, b"")
        probe = before + _PROBE.encode() + between + (str(_PROBED_ID).encode() + after if opened else b"")
        if read(probe) != (_PROBE, [_PROBED_ID] if opened else []):
            return
        self._before, self._between, self._after, self._has_ids = before, between, after, bool(opened)


def _plain(said: bytes) -> str:
    """What stands in quotes, where it holds no escape and nothing that would have to be one; else empty."""
    if b"\\" in said:
        return ""
    try:
        text = said.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""
