"""Server-sent events: bytes in, the data of each event out. No I/O.

Linear whatever the chunking: a chunk that is one whole event is returned directly, others are appended to one
buffer, and no byte is searched twice. Lines end in LF, CRLF or CR; a blank line ends an event; `data` lines of
one event are joined by LF; comments (vLLM's ": keep-alive") are set aside; other fields are skipped. Lines are found
in bytes, so characters such as U+2028 do not end them. Specification: WHATWG HTML, section 9.2.
"""

from __future__ import annotations

from ...errors import Advice, WireError

MAX_EVENT_BYTES = 64 * 1024 * 1024
MAX_COMMENTS = 16  # that wait to be taken
MAX_COMMENT_BYTES = 1024  # of one
_BOM = b"\xef\xbb\xbf"
_DATA = (b"data", b"error")  # llama.cpp's server sends errors in this field


def build_size_error(limit: int = MAX_EVENT_BYTES) -> WireError:
    message = f"The server sent one event of more than {limit:,} bytes."
    what = "That is not a chat completion: check"
    return WireError(message, Advice(f"{what} vllm.base_url.", f"{what} `base_url`."))


class EventDecoder:
    """`feed(bytes)` returns the data of the events completed by a blank line.

    `comments`: those that have come, until they are taken.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments: list[bytes] = []
        self._buffer = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._held = 0
        self._limit = max_event_bytes
        self._open = True  # an event has begun, or no byte has been seen
        self._at_start = True
        self._last = b""  # byte of a chunk with a CR

    def feed(self, chunk: bytes) -> list[bytes]:
        """Raises WireError if one event exceeds the limit."""
        if self._last == b"\r" or b"\r" in chunk:
            # Every line end as LF. A CR at the end counts at once, so that an event need not wait for the next chunk.
            text = self._last + chunk
            chunk = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")[len(self._last) :]
            self._last = text[-1:]
        if not self._open and chunk[:6] == b"data: " and chunk.find(b"\n") == len(chunk) - 2 and chunk[-1:] == b"\n":
            return [chunk[6:-2]]  # one event, whole: what servers send
        self._buffer += chunk
        if self._at_start and not self._skip_bom():
            return []
        return self._take_lines()

    def close(self) -> list[bytes]:
        """The data lines that no blank line has ended, each for itself: some servers write none."""
        return [line for event in self.feed(b"\n\n") for line in event.split(b"\n")]

    def take_comments(self) -> bytes:
        """Those since the last time, each as an event without data."""
        comments, self.comments = self.comments, []
        return b"".join([comment + b"\n\n" for comment in comments])

    def _take_lines(self) -> list[bytes]:
        buffer, events = self._buffer, []
        start, at = 0, self._searched
        while (end := buffer.find(b"\n", at)) >= 0:
            if end > start:
                self._field(start, end)
            elif self._data:
                events.append(b"\n".join(self._data))
                self._data, self._held = [], 0
            start = at = end + 1
        del buffer[:start]
        self._searched = len(buffer)
        if self._held + len(buffer) > self._limit:
            raise build_size_error(self._limit)
        self._open = bool(buffer or self._data)
        return events

    def _field(self, start: int, end: int) -> None:
        """Take in a line of the buffer, copying only its value, as it may be long."""
        colon = self._buffer.find(b":", start, end)
        if colon < 0:  # a field without a value
            colon = end
        # A comment is kept for whoever forwards them; of those that nobody takes only a few.
        if colon == start and len(self.comments) < MAX_COMMENTS:
            self.comments.append(bytes(self._buffer[start : min(end, start + MAX_COMMENT_BYTES)]))
        if self._buffer[start:colon] not in _DATA:
            return
        value = colon + 1
        if self._buffer[value : value + 1] == b" ":
            value += 1
        value = min(value, end)
        with memoryview(self._buffer) as view:
            self._data.append(bytes(view[value:end]))
        self._held += end - value

    def _skip_bom(self) -> bool:
        """Skip a byte order mark; False while there are too few bytes to tell."""
        if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
            return False
        if self._buffer.startswith(_BOM):
            del self._buffer[: len(_BOM)]
        self._at_start = False
        return True
