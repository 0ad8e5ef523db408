"""How long an answer may take, whatever the server does. The current time is passed in.

Four limits: connect, first token, idle and total. The first-token limit holds until the first line of the body, since
vLLM sends the headers before it has read the prompt. After that the idle limit starts anew with each complete line or
kilobyte, so that a trickle of single bytes does not extend it. Comments (": keep-alive") are lines too. The total
limit never starts anew.

The read timeout of urllib3 starts anew with each byte, so DeadlineConnection puts a raw stream below http.client's
buffer that asks the deadline before each read.
"""

from __future__ import annotations

import http.client
import io
import math
import threading
from collections.abc import Callable
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from ..errors import Advice, Cancelled, Timeout

TOTAL_LIMIT = Advice("The limit is vllm.total_timeout.", "The limit is timeouts=Timeouts(total=...).")
IDLE_LIMIT = Advice("The limit is vllm.timeout.", "The limit is timeouts=Timeouts(idle=...).")
FIRST_TOKEN_LIMIT = Advice(
    "A long prompt on a busy server needs more: the limit is vllm.first_token_timeout.",
    "A long prompt on a busy server needs more: the limit is timeouts=Timeouts(first_token=...).",
)
OWN_LIMIT = "That is the limit of this check, and of no setting: the server may be slow or busy."
CANCELLED = "The run was cancelled."
MIN_PROGRESS_BYTES = 1024  # that count as progress without a line end
POLL_INTERVAL_S = 0.25  # between looks at the deadline; an unchanged timeout costs no system call
BUFFER_BYTES = 65536  # so that a burst of chunks costs one system call


class Timeouts(Struct, frozen=True):
    """Limits in seconds. `own`: one that is the program's, tighter than the settings'."""

    connect: float = 5.0
    first_token: float = 600.0
    idle: float = 300.0
    total: float = 3600.0
    own: float = math.inf

    def cap(self, most: float) -> Timeouts:
        """The same limits, none of them longer than `most`."""
        return Timeouts(*(min(each, most) for each in astuple(self)))


class Deadline:
    """The limits of one request after the other. `now` gives seconds from any fixed point.

    `is_cancelled`: whether the caller has stopped waiting. `on_silence` is called, in the thread that reads, each time
    that nothing has come for POLL_INTERVAL_S.
    """

    is_cancelled: Callable[[], bool] = staticmethod(lambda: False)
    on_silence: Callable[[], object] = staticmethod(lambda: None)

    def __init__(self, limits: Timeouts, now: Callable[[], float]) -> None:
        self.limits = limits
        self._now = now
        self.start()

    def start(self) -> None:
        self._next_byte_by = self._now() + self.limits.first_token
        self._end_by = self._now() + self.limits.total
        self._total = self.limits.total  # in force, in seconds
        self._has_begun = False
        self._partial_bytes = 0  # since the last line end

    def remaining(self) -> float:
        """Seconds to wait for the next byte.

        Raises TimeoutError if there are none, and Cancelled if the caller has stopped waiting.
        """
        if self.is_cancelled():
            raise Cancelled(CANCELLED)
        seconds = min(self._next_byte_by, self._end_by) - self._now()
        if seconds <= 0:
            raise TimeoutError
        return seconds

    def note_progress(self, data: bytes) -> None:
        """Bytes of the body have arrived."""
        self._partial_bytes += len(data)
        if b"\n" in data or self._partial_bytes >= MIN_PROGRESS_BYTES:
            self._next_byte_by = self._now() + self.limits.idle
            self._has_begun = True
            self._partial_bytes = 0

    def cap(self, seconds: float) -> None:
        """Allow at most this long from now on."""
        if self._now() + seconds < self._end_by:
            self._end_by, self._total = self._now() + seconds, seconds

    def timeout_error(self, base_url: str) -> Timeout:
        """The error for the limit that was reached, which names its setting, if it is of the settings."""
        limits = self.limits
        if self._now() >= self._end_by:
            seconds, what, hint = self._total, "did not finish within", TOTAL_LIMIT
        elif self._has_begun:
            seconds, what, hint = limits.idle, "fell silent: nothing for", IDLE_LIMIT
        else:
            seconds, what, hint = limits.first_token, "sent nothing for", FIRST_TOKEN_LIMIT
        is_own = seconds == limits.own or self._total < limits.total
        return Timeout(f"{base_url} {what} {seconds:g} seconds.", OWN_LIMIT if is_own else hint)


class CurrentRequest(threading.local):
    """The request that this thread sends: its deadline, and whether a new connection was made for it."""

    deadline: Deadline
    has_connected = False


CURRENT = CurrentRequest()  # connections are shared by threads, and made and read far below our own calls


class _DeadlineResponse(http.client.HTTPResponse):
    def __init__(self, sock: Any, *args: Any, **named: Any) -> None:
        super().__init__(sock, *args, **named)
        self.fp = io.BufferedReader(_DeadlineStream(self.fp.detach(), sock, CURRENT.deadline), BUFFER_BYTES)

    def _read_status(self) -> tuple[str, int, str]:
        """http.client skips an interim response only if it is 100, not 103 (Early Hints)."""
        version, status, reason = super()._read_status()  # type: ignore[misc]  # not in typeshed
        if 100 < status < 200 and status != http.HTTPStatus.SWITCHING_PROTOCOLS:
            status = http.HTTPStatus.CONTINUE
        return version, status, reason

    def _read_next_chunk_size(self) -> int:
        """http.client accepts a negative size, and would read on until the connection ends.

        Raises ValueError, as it does for a size that is no number: the answer is cut.
        """
        size: int = super()._read_next_chunk_size()  # type: ignore[misc]  # not in typeshed
        if size < 0:
            raise ValueError(f"a chunk of {size} bytes")
        return size


class _DeadlineStream(io.RawIOBase):
    def __init__(self, raw: io.RawIOBase, sock: Any, deadline: Deadline) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline
        self._timeout = 0.0  # of the socket, in seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises what Deadline.remaining raises."""
        while True:
            timeout = min(self._deadline.remaining(), POLL_INTERVAL_S)
            if timeout != self._timeout:
                self._sock.settimeout(timeout)
                self._timeout = timeout
            try:
                return int(self._sock.recv_into(buffer))
            except TimeoutError:  # of this interval; the deadline decides whether to go on
                self._deadline.on_silence()

    def close(self) -> None:
        self._raw.close()
        super().close()


class DeadlineConnection:
    """Mixed into a connection of urllib3: its answers are read within the deadline of CURRENT."""

    response_class = _DeadlineResponse

    def connect(self) -> None:
        CURRENT.has_connected = True
        super().connect()  # type: ignore[misc]  # of the connection
