"""What came with an HTTP answer, told by looking at it: headers lie, and errors have many shapes. No I/O.

An answer with status 200 is a stream, a whole completion, a page of somebody else's, or nothing; its
first bytes say which. An error's reason is looked for where vLLM (old and new), FastAPI, OpenAI, Ollama
and proxies put it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from ..errors import AnswerEmpty, WireError
from ..messages import ModelEvent
from .codec import Decoder

LONGEST_REASON = 300  # characters
PAGE_START = 65536  # bytes of a page that are looked at for its title
_BLANK = b"\xef\xbb\xbf \t\r\n"
_FIELDS = frozenset({b"data", b"event", b"id", b"retry", b"error", b""})  # of server-sent events; b"" is a comment
_LONGEST_FIELD = max(map(len, _FIELDS))
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


class AnswerDecoder:
    """For an answer with status 200: the decoder that its first bytes ask for."""

    def __init__(self, content_type: str, stream: Callable[[], Decoder], whole: Callable[[], Decoder]) -> None:
        self._kind = content_type.partition(";")[0].strip().lower()
        self._stream = stream
        self._whole = whole
        self._start = b""
        self._decoder: Decoder | None = None

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        if self._decoder:
            return self._decoder.feed(chunk)
        self._start += chunk
        start = self._start.lstrip(_BLANK)
        self._decoder = self._chosen(start)
        return self._decoder.feed(start) if self._decoder else []

    def close(self) -> list[ModelEvent]:
        """Raises AnswerEmpty where nothing came."""
        if self._decoder:
            return self._decoder.close()
        if not self._start.strip(_BLANK):
            raise AnswerEmpty("The server's answer was empty.", "Its log may say why.")
        raise _no_completion(self._kind, self._start)

    def _chosen(self, start: bytes) -> Decoder | None:
        """None while there are too few bytes to tell."""
        if start[:1] in (b"{", b"["):
            return self._whole()
        field, colon, _ = start.partition(b":")
        if start and not start.startswith(b"<") and self._kind in ("text/event-stream", ""):
            return self._stream()
        if not colon and len(start) <= _LONGEST_FIELD and not start.startswith(b"<"):
            return None
        return self._stream() if colon and field.rstrip() in _FIELDS else PageDecoder(self._kind)


class PageDecoder:
    """Something that is no completion at all: read so far that it can be named, then refused."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._start = b""

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        self._start += chunk[: PAGE_START - len(self._start)]
        return []

    def close(self) -> list[ModelEvent]:
        """Raises WireError, always."""
        raise _no_completion(self._kind, self._start)


def _no_completion(kind: str, body: bytes) -> WireError:
    said = f"The server answered with {kind or 'something'} ({_text_or_title(body)}), not with a chat completion."
    return WireError(said, "A login page or a proxy may stand before it: check vllm.base_url.")


def error_message(body: bytes) -> str:
    """The reason in an error body, "" where there is none."""
    try:
        return error_reason(json.loads(body))
    except (ValueError, RecursionError):
        return _text_or_title(body)


def error_reason(value: Any) -> str:
    """The same for a body, or an event, that is parsed already."""
    if not isinstance(value, dict):
        return "" if value is None else str(value)[:LONGEST_REASON]
    error = value.get("error") or value
    if not isinstance(error, dict):
        return str(error)
    reason = error.get("message") or error.get("detail") or ""
    return "; ".join(map(_wrong_field, reason[:3])) if isinstance(reason, list) else str(reason)


def _wrong_field(entry: Any) -> str:
    """An entry of FastAPI's list of what does not validate (HTTP 422)."""
    if not isinstance(entry, dict):
        return str(entry)
    return f"{'.'.join(map(str, entry.get('loc') or ()))}: {entry.get('msg')}"


def _text_or_title(body: bytes) -> str:
    text = body.decode(errors="replace")
    title = _TITLE.search(text)
    return " ".join((title[1] if title else text).split())[:LONGEST_REASON]
