"""Reading events that differ from the last one only in their text, without decoding JSON. No I/O.

A server writes the same thirty words around each piece of an answer, and decoding them is most of the cost. What comes
before and after the text of one event is remembered; an event with the same around a string without escapes contains
that string (and the token ids next to it). To be sure that the text was located correctly, the event is decoded once
more with another text in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_KEYS = (b'"content":"', b'"content": "')
_IDS = (b'"token_ids":[', b'"token_ids": [')
_PROBE = "probe 0123"
_PROBED_ID = 7
LONGEST_IDS = 200  # characters
MAX_TRIES = 6  # failures in a row before giving up, as each try costs a bit


class Likeness:
    """`read` takes an event's data apart; `learn` is given one that contained only text."""

    def __init__(self) -> None:
        self._before = b"\n"  # no event begins so
        self._between = self._after = b""
        self._has_ids = False
        self._tries = 0

    def read(self, data: bytes) -> tuple[str, list[int]] | None:
        """The text and the token ids; None if the event is not like the last one."""
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
        """`read` decodes any data into text and token ids."""
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
    """The quoted text, if it needs no decoding; else empty."""
    if b"\\" in said:
        return ""
    try:
        text = said.decode()
    except UnicodeDecodeError:
        return ""
    return text if text.isprintable() else ""
