"""An answer with status 200, from bytes to events: a stream, a whole completion, some other page, or nothing. No I/O.

Its first bytes decide which, since headers may be wrong. A provider's codec says how one event is read; everything
that the providers share is here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

from ...errors import Advice, AnswerUnfinished, ServerError, StreamCut, WireError
from ...types.events import Completed, ModelEvent
from ...types.messages import Response, StopReason, Usage
from ..base import BodyDecoder, Broken, WireEvent
from ..server_errors import summarize_page
from ..wire_json import as_str, load_json
from .response_builder import ResponseBuilder
from .sse import MAX_EVENT_BYTES, EventDecoder, build_size_error

MAX_TITLE_BYTES = 65536  # of a page that are searched for its title
MAX_STOP_REASON_CHARS = 100
BLANK = b"\xef\xbb\xbf \t\r\n"
_FIELDS = frozenset({b"data", b"event", b"id", b"retry", b"error", b""})  # of server-sent events; b"" is a comment
_MAX_FIELD_BYTES = max(map(len, _FIELDS))


Form = Literal["stream", "whole", "page"]


def read_kind(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


class StreamDecoder(ABC):
    """Decodes a stream, which is complete only with the provider's stop reason or its last event.

    `new_id` makes ids for calls that came without one.
    """

    STOP_REASONS: ClassVar[Mapping[str, StopReason]]

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._events = EventDecoder()
        self._builder = ResponseBuilder(new_id)
        self._is_done = False  # the provider said that nothing follows
        self._stop_reason = ""  # the provider's word
        self._usage: Usage | None = None
        self._model = ""
        self._id = ""

    @abstractmethod
    def read_event(self, data: bytes, found: list[WireEvent]) -> None:
        """Take in one event, and append what it says. Raises ServerError and WireError."""

    @abstractmethod
    def read_whole(self, answer: Any) -> list[WireEvent]:
        """Take in a whole answer, as JSON. Raises ServerError and WireError."""

    def feed(self, chunk: bytes) -> list[WireEvent]:
        """See Decoder."""
        events: list[WireEvent] = []
        try:
            for data in self._events.feed(chunk):
                if data.strip():
                    self.read_event(data, events)
                if self._is_done:  # a server may keep the connection open
                    return [*events, *self.close()]
        except (ServerError, WireError) as error:
            if not events:
                raise
            return [*events, Broken(error)]
        return events

    def close(self) -> list[WireEvent]:
        """Raises StreamCut if the stream ended too early."""
        events: list[WireEvent] = []
        if not self._is_done:
            with suppress(WireError):  # the last event may be cut
                for data in self._events.close():
                    self.read_event(data, events)
        if not (self._stop_reason or self._is_done):
            raise AnswerUnfinished("The server's answer ended in the middle.", "None of it was run.")
        return [*events, Completed(self._build())]

    def _note(self, model: str | None = None, id: object = None, stop_reason: str | None = None) -> None:
        """Take in what an event tells of the answer; later values replace earlier ones."""
        self._model = model or self._model
        self._id = as_str(id) or self._id
        self._stop_reason = stop_reason or self._stop_reason

    def cut(self) -> list[WireEvent]:
        """See Decoder."""
        return [
            Completed(
                Response(self._builder.build(truncated=True), "max_tokens", self._usage, self._model, id=self._id)
            )
        ]

    def _build(self) -> Response:
        reason = self.STOP_REASONS.get(self._stop_reason, "other")
        content = self._builder.build(truncated=reason == "max_tokens")
        own = self._stop_reason[:MAX_STOP_REASON_CHARS] if reason == "other" else ""
        return Response(content, reason, self._usage, self._model, own, self._id)


class WholeDecoder:
    """Decodes an answer that is one JSON body."""

    def __init__(self, stream: StreamDecoder) -> None:
        self._stream = stream
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[ModelEvent]:
        """Raises WireError if it gets too large."""
        self._body += chunk
        if len(self._body) > MAX_EVENT_BYTES:
            raise build_size_error()
        return []

    def close(self) -> list[WireEvent]:
        """Raises WireError, ServerError or StreamCut: see Decoder."""
        events = self._stream.read_whole(load_json(bytes(self._body)))
        return [*events, *self._stream.close()]


class BodySniffer:
    """Passes an answer on to `stream`, as events or whole, if it is one."""

    def __init__(self, content_type: str, stream: StreamDecoder) -> None:
        self._kind = read_kind(content_type)
        self._stream = stream
        self._start = b""
        self._decoder: BodyDecoder | None = None

    def feed(self, chunk: bytes) -> Sequence[WireEvent]:
        if self._decoder:
            return self._decoder.feed(chunk)
        self._start = (self._start + chunk).lstrip(BLANK)  # some proxies send blanks while waiting
        self._decoder = self._choose(self._start)
        return self._decoder.feed(self._start) if self._decoder else []

    def close(self) -> Sequence[WireEvent]:
        """Raises StreamCut if nothing came."""
        if self._decoder:
            return self._decoder.close()
        if not self._start:
            raise StreamCut("The server's answer was empty.", "Its log may say why.", max_retries=1)
        raise build_page_error(self._kind, self._start)

    def cut(self) -> Sequence[WireEvent]:
        """See Decoder."""
        return self._stream.cut()

    def _choose(self, start: bytes) -> BodyDecoder | None:
        """None while there are too few bytes to tell."""
        form = detect_form(self._kind, start)
        if form == "stream":
            return self._stream
        if form == "whole":
            return WholeDecoder(self._stream)
        return PageDecoder(self._kind) if form else None


def detect_form(kind: str, start: bytes) -> Form | None:
    """What an answer is by its first bytes that are not blank; None while they are too few to tell."""
    if start[:1] in (b"{", b"["):
        return "whole"
    field, colon, _ = start.partition(b":")
    if start and not start.startswith(b"<") and kind in ("text/event-stream", ""):
        return "stream"
    if not colon and len(start) <= _MAX_FIELD_BYTES and not start.startswith(b"<"):
        return None
    return "stream" if colon and field.rstrip() in _FIELDS else "page"


class PageDecoder:
    """Something that is not a completion: read far enough to describe it, then refused."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._start = b""

    def feed(self, chunk: bytes) -> Sequence[WireEvent]:
        self._start += chunk[: MAX_TITLE_BYTES - len(self._start)]
        return []

    def close(self) -> Sequence[WireEvent]:
        """Raises WireError, always."""
        raise build_page_error(self._kind, self._start)


def build_page_error(kind: str, body: bytes) -> WireError:
    answer = f"The server answered with {kind or 'something'} ({summarize_page(body)}), not with a completion."
    there = "There may be a login page or a proxy in front of it: check"
    return WireError(answer, Advice(f"{there} vllm.base_url.", f"{there} `base_url`."))
