"""A file of results: a JSON object a line, added by one process at a time and never changed."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import BotError

ROOM_HINT = "What is recorded stays. Make room, and the same command goes on."


class ResultFile:
    """The file, locked as long as it is open; a line that a crash cut off is removed.

    Raises BlockingIOError if another process holds it, and OSError where it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = path.open("a+b", buffering=0)  # a line that does not fit is not written later
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._file.seek(0)
            self.size = self._file.read().rfind(b"\n") + 1  # as it was found, without a torn line
            self._file.truncate(self.size)
        except BaseException:
            self._file.close()
            raise

    def add(self, row: Mapping[str, Any]) -> None:
        """The line is on the disk before this returns. Raises BotError where it cannot be written."""
        # What a model wrote may hold lone surrogates, which other programs refuse with the whole file.
        line = memoryview(json.dumps(row, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        try:
            while line:
                line = line[self._file.write(line) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            raise BotError(f"{self.path.parent}: {error.strerror or error}.", ROOM_HINT) from error

    def close(self) -> None:
        self._file.close()
