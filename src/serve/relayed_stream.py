"""Answers that are passed on as the server sends them; between the events of a stream there may be signs of life."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from ..errors import ContentRejected, ServerError, TemplateFailed, TemplateRejected
from ..negotiation.history.mending import MAYBE_HISTORY
from ..providers.server_errors import judge_own_words, read_error_message, read_refusal
from ..types.effects import MIN_ERROR_STATUS, ReplyHead
from .apis.dialects import MESSAGES_PATH, Dialect, encode_messages_refusal
from .chat_request import ChatBody
from .http_common import OF_THE_BODY, OFF_HEADER, is_plain, is_relayed, refuse, send_error
from .keep_alive import LiveStream
from .record.recording import Recording, UpstreamExchange

MAX_REFUSAL_BYTES = 64 * 1024
NO_STREAM = "The server's answer is no stream of events."


class HistoryRefused(Exception):
    """The server refuses what may be mended of `chat`. Nothing was sent yet."""

    def __init__(self, chat: ChatBody) -> None:
        super().__init__()
        self.chat = chat


async def check_refusal(answer: aiohttp.ClientResponse, chat: ChatBody | None) -> None:
    """Raises HistoryRefused where the answer is such a refusal. `chat`: the request, where it offers no tools."""
    if chat is None or chat.tools or answer.status not in MAYBE_HISTORY or not is_plain(answer.headers):
        return
    refusal = judge_own_words(read_refusal(answer.status, await answer.read()), chat.body)
    is_of_template = isinstance(refusal, (TemplateRejected, TemplateFailed))
    is_of_media = isinstance(refusal, ContentRejected) and chat.has_media
    if is_of_template or is_of_media or (type(refusal) is ServerError and chat.mended.what):
        raise HistoryRefused(chat)


async def relay_answer(
    request: web.Request, answer: aiohttp.ClientResponse, recording: Recording | None = None
) -> web.StreamResponse:
    """Byte for byte, but for errors on Messages, which have Anthropic's types. `recording`: where it is recorded."""
    is_error = answer.status >= MIN_ERROR_STATUS and request.path.startswith(MESSAGES_PATH)
    if is_error and is_plain(answer.headers) and not request.headers.get(OFF_HEADER):
        headers = _select_headers(answer)
        for name in OF_THE_BODY:
            headers.popall(name, None)
        refusal = await _read_refusal(answer)
        if recording is not None:
            _open_exchange(recording, answer).pieces.append(refusal)
            recording.end_relay()
        error = refuse(answer.status, encode_messages_refusal(answer.status, refusal))
        error.headers.extend(headers)
        return error
    response = web.StreamResponse(status=answer.status, reason=answer.reason)
    response.headers.extend(_select_headers(answer))
    await response.prepare(request)
    async for chunk in _read_pieces(answer, recording):
        await response.write(chunk)
    await response.write_eof()
    return response


def _open_exchange(recording: Recording, answer: aiohttp.ClientResponse) -> UpstreamExchange:
    recording.status = answer.status
    return recording.open(answer.method, answer.url.path, ReplyHead(answer.status, answer.content_type))


async def _read_pieces(answer: aiohttp.ClientResponse, recording: Recording | None) -> AsyncGenerator[bytes, None]:
    """The body, noted."""
    pieces: list[bytes] | None = None
    if recording is not None:
        pieces = _open_exchange(recording, answer).pieces
    if answer.status in MAYBE_HISTORY:
        body = await answer.read()  # that may have been read already
        if pieces is not None:
            pieces.append(body)
        yield body
    async for chunk in answer.content.iter_any():
        if pieces is not None:
            pieces.append(chunk)
        yield chunk
    if recording is not None:
        recording.end_relay()


class RelayedStream:
    """The answer to `request`, which asks for a stream. `chat`: the request as a chat completion, if it is one.

    `recording`: where it is recorded, if it is.
    """

    def __init__(
        self,
        request: web.Request,
        live: LiveStream,
        dialect: Dialect,
        chat: ChatBody | None,
        recording: Recording | None = None,
    ) -> None:
        self._recording = recording
        self._request = request
        self._live = live
        self._dialect = dialect
        self._chat = chat

    async def send(self, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Pass the answer on. One that is no stream has its own status, unless a sign of life has sent another.

        Raises HistoryRefused.
        """
        is_of_events = answer.status < MIN_ERROR_STATUS and answer.content_type == "text/event-stream"
        is_stream = is_of_events and is_plain(answer.headers)
        if not is_stream and not self._live.is_open:
            self._live.stop()
            await check_refusal(answer, self._chat)
            return await relay_answer(self._request, answer, self._recording)
        if not is_stream:
            return await send_error(self._live, self._dialect, *(await _explain(answer)))
        headers = _select_headers(answer)
        headers.popall("Content-Length", None)
        await self._live.open(headers)
        async for chunk in _read_pieces(answer, self._recording):
            await self._live.write(chunk)
        return await self._live.end()


async def _explain(answer: aiohttp.ClientResponse) -> tuple[int, str]:
    """Status and message for an answer that came too late to be passed on as it is."""
    if answer.status < MIN_ERROR_STATUS:
        return 502, NO_STREAM
    return answer.status, read_error_message(await _read_refusal(answer))


async def _read_refusal(answer: aiohttp.ClientResponse) -> bytes:
    if answer.status in MAYBE_HISTORY:
        return await answer.read()  # it may have been read already
    return await answer.content.read(MAX_REFUSAL_BYTES)


def _select_headers(answer: aiohttp.ClientResponse) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in answer.headers.items() if is_relayed(name))
