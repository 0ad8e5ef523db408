"""The servers behind the gateway: which one answers a conversation, whether it is healthy, and what is known of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
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


class Replica:
    """One server. `client` sends to its address; `memory` keeps what is learned of it for all workers.

    `recovers_parser_errors`: see ChatTurn.
    """

    def __init__(self, client: AsyncClient, memory: ServerMemory, *, recovers_parser_errors: bool = True) -> None:
        self.recovers_parser_errors = recovers_parser_errors
        self.client = client
        self.address = client.base_url
        self.root = client.base_url.removesuffix("/v1")
        self.facts = FactStore(time.monotonic)
        self.is_healthy = True
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

    def mark_failed(self) -> None:
        """It did not answer; it may come back as another version."""
        self.is_healthy = False
        self.facts.infos.forget(self.address)

    async def check_health(self) -> None:
        try:
            reply = await self.client.open("GET", "/health", within=HEALTH_TIMEOUT_S)
        except BotError:
            self.mark_failed()
            return
        self.is_healthy = reply.head.status < 500
        with suppress(BotError):
            await reply.release()


class Upstreams:
    """All replicas."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = replicas

    def rank(self, chat: Mapping[str, Any]) -> list[Replica]:
        """The replicas in the order to try: rendezvous hashing over the beginning of the conversation.

        So each turn of a conversation goes to the server whose prefix cache has it, and a server that is added or
        removed moves no other conversations. Those that fail their health checks come last.
        """
        if len(self.replicas) == 1:
            return list(self.replicas)
        messages = chat.get("messages")
        start = messages[:HASHED_MESSAGES] if isinstance(messages, list) else messages
        key = encode_json([chat.get("model"), start])
        return sorted(
            self.replicas,
            key=lambda each: (each.is_healthy, blake2b(each.address.encode() + key, digest_size=8).digest()),
            reverse=True,
        )

    async def watch_health(self) -> None:
        """Check each replica again and again; ends when it is cancelled. One server needs no watch."""
        while len(self.replicas) > 1:
            await asyncio.gather(*(each.check_health() for each in self.replicas))
            await asyncio.sleep(HEALTH_INTERVAL_S)

    async def close(self) -> None:
        for each in self.replicas:
            await each.client.close()
