"""The whole program on the asynchronous driver: a model that steps through it, in an event loop of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from src.app.async_model import AsyncModel, make_async_client
from src.app.connect import Connections
from src.app.endpoint import make_core
from src.model import ModelCore
from src.transport.async_driver import drive_async, run_async
from src.transport.async_http import AsyncClient


class BridgedModel:
    """An AsyncModel as a Model."""

    def __init__(self, loop: asyncio.AbstractEventLoop, client: AsyncClient, core: ModelCore) -> None:
        self._loop = loop
        self._client = client
        self._model = AsyncModel(client, core)
        self._core = core

    def __getattr__(self, name):
        return getattr(self._core, name)

    def __setattr__(self, name, value):
        if name.startswith("_"):
            super().__setattr__(name, value)
        else:
            setattr(self._core, name, value)

    def _run(self, aside):
        return self._loop.run_until_complete(run_async(aside, self._client))

    @property
    def context_length(self):
        return self._run(self._core.context_length())

    @property
    def server_version(self):
        return self._run(self._core.server.version())

    def measure_fill(self, *given, **options):
        return self._run(self._core.measure_fill(*given, **options))

    @property
    def core(self):
        return self._core

    def respond(self, *given):
        yield from self._step(self._model.respond(*given))

    def drive(self, steps, on_silence=None):
        yield from self._step(drive_async(steps, self._client))

    def _step(self, events):
        try:
            while True:
                try:
                    event = self._loop.run_until_complete(anext(events))
                except StopAsyncIteration:
                    return
                yield event
        finally:
            self._loop.run_until_complete(events.aclose())


@contextmanager
def bridging(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every model that the program makes runs on the asynchronous driver."""
    loop, clients = asyncio.new_event_loop(), []

    def make_model(self, name, *, client=None, within=None, answer_schema=None):
        async def sleep(seconds):
            self.sleep(seconds)

        clients.append(make_async_client(self.settings, within, sleep=sleep))
        core = make_core(self.settings, name, answer_schema=answer_schema, is_retried=within is None)
        return BridgedModel(loop, clients[-1], core)

    with monkeypatch.context() as patched:
        patched.setattr(Connections, "make_model", make_model)
        try:
            yield
        finally:
            for each in clients:
                loop.run_until_complete(each.close())
            loop.close()
