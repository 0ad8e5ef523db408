"""The servers behind the gateway: which one answers a conversation, whether it is healthy, and what is known of it.

A slow server gets less: requests stay with it for longer, and it gets no more than a quarter above the mean of them
(consistent hashing with bounded loads, Mirrokni and others, 2018). At little load each conversation keeps its server.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any

from ..app.state_files import ServerMemory
from ..errors import BotError
from ..negotiation.call_path import CallPath
from ..negotiation.facts import FactStore, ServedModel
from ..providers.wire_json import encode_json
from ..transport.async_http import AsyncClient

HEALTH_INTERVAL_S = 5.0
HEALTH_TIMEOUT_S = 4.0
HASHED_MESSAGES = 2  # at the beginning of a conversation: they stay the same from turn to turn
READY_S = 1.0  # for which an answer about all of them holds
MAX_LOAD = 1.25  # of one server, as a multiple of the mean
SERVER_TROUBLE = 500  # the least status that says so

log = logging.getLogger(__name__.rpartition(".")[0])


class Replica:
    """One server. `client` sends to its address; `memory` keeps what is learned of it for all workers."""

    def __init__(self, client: AsyncClient, memory: ServerMemory) -> None:
        self.client = client
        self.address = client.base_url
        self.root = client.base_url.removesuffix("/v1")
        self.facts = FactStore(time.monotonic)
        self.is_healthy = True
        self.running = 0  # requests of this worker that it has not answered to the end
        self._memory = memory
        self._read_version = 0  # of the file, when it was read last
        self._saved: dict[ServedModel, CallPath] = {}

    def recall(self) -> None:
        """Take over what other workers have learned since the last time."""
        if (version := self._memory.get_version()) == self._read_version:
            return
        self._read_version = version
        for model, release, path in self._memory.list_paths(self.address):
            key = ServedModel(self.address, model, release)
            self._saved[key] = self.facts.paths.update(key, path.join)

    def save(self, key: ServedModel) -> None:
        """Tell other workers what was learned. A file that cannot be written is no reason to fail a request."""
        path = self.facts.paths.get(key)
        if path.is_learned and self._saved.get(key) != path:
            self._saved[key] = path
            with suppress(OSError):
                self._memory.save(self.address, key.model, key.version, path)

    @contextmanager
    def count_running(self) -> Iterator[None]:
        """A request is at work there until the end of the block."""
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1

    def mark_failed(self, reason: str) -> None:
        """It did not answer; it may come back as another version. The log has the reason: clients do not get it."""
        if self.is_healthy:
            log.warning("%s", reason)
        self.is_healthy = False
        self.facts.infos.forget(self.address)

    def hide_address(self, message: str) -> str:
        """The message without where the server is."""
        for name in (self.address, self.root, self.root.partition("://")[2]):
            message = message.replace(name, "the server")
        return message.replace("the", "The", 1) if message.startswith("the server") else message

    def mark_answered(self, status: int) -> None:
        if status < SERVER_TROUBLE and not self.is_healthy:
            log.warning("%s answers again.", self.root)
            self.is_healthy = True

    async def check_health(self) -> bool:
        """Whether it is healthy."""
        try:
            reply = await self.client.open("GET", "/health", within=HEALTH_TIMEOUT_S)
        except BotError as error:
            self.mark_failed(error.message)
            return False
        status = reply.head.status
        if status < SERVER_TROUBLE:
            self.mark_answered(status)
        else:
            self.mark_failed(f"{self.root} answers its health check with HTTP {status}.")
        with suppress(BotError):
            await reply.release()
        return self.is_healthy


class Upstreams:
    """All replicas."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = replicas
        self._check: asyncio.Future[bool] | None = None
        self._checked_at = 0.0

    def rank(self, chat: Mapping[str, Any]) -> list[Replica]:
        """The replicas in the order to try: rendezvous hashing over the beginning of the conversation.

        So each turn of a conversation goes to the server whose prefix cache has it, and a server that is added or
        removed moves no other conversations. Those that have more than their share come later, and last those that fail
        their health checks.
        """
        if len(self.replicas) == 1:
            return list(self.replicas)
        start = chat.get("messages")
        if isinstance(start, list):
            start = start[:HASHED_MESSAGES]
        key = encode_json([chat.get("model"), start])
        healthy = [each for each in self.replicas if each.is_healthy] or self.replicas
        share = math.ceil(MAX_LOAD * (1 + sum(each.running for each in healthy)) / len(healthy))

        def judge(replica: Replica) -> tuple[bool, bool, bytes]:
            digest = blake2b(replica.address.encode() + key, digest_size=8).digest()
            return replica.is_healthy, replica.running < share, digest

        return sorted(self.replicas, key=judge, reverse=True)

    async def check_ready(self) -> bool:
        """Whether one of them answers now. Who asks at the same time, or shortly after, gets the same answer."""
        if self._check is None or (self._check.done() and time.monotonic() - self._checked_at > READY_S):
            self._checked_at = time.monotonic()
            self._check = asyncio.ensure_future(self._check_all())
        return await asyncio.shield(self._check)

    async def _check_all(self) -> bool:
        return any(await asyncio.gather(*(each.check_health() for each in self.replicas)))

    async def watch_health(self) -> None:
        """Check each replica again and again; ends when it is cancelled. One server needs no watch."""
        while len(self.replicas) > 1:
            await self._check_all()
            await asyncio.sleep(HEALTH_INTERVAL_S)

    async def close(self) -> None:
        for each in self.replicas:
            await each.client.close()
