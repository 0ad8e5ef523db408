"""Keep the whole output of each tool on disk under a reference, while the model sees what fits.

Each output is a file in a folder that only the user may enter. The reference is the file's name; it is random, so that
sessions share the folder and a resumed session still finds its outputs. Files older than a week, and the oldest beyond
the size of the folder, are removed when the first output of a run is stored, not at start-up.

A full disk does not fail a tool: an output that could not be stored has no reference, and the model is told so.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from ...errors import ToolError
from ...types.lazy_pattern import LazyPattern

MAX_OUTPUT_BYTES = 2 * 1024**3  # stored of one output
MAX_FOLDER_BYTES = 8 * 1024**3
MAX_AGE_S = 7 * 24 * 3600.0
REFERENCE = LazyPattern("o[0-9a-f]{8}")
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class ToolOutput(Struct, frozen=True):
    """What a tool returns that ran a command, or that stored its output itself: the text to show, and the reference.

    `ref` is empty if nothing was stored; `ending` and `exit_code` as in ToolResult.
    """

    text: str
    ref: str = ""
    ending: str = ""
    exit_code: int | None = None


class Outputs:
    """The folder, made when it is first needed. `new_ref` makes names; `now` is the time in seconds since 1970."""

    def __init__(
        self,
        folder: Path,
        *,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        max_folder_bytes: int = MAX_FOLDER_BYTES,
        new_ref: Callable[[], str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._max_output_bytes = max_output_bytes
        self._max_folder_bytes = max_folder_bytes
        self._new_ref = new_ref or (lambda: f"o{os.urandom(4).hex()}")
        self._now = now
        self._is_ready = False

    def open_writer(self) -> Writer:
        """Store an output that comes in pieces. Raises OSError if nothing can be stored."""
        self._prepare()
        while True:
            ref = self._new_ref()
            try:
                descriptor = os.open(self._folder / ref, NEW_FILE, 0o600)
            except FileExistsError:
                continue
            return Writer(ref, os.fdopen(descriptor, "wb"), self._max_output_bytes)

    def put(self, text: str) -> str:
        """Store a text; returns its reference, or "" if it cannot be stored."""
        try:
            with closing(self.open_writer()) as writer:
                writer.write(text.encode("utf-8", "replace"))
        except OSError:
            return ""
        return writer.ref

    def open(self, ref: str) -> BinaryIO:
        """Open a whole output. Raises ToolError if there is none of that reference."""
        if not REFERENCE.fullmatch(ref):
            raise ToolError(f"{ref[:40]!a} is not a reference of an output", "It looks like o1a2b3c4d.")
        try:
            return os.fdopen(os.open(self._folder / ref, OLD_FILE), "rb")
        except OSError as error:
            raise ToolError(f"there is no output {ref} any more", "Run the tool again.") from error

    def _prepare(self) -> None:
        if self._is_ready:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        self._is_ready = True  # only now: parallel calls store at the same time
        with suppress(FileNotFoundError):  # another chat removed it
            self._remove_old()

    def _remove_old(self) -> None:
        newest_first = sorted(
            ((entry.stat(follow_symlinks=False), entry.path) for entry in os.scandir(self._folder)),
            key=lambda each: -each[0].st_mtime,
        )
        total = 0
        for state, path in newest_first:
            total += state.st_size
            if total > self._max_folder_bytes or self._now() - state.st_mtime > MAX_AGE_S:
                Path(path).unlink(missing_ok=True)


class Writer:
    """An output that is being stored. It takes any number of bytes and stores the first `max_bytes` of them.

    `complete` becomes False if something could not be stored; that raises nothing.
    """

    def __init__(self, ref: str, file: BinaryIO, max_bytes: int) -> None:
        self.ref = ref
        self.size = 0
        self.complete = True
        self._file = file
        self._max_bytes = max_bytes

    def write(self, data: bytes) -> None:
        room = self._max_bytes - self.size
        try:
            self.size += self._file.write(data[:room])
        except OSError:
            self.complete = False
        self.complete = self.complete and len(data) <= room

    def flush(self) -> None:
        """Let what was written be read."""
        try:
            self._file.flush()
        except OSError:
            self.complete = False

    def close(self) -> None:
        try:
            self._file.close()
        except OSError:  # the buffered rest did not fit on the disk
            self.complete = False
