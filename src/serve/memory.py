"""What the gateway remembers of its answers, in memory only: bytes under digests, bounded in every way.

One process keeps it: the only worker, or the parent of several, which ask it over a socket in a folder of their own.
What is longest unused goes first. Nothing is written to a disk, and all of it goes with the gateway.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, NamedTuple, Protocol

import msgspec

MAX_BYTES = 64 * 1024 * 1024
MAX_ENTRIES = 150_000
MAX_AGE_S = 6 * 3600.0  # unused
MAX_CANDIDATES = 4
ENTRY_BYTES = 400  # of a key, its place and its lists, beside the values
SOCKET_NAME = "answers.sock"
_SIZE_BYTES = 4

log = logging.getLogger(__name__.rpartition(".")[0])


class _Entry(NamedTuple):
    values: tuple[bytes, ...]
    used_at: float
    size: int


class AnswerMemory:
    """`read_clock` gives seconds. A key has several values where answers differ in what the key does not tell."""

    def __init__(
        self,
        max_bytes: int = MAX_BYTES,
        max_entries: int = MAX_ENTRIES,
        max_age: float = MAX_AGE_S,
        read_clock: Callable[[], float] = monotonic,
    ) -> None:
        self.size = 0  # in bytes, with what Python adds
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._max_age = max_age
        self._read_clock = read_clock
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        """The values of each key, the oldest first."""
        now = self._read_clock()
        self._forget_old(now)
        found = []
        for key in keys:
            entry = self._entries.get(key)
            if entry:
                self._entries[key] = entry._replace(used_at=now)
                self._entries.move_to_end(key)
            found.append(entry.values if entry else ())
        return found

    def keep(self, key: bytes, value: bytes) -> None:
        """Add a value. Of many, the last ones stay: never only one, which would look certain."""
        known = self._entries[key].values if key in self._entries else ()
        values = (*(each for each in known if each != value), value)[-MAX_CANDIDATES:]
        self._put(key, values)

    def replace(self, key: bytes, value: bytes, old_key: bytes = b"") -> None:
        """Keep one value, in place of what is kept under `old_key`."""
        self._drop(old_key)
        self._put(key, (value,))

    def _put(self, key: bytes, values: tuple[bytes, ...]) -> None:
        self._drop(key)
        size = ENTRY_BYTES + sum(map(len, values))
        if size > self._max_bytes:
            return
        now = self._read_clock()
        self._entries[key] = _Entry(values, now, size)
        self.size += size
        self._forget_old(now)
        while self.size > self._max_bytes or len(self._entries) > self._max_entries:
            self._drop(next(iter(self._entries)))

    def _forget_old(self, now: float) -> None:
        while self._entries and now - next(iter(self._entries.values())).used_at > self._max_age:
            self._drop(next(iter(self._entries)))

    def _drop(self, key: bytes) -> None:
        if entry := self._entries.pop(key, None):
            self.size -= entry.size


class Memory(Protocol):
    """An AnswerMemory, here or in another process. Where that is gone, nothing is found and nothing kept."""

    async def find(self, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]: ...

    async def keep(self, key: bytes, value: bytes) -> None: ...

    async def replace(self, key: bytes, value: bytes, old_key: bytes = b"") -> None: ...

    def close(self) -> None: ...


class OwnMemory:
    """Of the only worker."""

    def __init__(self, memory: AnswerMemory | None = None) -> None:
        self.memory = memory or AnswerMemory()

    async def find(self, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        return self.memory.find(keys)

    async def keep(self, key: bytes, value: bytes) -> None:
        self.memory.keep(key, value)

    async def replace(self, key: bytes, value: bytes, old_key: bytes = b"") -> None:
        self.memory.replace(key, value, old_key)

    def close(self) -> None:
        """Nothing is open."""


class SharedMemory:
    """Of the parent, which serves it in `folder`. One question at a time."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / SOCKET_NAME
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._lock = asyncio.Lock()

    async def find(self, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        found = await self._ask("find", list(keys))
        return [tuple(each) for each in found] if found else [()] * len(keys)

    async def keep(self, key: bytes, value: bytes) -> None:
        await self._ask("keep", key, value)

    async def replace(self, key: bytes, value: bytes, old_key: bytes = b"") -> None:
        await self._ask("replace", key, value, old_key)

    async def _ask(self, name: str, *arguments: object) -> Any:
        async with self._lock:
            try:
                if self._streams is None:
                    self._streams = await asyncio.open_unix_connection(str(self._path))
                reader, writer = self._streams
                await _send(writer, [name, *arguments])
                return await _receive(reader)
            except (OSError, asyncio.IncompleteReadError):
                self.close()
                log.debug("The memory of answers cannot be reached.")
                return None
            except asyncio.CancelledError:  # an answer may be on its way that is for nobody
                self.close()
                raise

    def close(self) -> None:
        """Leave the parent; the next question opens another connection."""
        if self._streams is not None:
            self._streams[1].close()
        self._streams = None


def serve_memory(folder: Path) -> None:
    """Serve a memory to the workers, in a thread of this process, until it ends."""
    Thread(target=_run, args=(folder / SOCKET_NAME,), daemon=True).start()


def _run(path: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they wake the thread that waits for workers
    asyncio.run(_serve(AnswerMemory(), path))


async def _serve(memory: AnswerMemory, path: Path) -> None:
    calls: dict[str, Callable[..., Any]] = {"find": memory.find, "keep": memory.keep, "replace": memory.replace}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                name, *arguments = await _receive(reader)
                await _send(writer, calls[name](*arguments))
        except (OSError, asyncio.IncompleteReadError):  # the worker has ended
            writer.close()

    server = await asyncio.start_unix_server(answer, str(path))
    async with server:
        await server.serve_forever()


async def _send(writer: asyncio.StreamWriter, value: object) -> None:
    data = msgspec.msgpack.encode(value)
    writer.write(len(data).to_bytes(_SIZE_BYTES, "big") + data)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
    return msgspec.msgpack.decode(await reader.readexactly(size))
