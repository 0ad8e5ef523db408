"""Connections of the asyncio client that the server has closed. tests/faults has what a server can be made to do."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import aiohttp
import pytest

from src.errors import ClientError
from src.transport.async_http import AsyncClient


class Connections:
    """Of a session: the kept ones were closed before anything was written; `is_new`: so was a new one."""

    def __init__(self, kept: int, *, is_new: bool = False) -> None:
        self._left = kept
        self._is_new = is_new

    async def request(self, *_: object, trace_request_ctx: SimpleNamespace, **__: object) -> Any:
        if not self._left and not self._is_new:
            return SimpleNamespace(status=200, headers={}, connection=None)
        self._left -= 1
        trace_request_ctx.has_connected = self._is_new
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")


class ClientOf(AsyncClient):
    def __init__(self, session: Connections) -> None:
        super().__init__("http://127.0.0.1:9/v1")
        self._given = session

    def _open_session(self) -> Any:
        return self._given


def test_kept_connections_that_are_closed_before_a_request_is_written_are_replaced():
    reply = asyncio.run(ClientOf(Connections(2)).open("POST", "/apply-template", b"{}"))
    assert reply.head.status == 200


def test_a_new_connection_that_is_closed_is_told():
    with pytest.raises(ClientError):
        asyncio.run(ClientOf(Connections(0, is_new=True)).open("POST", "/apply-template", b"{}"))
