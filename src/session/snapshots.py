"""Earlier contents of files that tools wrote, stored by hash, and restoring them.

The content is stored unchanged, including secrets, as it could not be restored otherwise. Only the user can read the
folder. Contents of a session that was not used for 90 days are removed when another session stores something.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .journal import make_private_folder
from .state import Write

MAX_UNUSED_S = 90 * 24 * 3600.0

RestoreFile = Callable[[Path, "bytes | None"], None]  # writes a file's content; None removes it. Raises OSError


class RestoredFiles(NamedTuple):
    """What happened to each file: restored, removed, or skipped with a reason."""

    restored: list[str]
    removed: list[str]
    skipped: list[tuple[str, str]]


class Snapshots:
    """`folder` is the session's own, beside its journal; `now` tells the age of other sessions' folders."""

    def __init__(self, folder: Path, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now

    def save(self, content: bytes) -> str:
        """Store the content; returns its hash. Raises OSError."""
        name = _hash(content)
        path = self._folder / name
        if not path.exists():
            if not self._folder.exists():
                self._remove_old()
            make_private_folder(self._folder)
            temporary = path.with_suffix(".tmp")
            try:
                with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                    file.write(content)
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        return name

    def _remove_old(self) -> None:
        import shutil  # start-up is measured

        for folder in self._folder.parent.glob(f"*{self._folder.suffix}"):
            with suppress(OSError):  # already removed, or not ours to remove
                journal = folder.with_suffix(".jsonl")
                used = max(each.stat().st_mtime for each in (folder, journal if journal.exists() else folder))
                if self._now() - used > MAX_UNUSED_S:
                    shutil.rmtree(folder)

    def read(self, name: str) -> bytes | None:
        """The stored content; None if it is missing or damaged."""
        with suppress(OSError):
            content = (self._folder / name).read_bytes()
            return content if _hash(content) == name else None
        return None

    def restore(self, writes: Iterable[Write], restore_file: RestoreFile) -> RestoredFiles:
        """Restore every file to before the first of `writes`, unless it was changed since the last one."""
        first: dict[str, Write] = {}
        last: dict[str, Write] = {}
        for write in writes:
            first.setdefault(write.path, write)
            last[write.path] = write
        done = RestoredFiles([], [], [])
        for path, write in first.items():
            if why := self._restore(Path(path), write.before, last[path].after, restore_file, done):
                done.skipped.append((path, why))
        return done

    def _restore(
        self, path: Path, before: str | None, after: str | None, restore_file: RestoreFile, done: RestoredFiles
    ) -> str:
        """Restore one file; returns why not, or an empty string."""
        try:
            now = hash_file(path)
            if now == before:
                return ""
            if now != after:
                kept = f"; its earlier content is in {self._folder / before}" if before else ""
                return f"it has been changed since{kept}"
            content = self.read(before) if before else None
            if before and content is None:
                return "its earlier content was not saved"
            restore_file(path, content)
        except OSError as error:
            return error.strerror or str(error)
        (done.restored if before else done.removed).append(str(path))
        return ""


def _hash(content: bytes) -> str:
    import hashlib  # start-up is measured

    return hashlib.sha256(content).hexdigest()


def hash_file(path: Path) -> str | None:
    """The hash of a file's content; None if there is no file. Raises OSError."""
    try:
        return _hash(path.read_bytes())
    except FileNotFoundError:
        return None
