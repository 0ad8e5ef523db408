"""Answers that are passed on as the server sends them; between the events of a stream there may be signs of life."""

from __future__ import annotations

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ..providers.server_errors import read_error_message
from .apis.dialects import Dialect
from .http_common import is_relayed, refuse
from .keep_alive import LiveStream

MIN_ERROR_STATUS = 400
MAX_REFUSAL_BYTES = 64 * 1024
NO_STREAM = "The server's answer is no stream of events."


async def relay_answer(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    """Byte for byte."""
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend(_select_headers(answer))
    await response.prepare(request)
    async for chunk in answer.content.iter_any():
        await response.write(chunk)
    await response.write_eof()
    return response


class RelayedStream:
    """The answer to `request`, which asks for a stream."""

    def __init__(self, request: web.Request, live: LiveStream, dialect: Dialect) -> None:
        self._request = request
        self._live = live
        self._dialect = dialect

    async def send(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass the answer on. One that is no stream has its own status, unless a sign of life has sent another."""
        is_plain = answer.headers.get("Content-Encoding", "identity") == "identity"
        is_stream = answer.status < MIN_ERROR_STATUS and answer.content_type == "text/event-stream" and is_plain
        if not is_stream and not self._live.is_open:
            self._live.stop()
            return await relay_answer(self._request, answer)
        if not is_stream:
            return await self.fail(*(await _explain(answer)))
        headers = _select_headers(answer)
        headers.popall("Content-Length", None)
        await self._live.open(headers)
        async for chunk in answer.content.iter_any():
            await self._live.write(chunk)
        return await self._live.end()

    async def fail(self, status: int, message: str) -> web.StreamResponse:
        """An error as the answer, or as the end of a stream of which only signs of life were sent."""
        if self._live.is_open:
            return await self._live.end(self._dialect.encode_break(status, message))
        return refuse(status, self._dialect.encode_error(status, message))


async def _explain(answer: aiohttp.ClientResponse) -> tuple[int, str]:
    """Status and message for an answer that came too late to be passed on as it is."""
    if answer.status < MIN_ERROR_STATUS:
        return 502, NO_STREAM
    body = await answer.content.read(MAX_REFUSAL_BYTES)
    return answer.status, read_error_message(body)


def _select_headers(answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in answer.headers.items() if is_relayed(name))
