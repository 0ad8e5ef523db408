"""A file of whole lines that several processes add to, and that is put aside when it is large.

Every line is written under a lock on the file, and what was written of a line that did not fit is taken back. A process
that was killed in the middle of a line leaves a part of one: the next line begins behind a line end.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

MODE = 0o600


class LogFile:
    """`max_bytes`: of a file, before a new one is begun. `count`: how many are kept: FILE, FILE.1, FILE.2 and on.

    A line that is longer than `max_bytes` has a file of its own.
    """

    def __init__(self, path: Path, max_bytes: int, count: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._count = count

    def check(self) -> None:
        """Raises OSError where nothing can be written."""
        if self.path.exists() and not self.path.is_file():
            raise OSError(None, "it is no ordinary file", str(self.path))
        with self._open():
            pass

    def append(self, line: bytes) -> None:
        """Add a line, which ends in a line end. Raises OSError, and then nothing of it was added."""
        while True:
            with self._open() as descriptor:
                size = os.fstat(descriptor).st_size
                if size and size + len(line) > self._max_bytes:
                    self._rotate()
                    continue
                _write(descriptor, line, size)
                return

    @contextmanager
    def _open(self) -> Iterator[int]:
        """The file, locked."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, MODE)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if not self._is_current(descriptor):
                    continue
                if stat.S_IMODE(os.fstat(descriptor).st_mode) & ~MODE:
                    self._close_to_others(descriptor)
                yield descriptor
                return
            finally:
                os.close(descriptor)

    def _close_to_others(self, descriptor: int) -> None:
        """A file of another user is refused: what is written is the user's alone. Raises OSError."""
        try:
            os.fchmod(descriptor, MODE)
        except PermissionError as error:
            what = "others may read it, and its mode cannot be changed"
            raise PermissionError(error.errno, what, str(self.path)) from error

    def _is_current(self, descriptor: int) -> bool:
        """Whether it is still the file of that name: another process may have put it aside before it was locked."""
        try:
            return os.path.samestat(os.fstat(descriptor), self.path.stat())
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        """Put the file aside, of a link the one it leads to. The oldest one goes."""
        current = Path(os.path.realpath(self.path))
        if self._count == 1:
            current.unlink()
            return
        files = [current, *(current.with_name(f"{current.name}.{number}") for number in range(1, self._count))]
        for newer, older in reversed([*pairwise(files)]):
            if newer.exists():
                newer.replace(older)


def _write(descriptor: int, line: bytes, size: int) -> None:
    """`size`: of the file."""
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        line = b"\n" + line
    rest = memoryview(line)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise
