"""JSON-RPC messages, one a line. What is no message is answered with an error, and the program goes on.

The SDK's own transport takes any JSON for a message, and ends at one that is no object.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

from acp.meta import AGENT_METHODS

from ..app.pipes import LineTooLong, read_line

PARSE_ERROR, INVALID_REQUEST = -32700, -32600
# Methods of the protocol that the SDK does not route; as extensions they reach EditorAgent.ext_method.
UNROUTED = frozenset({AGENT_METHODS["session_delete"]})


class NoMessage(Exception):
    """`answer` is the error to send for it."""

    def __init__(self, code: int, text: str, request_id: object = None) -> None:
        super().__init__(text)
        self.answer = {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": text}}


def read_message(line: bytes) -> dict[str, Any]:
    """The request, notification or answer on a line. Raises NoMessage."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise NoMessage(PARSE_ERROR, f"Parse error: {error}") from error
    if not isinstance(message, dict):
        raise NoMessage(INVALID_REQUEST, "Invalid request: a message is an object; there are no batches")
    request_id = message.get("id")
    is_id = isinstance(request_id, (int, str)) and not isinstance(request_id, bool)
    if request_id is not None and not is_id:
        raise NoMessage(INVALID_REQUEST, "Invalid request: its id is no number and no text")
    if "method" in message:
        if not isinstance(message["method"], str):
            raise NoMessage(INVALID_REQUEST, "Invalid request: its method is no text", request_id)
        if message["method"] in UNROUTED:
            message["method"] = f"_{message['method']}"
    elif not message.keys() & {"result", "error"}:
        raise NoMessage(INVALID_REQUEST, "Invalid request: it has no method", request_id)
    elif not isinstance(message.get("error", {}), dict):
        # The request that it answers has failed, and waits no more. The SDK reads objects only.
        message["error"] = {"message": f"The editor answered with the error {json.dumps(message['error'])[:200]}"}
    return message


class JsonLines:
    """A transport of the SDK on two streams, which belong to whoever opened them."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sending = asyncio.Lock()

    async def send(self, message: dict[str, Any]) -> None:
        async with self._sending:
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None at the end of the input."""
        while True:
            try:
                line = await read_line(self._reader)
                if not line:
                    return None
                if line.strip():
                    return read_message(line)
            except LineTooLong:
                await self.send(NoMessage(PARSE_ERROR, "Parse error: the line is too long").answer)
            except NoMessage as error:
                await self.send(error.answer)

    async def close(self) -> None:
        with suppress(ConnectionError):
            await self._writer.drain()
