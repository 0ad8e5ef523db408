"""What an answer with status 200 is: a stream, a whole completion, some other page, or nothing. No I/O.

Its first bytes decide, since headers may lie.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import AnswerEmpty, WireError
from ..base import Decoder, WireEvent
from ..server_errors import text_or_title
from .response_builder import StreamingDecoder, WholeDecoder

PAGE_START = 65536  # bytes of a page that are searched for its title
_BLANK = b"\xef\xbb\xbf \t\r\n"
_FIELDS = frozenset({b"data", b"event", b"id", b"retry", b"error", b""})  # of server-sent events; b"" is a comment
_LONGEST_FIELD = max(map(len, _FIELDS))


class AnswerDecoder:
    """Passes an answer on to `stream`, as events or whole, if it is one."""

    def __init__(self, content_type: str, stream: StreamingDecoder) -> None:
        self._kind = content_type.partition(";")[0].strip().lower()
        self._stream = stream
        self._start = b""
        self._decoder: Decoder | None = None

    def feed(self, chunk: bytes) -> Sequence[WireEvent]:
        if self._decoder:
            return self._decoder.feed(chunk)
        self._start = (self._start + chunk).lstrip(_BLANK)  # some proxies send blanks while waiting
        self._decoder = self._chosen(self._start)
        return self._decoder.feed(self._start) if self._decoder else []

    def close(self) -> Sequence[WireEvent]:
        """Raises AnswerEmpty if nothing came."""
        if self._decoder:
            return self._decoder.close()
        if not self._start:
            raise AnswerEmpty("The server's answer was empty.", "Its log may say why.")
        raise _no_completion(self._kind, self._start)

    def _chosen(self, start: bytes) -> Decoder | None:
        """None while there are too few bytes to tell."""
        if start[:1] in (b"{", b"["):
            return WholeDecoder(self._stream)
        field, colon, _ = start.partition(b":")
        if start and not start.startswith(b"<") and self._kind in ("text/event-stream", ""):
            return self._stream
        if not colon and len(start) <= _LONGEST_FIELD and not start.startswith(b"<"):
            return None
        return self._stream if colon and field.rstrip() in _FIELDS else PageDecoder(self._kind)


class PageDecoder:
    """Something that is not a completion: read far enough to describe it, then refused."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._start = b""

    def feed(self, chunk: bytes) -> Sequence[WireEvent]:
        self._start += chunk[: PAGE_START - len(self._start)]
        return []

    def close(self) -> Sequence[WireEvent]:
        """Raises WireError, always."""
        raise _no_completion(self._kind, self._start)


def _no_completion(kind: str, body: bytes) -> WireError:
    said = f"The server answered with {kind or 'something'} ({text_or_title(body)}), not with a completion."
    return WireError(said, "There may be a login page or a proxy in front of it: check vllm.base_url.")
