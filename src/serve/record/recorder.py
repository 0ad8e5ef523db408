"""Writes calls of the API to a file, in a thread of its own: the event loop waits for no disk.

A disk that is full or too slow costs records, and no client notices. It is told in the log once until it works again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection
from queue import SimpleQueue

from .entry import Redact, encode_entry
from .log_file import LogFile
from .recording import Recording

MAX_WAITING_BYTES = 64 * 1024 * 1024
CLOSE_S = 10.0  # for what waits to be written, when the gateway ends
LOST = "serve.record: %s cannot be written: %s. The gateway goes on; what it answers meanwhile is not recorded."
SLOW = "serve.record: %s is written too slowly. The gateway goes on; some of what it answers is not recorded."
DEEP = "serve.record: a call is not in %s: it is nested too deep to be searched for secrets."
AGAIN = "serve.record: %s is written again; %d calls are not in it."

log = logging.getLogger("src.serve")


class Recorder:
    """`keys`: the names of those whose calls are recorded; none: all. `redact`: see encode_entry."""

    def __init__(self, file: LogFile, redact: Redact | None = None, keys: Collection[str] = ()) -> None:
        self._file = file
        self._redact = redact
        self._keys = keys
        self._queue: SimpleQueue[tuple[Recording, int] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._waiting_bytes = 0
        self._lost = 0  # calls since the file was written last
        self._thread = threading.Thread(target=self._run, name="vllm-bot-record", daemon=True)
        self._thread.start()

    def begin(self, api: str, key: str, request_bytes: int) -> Recording | None:
        """The notes of a call; None for a key whose calls are not recorded."""
        if self._keys and key not in self._keys:
            return None
        return Recording(api, key, time.time(), request_bytes)

    def put(self, recording: Recording) -> None:
        """Write the call, later."""
        size = recording.size
        with self._lock:
            is_slow = self._waiting_bytes + size > MAX_WAITING_BYTES
            if not is_slow:
                self._waiting_bytes += size
                self._queue.put((recording, size))
        if is_slow:
            self._lose(SLOW, self._file.path)

    def close(self) -> None:
        """Write what waits."""
        self._queue.put(None)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            recording, size = item
            try:
                self._write(recording)
            except Exception:
                log.exception("A call was not recorded.")
            with self._lock:
                self._waiting_bytes -= size

    def _write(self, recording: Recording) -> None:
        try:
            self._file.append(encode_entry(recording, self._redact))
        except OSError as error:
            self._lose(LOST, self._file.path, error.strerror or error)
            return
        except RecursionError:  # as deep as a client likes
            self._lose(DEEP, self._file.path)
            return
        with self._lock:
            lost, self._lost = self._lost, 0
        if lost:
            log.warning(AGAIN, self._file.path, lost)

    def _lose(self, message: str, *values: object) -> None:
        """Count a call that is not recorded; the first one is told."""
        with self._lock:
            self._lost += 1
            is_first = self._lost == 1
        if is_first:
            log.warning(message, *values)
