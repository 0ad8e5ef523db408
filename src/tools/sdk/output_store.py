"""Where every tool's whole output stays, on disk and under a reference, while the model sees what fits.

One file an output, in a folder that only the user may enter. A reference is the file's name; it is random,
so that sessions share the folder and a resumed one still finds what it refers to. What is older than a week,
or beyond what the folder may hold, is removed when the first output of a run is stored, not at start-up.

A full disk never breaks a tool: what could not be stored has no reference, and the model is told so.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...errors import ToolError

LARGEST = 2 * 1024**3  # bytes of one output that are stored
IN_ALL = 8 * 1024**3  # bytes that the folder may hold before the oldest are removed
KEPT_FOR = 7 * 24 * 3600.0  # seconds
REFERENCE = re.compile("o[0-9a-f]{8}")
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
OLD = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Stored(NamedTuple):
    """What a tool returns that stored its output itself, through `Outputs.writer`: the text to show, and where."""

    text: str
    ref: str


class Outputs:
    """The folder, made when it is first needed. `new_ref` gives names; `now` the time by which files grow old."""

    def __init__(
        self,
        folder: Path,
        *,
        largest: int = LARGEST,
        in_all: int = IN_ALL,
        new_ref: Callable[[], str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self._largest = largest
        self._in_all = in_all
        self._new_ref = new_ref or (lambda: f"o{os.urandom(4).hex()}")
        self._now = now
        self._is_tidy = False

    def writer(self) -> Writer:
        """A place for an output that comes in pieces. Raises OSError where nothing can be stored."""
        self._tidy()
        while True:
            ref = self._new_ref()
            try:
                descriptor = os.open(self._folder / ref, NEW, 0o600)
            except FileExistsError:
                continue
            return Writer(ref, os.fdopen(descriptor, "wb"), self._largest)

    def put(self, text: str) -> str:
        """Store a text; its reference, or "" where the disk would not have it."""
        try:
            with closing(self.writer()) as writer:
                writer.write(text.encode("utf-8", "replace"))
        except OSError:
            return ""
        return writer.ref

    def open(self, ref: str) -> BinaryIO:
        """The whole output. Raises ToolError for a reference that leads to none."""
        if not REFERENCE.fullmatch(ref):
            raise ToolError(f"{ref[:40]!a} is not a reference of an output", "It looks like o1a2b3c4d.")
        try:
            return os.fdopen(os.open(self._folder / ref, OLD), "rb")
        except OSError as error:
            raise ToolError(f"there is no output {ref} any more", "Run the tool again.") from error

    def _tidy(self) -> None:
        if self._is_tidy:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        self._is_tidy = True  # not before the folder is there: calls that run together store at the same time
        with suppress(FileNotFoundError):  # another chat tidies up, too
            self._remove_old()

    def _remove_old(self) -> None:
        newest_first = sorted(
            ((entry.stat(follow_symlinks=False), entry.path) for entry in os.scandir(self._folder)),
            key=lambda each: -each[0].st_mtime,
        )
        total = 0
        for state, path in newest_first:
            total += state.st_size
            if total > self._in_all or self._now() - state.st_mtime > KEPT_FOR:
                Path(path).unlink(missing_ok=True)


class Writer:
    """An output being stored. It takes any number of bytes and stores the first `most` of them.

    `ref` names it from the start. `complete` is False once anything could not be stored; nothing is raised then.
    """

    def __init__(self, ref: str, file: BinaryIO, most: int) -> None:
        self.ref = ref
        self.size = 0
        self.complete = True
        self._file = file
        self._most = most

    def write(self, data: bytes) -> None:
        room = self._most - self.size
        try:
            self.size += self._file.write(data[:room])
        except OSError:
            self.complete = False
        self.complete = self.complete and len(data) <= room

    def close(self) -> None:
        try:
            self._file.close()
        except OSError:  # what was still to be written did not fit on the disk
            self.complete = False
