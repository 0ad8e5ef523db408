"""Server-sent events: bytes in, the data of each event out. No I/O.

Linear whatever the chunking: bytes are appended to one buffer, and a search never looks again at
what it has passed. Lines end in LF, CRLF or CR; a blank line ends an event; `data` lines of one
event are joined by LF; comments (vLLM's ": keep-alive") and other fields are passed over. Lines are
found in bytes, so U+2028 and its like inside a string stay what they are.
Specification: WHATWG HTML, section 9.2.
"""

from __future__ import annotations

import re

from ..errors import WireError

MAX_EVENT_BYTES = 64 * 1024 * 1024
_BOM = b"\xef\xbb\xbf"
_DATA = (b"data", b"error")  # llama.cpp's server sends what went wrong in a field of its own
_LINE_END = re.compile(rb"\r\n|\n|\r")


class EventDecoder:
    """`feed(bytes)` gives the data of the events that are whole by now; one that no blank line ends is no event."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._data: list[bytes] = []
        self._held = 0
        self._limit = max_event_bytes
        self._at_start = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Raises WireError where one event exceeds the limit."""
        if self._after_cr and chunk:
            self._after_cr = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        self._buffer += chunk
        if self._at_start and not self._skip_bom():
            return []
        events = self._take_lines()
        if self._held + len(self._buffer) > self._limit:
            raise WireError(
                f"The server sent one event of more than {self._limit:,} bytes.",
                "That is no chat completion: check base_url.",
            )
        return events

    def _take_lines(self) -> list[bytes]:
        buffer, events = self._buffer, []
        start, at = 0, self._searched
        while match := _LINE_END.search(buffer, at):
            end, at = match.span()
            if end > start:
                self._field(bytes(buffer[start:end]))
            elif self._data:
                events.append(b"\n".join(self._data))
                self._data, self._held = [], 0
            start = at
        # A CR at the very end counts at once, or an event would wait for the next; its LF may still come.
        self._after_cr = start > 0 and start == len(buffer) and buffer[-1] == 0x0D
        del buffer[:start]
        self._searched = len(buffer)
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name in _DATA:
            self._data.append(value[1:] if value.startswith(b" ") else value)
            self._held += len(value)

    def _skip_bom(self) -> bool:
        """Whether the start has been seen: three bytes, or enough to know that they are no byte order mark."""
        if len(self._buffer) < len(_BOM) and _BOM.startswith(self._buffer):
            return False
        if self._buffer.startswith(_BOM):
            del self._buffer[: len(_BOM)]
        self._at_start = False
        return True
