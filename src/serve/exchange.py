"""One guarded request over HTTP: a ChatTurn at a replica, its outputs to the client.

While nothing of an answer was sent, another replica may give it. Where our own code fails before the first byte,
NotGuarded is raised, and the request is relayed as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping

from aiohttp import web
from multidict import CIMultiDict

from ..app.endpoint import random_id
from ..errors import BotError, ClientError, ServerError, Timeout, WireError
from ..negotiation.server import OK
from ..providers.server_errors import read_error_message
from ..providers.wire_json import as_dict, load_json
from ..transport.async_driver import drive_async
from ..transport.async_http import bound_send_buffer
from .apis.dialects import COUNT_PATH, Dialect
from .chat_request import ChatBody
from .chat_turn import ChatTurn, Output, Payload, WholeAnswer
from .http_common import OF_THE_BODY, is_relayed, refuse
from .report import Report
from .upstreams import Replica, Upstreams

HEADER = "x-vllm-bot"
SEND_BUFFER_BYTES = 256 * 1024  # of a stream; Linux takes twice as many

RELAYED = "The request is relayed as it came."

log = logging.getLogger(__name__.rpartition(".")[0])


class NotGuarded(Exception):
    """Nothing was sent yet; the cause is in the log."""


class GuardedExchange:
    """`headers`: those of the client that go on to the server. Times are the event loop's, in seconds."""

    def __init__(
        self, request: web.Request, dialect: Dialect, chat: ChatBody, headers: Mapping[str, str], repair_turns: int
    ) -> None:
        self.chat = chat
        self.report = Report()
        self.status = 0
        self._request = request
        self._dialect = dialect
        self._headers = headers
        self._repair_turns = repair_turns
        self.read_clock = asyncio.get_running_loop().time
        self.began = self.first_byte_at = self.read_clock()

    async def answer(self, upstreams: Upstreams) -> web.StreamResponse:
        """Raises NotGuarded."""
        failure: BotError | None = None
        for replica in upstreams.rank(self.chat.body):
            try:
                return await self._ask(replica)
            except BotError as error:
                failure = error
                if isinstance(error, Timeout) or not isinstance(error, ClientError):
                    break
                replica.mark_failed()
        self.status = 504 if isinstance(failure, Timeout) else 502
        if isinstance(failure, ServerError) and 400 <= failure.status < 500:
            self.status = failure.status  # the first event of a stream may be one: the client is not to ask again
        return refuse(self.status, self._dialect.encode_error(self.status, str(failure)))

    async def _ask(self, replica: Replica) -> web.StreamResponse:
        """Raises BotError and NotGuarded while nothing was sent."""
        replica.recall()
        is_count = self._request.path == COUNT_PATH
        turn = ChatTurn(replica.address, replica.facts, self.chat, random_id, self._repair_turns)
        self.report = turn.report
        outputs: AsyncGenerator[Output, None] = drive_async(
            turn.count_tokens() if is_count else turn.run(), replica.client.with_headers(self._headers)
        )
        try:
            first = await anext(outputs)
        except BotError:
            raise
        except Exception as error:
            log.exception(RELAYED)
            raise NotGuarded from error
        if is_count and isinstance(first, WholeAnswer) and first.status != OK:  # the server may count in its own way
            await outputs.aclose()
            raise NotGuarded
        replica.save(turn.fact_key)
        self.first_byte_at = self.read_clock()
        self.status = first.status if isinstance(first, WholeAnswer) else OK
        headers = CIMultiDict((name, value) for name, value in turn.headers if is_relayed(name))
        for name in (*OF_THE_BODY, "set-cookie"):  # the body is the gateway's
            headers.popall(name, None)
        headers[HEADER] = turn.report.to_header()
        if isinstance(first, Payload):
            return await self._stream(headers, first, outputs)
        if first.status != OK and not _is_error(first.body):  # of something in between
            return refuse(first.status, self._dialect.encode_error(first.status, read_error_message(first.body)))
        encode = self._dialect.encode_answer if first.status == OK else self._dialect.encode_refusal
        headers["Content-Type"] = "application/json"
        return web.Response(status=first.status, body=encode(first.body), headers=headers)

    async def _stream(
        self, headers: CIMultiDict[str], first: Payload, rest: AsyncGenerator[Output, None]
    ) -> web.StreamResponse:
        headers["Content-Type"] = "text/event-stream; charset=utf-8"
        response = web.StreamResponse(headers=headers)
        if self._request.transport is not None:
            bound_send_buffer(self._request.transport, SEND_BUFFER_BYTES)
        await response.prepare(self._request)
        encode = self._dialect.encode_payload
        try:
            await response.write(encode(first.events))
            async for output in rest:
                if isinstance(output, Payload) and (encoded := encode(output.events)):
                    await response.write(encoded)
        except BotError as error:
            await response.write(self._dialect.encode_break(502, str(error)))
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception as error:
            log.exception("A guarded stream failed.")
            await response.write(self._dialect.encode_break(500, f"The gateway failed: {type(error).__name__}."))
        finally:
            await rest.aclose()
        await response.write_eof()
        return response


def _is_error(body: bytes) -> bool:
    """Whether it is an error in OpenAI's shape."""
    try:
        return "error" in as_dict(load_json(body))
    except WireError:
        return False
