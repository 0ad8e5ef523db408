"""Both drivers of effects under one interface: what is tested of one is tested of the other."""

from __future__ import annotations

import asyncio
from typing import Protocol, TypeVar

from src.transport import Client
from src.transport.async_driver import run_async
from src.transport.async_http import AsyncClient
from src.transport.driver import run
from src.types.effects import Aside, Fetch, Reply

T = TypeVar("T")


class Driver(Protocol):
    def run(self, aside: Aside[T]) -> T: ...
    def close(self) -> None: ...


class ThreadDriver:
    """The arguments are those of Client."""

    def __init__(self, base_url: str, api_key: str = "", **settings) -> None:
        self._client = Client(base_url, api_key, **settings)

    def run(self, aside: Aside[T]) -> T:
        return run(aside, self._client)

    def close(self) -> None:
        self._client.__exit__()


class AsyncioDriver:
    """The arguments are those of AsyncClient. It has an event loop of its own."""

    def __init__(self, base_url: str, api_key: str = "", **settings) -> None:
        self._client = AsyncClient(base_url, api_key, **settings)
        self._loop = asyncio.new_event_loop()

    def run(self, aside: Aside[T]) -> T:
        return self._loop.run_until_complete(run_async(aside, self._client))

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._loop.run_until_complete(self._client.close())
        self._loop.close()


DRIVERS = {"threads": ThreadDriver, "asyncio": AsyncioDriver}


def fetch(method: str = "POST", path: str = "chat/completions", body: bytes | None = b"{}") -> Aside[Reply]:
    """Ask for a whole answer."""
    return (yield Fetch(method, path, body))
