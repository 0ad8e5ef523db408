"""One guarded request over HTTP: a ChatTurn at a replica, its outputs to the client.

While nothing of an answer was sent, another replica may give it. Where our own code fails before the first byte,
NotGuarded is raised, and the request is relayed as it came.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing, suppress

from aiohttp import web
from multidict import CIMultiDict

from ..app.endpoint import random_id
from ..errors import BotError, ClientError, ServerError, StreamCut, Timeout, WireError
from ..negotiation.server import OK
from ..providers.server_errors import is_about_length, read_error_message
from ..providers.wire_json import as_dict, load_json
from ..transport.async_driver import drive_async
from .apis.dialects import COUNT_PATH, Dialect
from .beside import is_large, take_steps_beside
from .chat_request import ChatBody
from .chat_turn import ChatTurn, GatewayTurn, KeepAlive, Output, Payload, WholeAnswer
from .conversation import Conversation
from .http_common import NO_SERVER, OF_THE_BODY, is_relayed, send_error
from .keep_alive import LiveStream
from .record.recording import Recording
from .report import Report
from .turn_options import TurnOptions
from .upstreams import Replica, Upstreams

HEADER = "x-vllm-bot"

RELAYED = "The request is relayed as it came."

log = logging.getLogger(__name__.rpartition(".")[0])


class NotGuarded(Exception):
    """Nothing was sent yet; the cause is in the log."""


class GuardedExchange:
    """`headers`: those of the client that go on to the server. `recording`: where it is recorded, if it is.

    Times are the event loop's, in seconds.
    """

    def __init__(
        self,
        request: web.Request,
        dialect: Dialect,
        chat: ChatBody,
        headers: Mapping[str, str],
        options: TurnOptions,
        live: LiveStream,
        conversation: Conversation | None = None,
        recording: Recording | None = None,
    ) -> None:
        self.chat = chat
        self._recording = recording
        self._conversation = conversation
        self.report = Report()
        self.replica: Replica | None = None  # that is asked, or was last
        self.status = 0
        self.error = ""  # the kind of what ended the answer early
        self._request = request
        self._dialect = dialect
        self._headers = headers
        self._options = options
        self._live = live
        self.read_clock = asyncio.get_running_loop().time
        self.began = self.first_byte_at = self.read_clock()

    @property
    def server(self) -> str:
        """The address of the replica that answered; "" if none was asked."""
        return self.replica.root if self.replica else ""

    async def answer(self, upstreams: Upstreams) -> web.StreamResponse:
        """Raises NotGuarded."""
        failure: BotError | None = None
        sent = self.chat.body
        with self._live:
            await self._restore()
            for replica in upstreams.rank(sent):
                self.replica = replica
                try:
                    with replica.count_running():
                        return await self._ask(replica)
                except BotError as error:
                    failure = error
                    if isinstance(error, Timeout) or not isinstance(error, ClientError):
                        break
                    replica.mark_failed(error.message)
            assert failure is not None  # noqa: S101 - there is a replica
            return await self._fail(*self._word_failure(failure))

    def _word_failure(self, failure: BotError) -> tuple[int, str]:
        """Status and message for the client."""
        self.error = type(failure).__name__
        status = 502
        if isinstance(failure, Timeout):
            status = 504
        elif isinstance(failure, ServerError) and failure.is_about_request:
            status = failure.status  # the first event of a stream may be one: the client is not to ask again
        return status, word_failure(failure, self.replica)

    async def _restore(self) -> None:
        """Put back what the client dropped of its history. A mistake of ours costs no request."""
        if self._conversation is None:
            return
        try:
            self.chat = await self._conversation.restore()
        except Exception:
            log.exception("Nothing of a conversation was put back.")
            self._conversation = None

    async def _keep_answer(self, turn: ChatTurn) -> None:
        """Before the client has the end of the answer, and can go on."""
        answer, turn.answered = turn.answered, None
        if answer is None or self._conversation is None:
            return
        try:
            await self._conversation.keep(answer, turn.answer_tokens)
        except Exception:
            log.exception("An answer was not kept.")

    async def _fail(self, status: int, message: str) -> web.StreamResponse:
        self.status = status
        return await send_error(self._live, self._dialect, status, message)

    async def _ask(self, replica: Replica) -> web.StreamResponse:
        """Raises BotError and NotGuarded while nothing was sent."""
        replica.recall()
        is_count = self._request.path == COUNT_PATH
        turn = self._make_turn(replica, is_count=is_count)
        steps = self._make_steps(turn, replica, is_count=is_count)
        if await is_large(self._request):
            steps = take_steps_beside(steps)
        answer: AsyncGenerator[Output, None] = drive_async(steps, replica.client.with_headers(self._headers))
        async with aclosing(answer) as outputs:
            try:
                first = await self._find_first(turn, outputs)
            except (BotError, ConnectionResetError):
                raise
            except Exception as error:
                log.exception(RELAYED)
                if self._live.is_open:
                    return await self._fail(500, describe_mistake(error))
                raise NotGuarded from error
            if is_count and isinstance(first, WholeAnswer) and first.status != OK:
                raise NotGuarded  # the server may count in its own way
            replica.save(turn.fact_key)
            self.first_byte_at = self.read_clock()
            if isinstance(first, WholeAnswer):
                replica.mark_answered(first.status)
                await self._keep_answer(turn)
                return await self._send_whole(first, self._select_headers(turn))
            replica.mark_answered(OK)
            self.status = OK
            await self._live.open(self._select_headers(turn))
            return await self._stream(turn, first, outputs)

    def _make_turn(self, replica: Replica, *, is_count: bool) -> ChatTurn:
        turn = ChatTurn(replica.address, replica.facts, self.chat, random_id, self._options)
        self.report = turn.report
        if self._conversation is not None:
            self.report.restored = self._conversation.restored
            self.report.guards.update(["loops"] * self._conversation.has_new_note)
            if not is_count:
                turn.conversation = self._conversation
        return turn

    def _make_steps(self, turn: ChatTurn, replica: Replica, *, is_count: bool) -> GatewayTurn:
        steps = turn.count_tokens() if is_count else turn.run()
        if self._recording is None:
            return steps
        self._recording.chat, self._recording.conversation = self.chat, self._conversation
        self._recording.reader = self._options.to_dict()
        return self._recording.follow(turn, steps, replica.facts)

    async def _find_first(self, turn: ChatTurn, outputs: AsyncGenerator[Output, None]) -> Payload | WholeAnswer:
        """The first output that is part of an answer."""
        async for output in outputs:
            if not isinstance(output, KeepAlive):
                return output
            await self._live.open(self._select_headers(turn))
            await self._live.write(self._dialect.encode_keep_alive(output.comments))
        raise WireError("The server's answer was empty.")

    def _select_headers(self, turn: ChatTurn) -> CIMultiDict[str]:
        """The headers of the server's answer that the client gets, and what was done."""
        headers = CIMultiDict((name, value) for name, value in turn.headers if is_relayed(name))
        for name in (*OF_THE_BODY, "set-cookie"):  # the body is the gateway's
            headers.popall(name, None)
        headers[HEADER] = turn.report.to_header()
        return headers

    async def _send_whole(self, answer: WholeAnswer, headers: CIMultiDict[str]) -> web.StreamResponse:
        """An answer that does not stream, or a refusal."""
        headers["Content-Type"] = "application/json"
        if answer.status == OK and not self._live.is_open:
            self.status = OK
            return web.Response(body=self._dialect.encode_answer(answer.body), headers=headers)
        message = read_error_message(answer.body)
        if self.chat.stream and self._dialect.tells_length_in_stream and is_about_length(message):
            await self._live.open(headers)
        is_error = False  # in OpenAI's shape, and not of something in between
        with suppress(WireError):
            is_error = "error" in as_dict(load_json(answer.body))
        if self._live.is_open or not is_error:
            return await self._fail(answer.status, message)
        self.status = answer.status
        body = self._dialect.encode_refusal(answer.status, answer.body)
        return web.Response(status=answer.status, body=body, headers=headers)

    async def _stream(self, turn: ChatTurn, first: Payload, rest: AsyncGenerator[Output, None]) -> web.StreamResponse:
        encode, live = self._dialect.encode_payload, self._live
        last = b""
        try:
            await self._keep_answer(turn)
            await live.write(encode(first.events))
            async for output in rest:
                if turn.answered is not None:
                    await self._keep_answer(turn)
                if isinstance(output, Payload):
                    encoded = encode(output.events)
                elif isinstance(output, KeepAlive):
                    encoded = self._dialect.encode_keep_alive(output.comments)
                else:
                    continue
                if encoded:
                    await live.write(encoded)
        except BotError as error:
            last = self._dialect.encode_break(*self._word_failure(error))
        except (asyncio.CancelledError, ConnectionResetError):
            raise
        except Exception as error:
            log.exception("A guarded stream failed.")
            self.error = type(error).__name__
            last = self._dialect.encode_break(500, describe_mistake(error))
        return await live.end(last)


def describe_mistake(error: Exception) -> str:
    """Of ours, for the client; the log has the rest."""
    return f"The gateway failed: {type(error).__name__}."


def word_failure(failure: BotError, replica: Replica | None) -> str:
    """Why no answer came, without what concerns only who runs the gateway: addresses, and hints about settings."""
    if isinstance(failure, ClientError) and not isinstance(failure, (Timeout, StreamCut)):
        return NO_SERVER
    return replica.hide_address(failure.message) if replica else failure.message
