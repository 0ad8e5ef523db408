"""What the gateway remembers of its answers, in memory only: bytes under digests, bounded in every way.

One process keeps it: the only worker, or the parent of several, which ask it over a socket in a folder of their own.
What is longest unused goes first. Nothing is written to a disk, and all of it goes with the gateway.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

MAX_BYTES = 64_000_000  # of answers and of all workers' histories
HISTORIES_BYTES = 8_000_000  # of a worker, where there are one or two
ALL_HISTORIES_BYTES = 2 * HISTORIES_BYTES
MAX_ENTRIES = 150_000
MAX_AGE_S = 6 * 3600.0  # unused
MAX_CANDIDATES = 4
ENTRY_BYTES = 400  # of a key, its place and its lists, beside the values
SOCKET_NAME = "answers.sock"
_SIZE_BYTES = 4

T = TypeVar("T")


class MemoryShare(Struct, frozen=True):
    """In bytes: for the answers, and for the histories of each worker."""

    answers: int
    histories: int


def share_memory(workers: int) -> MemoryShare:
    """MAX_BYTES, shared out."""
    histories = min(HISTORIES_BYTES, ALL_HISTORIES_BYTES // workers)
    return MemoryShare(MAX_BYTES - workers * histories, histories)


log = logging.getLogger(__name__.rpartition(".")[0])


class _Entry(Struct, Generic[T]):
    value: T
    size: int
    used_at: float


class BoundedStore(Generic[T]):
    """Values under digests, of which the longest unused go first. `read_clock` gives seconds."""

    def __init__(
        self,
        max_bytes: int,
        max_entries: int = MAX_ENTRIES,
        max_age: float = MAX_AGE_S,
        read_clock: Callable[[], float] = monotonic,
    ) -> None:
        self.size = 0  # in bytes, with what Python adds
        self._max_bytes = max_bytes
        self._max_entries = max_entries
        self._max_age = max_age
        self._read_clock = read_clock
        self._entries: OrderedDict[bytes, _Entry[T]] = OrderedDict()  # the longest unused first

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, keys: Sequence[bytes]) -> list[T | None]:
        now = self._read_clock()
        self._forget_old(now)
        entries, values = self._entries, list[T | None]()
        for key in keys:
            value: T | None = None
            if entry := entries.get(key):
                value, entry.used_at = entry.value, now
                entries.move_to_end(key)
            values.append(value)
        return values

    def put(self, key: bytes, value: T, size: int) -> None:
        """In place of what is there. `size`: of the value in bytes; one beyond the bound is not kept."""
        self.drop(key)
        size += ENTRY_BYTES
        if size > self._max_bytes:
            return
        now = self._read_clock()
        self._entries[key] = _Entry(value, size, now)
        self.size += size
        self._forget_old(now)
        while self.size > self._max_bytes or len(self._entries) > self._max_entries:
            self.drop(next(iter(self._entries)))

    def _forget_old(self, now: float) -> None:
        while self._entries and now - next(iter(self._entries.values())).used_at > self._max_age:
            self.drop(next(iter(self._entries)))

    def drop(self, key: bytes) -> None:
        if entry := self._entries.pop(key, None):
            self.size -= entry.size


class AnswerMemory:
    """A key has several values where answers differ in what the key does not tell."""

    def __init__(
        self,
        max_bytes: int = share_memory(1).answers,
        max_entries: int = MAX_ENTRIES,
        max_age: float = MAX_AGE_S,
        read_clock: Callable[[], float] = monotonic,
    ) -> None:
        self._store = BoundedStore[tuple[bytes, ...]](max_bytes, max_entries, max_age, read_clock)

    def __len__(self) -> int:
        return len(self._store)

    @property
    def size(self) -> int:
        """In bytes, with what Python adds."""
        return self._store.size

    def find(self, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]:
        """The values of each key, the oldest first."""
        return [values or () for values in self._store.find(keys)]

    def keep(self, key: bytes, value: bytes) -> None:
        """Add a value. Of many, the last ones stay: never only one, which would look certain."""
        candidates = self._store.find([key])[0] or ()
        self._put(key, (*(each for each in candidates if each != value), value)[-MAX_CANDIDATES:])

    def replace(self, key: bytes, value: bytes, old_key: bytes = b"") -> None:
        """Keep one value, in place of what is kept under `old_key`."""
        self._store.drop(old_key)
        self._put(key, (value,))

    def _put(self, key: bytes, values: tuple[bytes, ...]) -> None:
        self._store.put(key, values, sum(map(len, values)))


class Memory(Protocol):
    """An AnswerMemory, here or in another process. Where that is gone, nothing is found and nothing kept."""

    async def find(self, keys: Sequence[bytes]) -> list[tuple[bytes, ...]]: ...

    async def keep(self, key: bytes, value: bytes) -> None: ...

    async def replace(self, key: bytes, value: bytes, old_key: bytes = b"") -> None: ...

    def close(self) -> None: ...


class OwnMemory:
    """Of the only worker."""

    def __init__(self) -> None:
        self.memory = AnswerMemory()

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
        entries = await self._ask("find", list(keys)) or [()] * len(keys)
        return [*map(tuple, entries)]

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


def serve_memory(folder: Path, max_bytes: int = share_memory(2).answers) -> None:
    """Serve a memory to the workers, in a thread of this process, until it ends. It listens when this returns."""
    listener = socket.socket(socket.AF_UNIX)  # here: until the thread begins, an interrupt may remove the folder
    listener.bind(str(folder / SOCKET_NAME))
    listener.listen()
    Thread(target=_run, args=(listener, AnswerMemory(max_bytes)), daemon=True).start()


def _run(listener: socket.socket, memory: AnswerMemory) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they wake the thread that waits for workers
    asyncio.run(_serve(memory, listener))


async def _serve(memory: AnswerMemory, listener: socket.socket) -> None:
    calls: dict[str, Callable[..., Any]] = {"find": memory.find, "keep": memory.keep, "replace": memory.replace}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                name, *arguments = await _receive(reader)
                await _send(writer, calls[name](*arguments))
        except (OSError, asyncio.IncompleteReadError):  # the worker has ended
            writer.close()

    server = await asyncio.start_unix_server(answer, sock=listener)
    async with server:
        await server.serve_forever()


async def _send(writer: asyncio.StreamWriter, value: object) -> None:
    data = msgspec.msgpack.encode(value)
    writer.write(len(data).to_bytes(_SIZE_BYTES, "big") + data)
    await writer.drain()


async def _receive(reader: asyncio.StreamReader) -> Any:
    size = int.from_bytes(await reader.readexactly(_SIZE_BYTES), "big")
    return msgspec.msgpack.decode(await reader.readexactly(size))
