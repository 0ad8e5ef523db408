"""A client's stream of events that is never silent for long: where the server says nothing, signs of life go out.

Proxies and clients end a stream on which nothing comes: HAProxy after 50 s, nginx and load balancers after 60 s, Node
after 300 s. A server is silent while a request waits for its turn and while it reads the prompt, and so is the gateway
while it holds what may be a call. What a sign of life is, each API says: a comment, or an event.

The first byte waits for the server's first, or for `interval` seconds: until then a refusal keeps its status.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType

from aiohttp import web

from ..transport.async_http import bound_send_buffer

KEEP_ALIVE_HEADER = "x-vllm-bot-keep-alive"
MIN_INTERVAL_S = 0.1  # that a client may ask for
SEND_BUFFER_BYTES = 256 * 1024  # of a stream; Linux takes twice as many
_EVENT_ENDS = (b"\n\n", b"\n\r\n", b"\r\r", b"\r\r\n")  # two ends of lines, of which the second is whole
_MAX_END_BYTES = max(map(len, _EVENT_ENDS))


def read_interval(headers: Mapping[str, str], default: float) -> float:
    """How many seconds of silence the client bears; 0: any. Raises ValueError, with a sentence for the client."""
    asked = headers.get(KEEP_ALIVE_HEADER)
    if asked is None:
        return default
    try:
        seconds = float(asked)
    except ValueError:
        seconds = math.nan
    is_tiny = seconds == 0 and asked.strip("0.")  # such as 1e-400, which no float holds
    if is_tiny or not 0 <= seconds < math.inf:
        raise ValueError(f"{KEEP_ALIVE_HEADER}: expected seconds, or 0 for none, got {asked[:100]!r}.")
    return max(seconds, MIN_INTERVAL_S) if seconds else 0.0


class LiveStream:
    """The answer to `request`, with a sign of life after each `interval` seconds of silence; 0: never.

    Use it with `with`: at its end no sign of life is sent any more. `is_open`: the status has left. `make_sign`: may
    number its events, as those of the answer are.
    """

    def __init__(self, request: web.Request, make_sign: Callable[[], bytes], interval: float) -> None:
        self.is_open = False
        self.response = web.StreamResponse()
        self._request = request
        self._make_sign = make_sign
        self.interval = interval
        self._loop = asyncio.get_running_loop()
        self._written_at = self._loop.time()
        self._is_writing = False
        self._last_bytes = b"\n\n"  # of what was sent; relayed pieces may end anywhere
        self._beat: asyncio.Task[None] | None = None  # sends a sign of life
        self._timer: asyncio.TimerHandle | None = None

    def __enter__(self) -> LiveStream:
        if self.interval:
            self._timer = self._loop.call_later(self.interval, self._look)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more signs of life."""
        if self._timer is not None:
            self._timer.cancel()
        if self._beat is not None:
            self._beat.cancel()

    def _look(self) -> None:
        """Send a sign of life if it is time for one. One timer serves all of the stream: an event costs none."""
        wait = self._written_at + self.interval - self._loop.time()
        if wait <= 0:
            # a client that does not read what has come needs no sign
            if self._beat is None and not self._is_writing and self._last_bytes.endswith(_EVENT_ENDS):
                # it is made at once, so that what is encoded from now on comes behind it
                self._beat = self._loop.create_task(self._send_sign(self._make_sign()))
            wait = self.interval
        self._timer = self._loop.call_later(wait, self._look)

    async def _send_sign(self, sign: bytes) -> None:
        with suppress(ConnectionResetError):  # the client has gone: who writes next is told, too
            if not self.is_open:
                await self._prepare({})
            await self.response.write(sign)
            self._written_at, self._beat = self._loop.time(), None

    async def _prepare(self, headers: Mapping[str, str]) -> None:
        self.is_open = True
        self.response.headers.update(headers)
        self.response.headers["Content-Type"] = "text/event-stream; charset=utf-8"
        if self._request.transport is not None:
            bound_send_buffer(self._request.transport, SEND_BUFFER_BYTES)
        await self.response.prepare(self._request)

    async def open(self, headers: Mapping[str, str]) -> None:
        """Send the head, unless a sign of life has sent one: that has none of these headers."""
        if self._beat is not None:
            await self._beat
        if self.is_open:
            return
        self._is_writing = True
        await self._prepare(headers)
        self._is_writing = False

    async def write(self, data: bytes) -> None:
        """Raises ConnectionResetError where the client has gone."""
        if self._beat is not None:
            await self._beat
        self._is_writing = True
        await self.response.write(data)
        self._is_writing = False
        self._written_at = self._loop.time()
        self._last_bytes = (self._last_bytes + data[-_MAX_END_BYTES:])[-_MAX_END_BYTES:]

    async def end(self, data: bytes = b"") -> web.StreamResponse:
        """Send the last bytes, and the head if nothing was sent yet. Returns the response."""
        await self.open({})
        if data:
            await self.write(data)
        await self.response.write_eof()
        return self.response
