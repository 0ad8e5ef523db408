"""Contents of files before and after tools wrote them, stored by hash, and restoring them.

The content is stored unchanged, including secrets, as it could not be restored otherwise. Only the user can read the
folder. Contents of a session that was not used for 90 days are removed when another session stores something. Files are
read where they were recorded: a link that is on the way now is not followed.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from operator import attrgetter
from pathlib import Path

from msgspec import Struct

from ..beneath import read_beneath
from ..types.file_names import FileChange, FileState
from ..types.messages import JSON
from .journal import make_private_folder
from .state import Write

ReadContent = Callable[[str], "bytes | None"]  # of a digest
MAX_UNUSED_S = 90 * 24 * 3600.0

# The state of what is at a path, and the content of a file or the target of a link; else None. Raises OSError.
ReadFile = Callable[[Path], "tuple[os.stat_result, bytes | None]"]

# Makes a path what it was: a file, link or folder by its mode (0: a file whose mode is not known) with this content.
# With neither it removes what is there. Raises OSError.
RestoreFile = Callable[[Path, "bytes | None", int], None]


class RestoredFiles(Struct, frozen=True):
    """What happened to each file: restored, removed, or skipped with a reason."""

    restored: list[str]
    removed: list[str]
    skipped: list[tuple[str, str]]


class Snapshots:
    """`folder` is the session's own, beside its journal; the files are those below `root`.

    `now` tells the age of other sessions' folders. `read_file` may be replaced, where files are not read from the disk.
    """

    def __init__(self, folder: Path, root: Path, now: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._now = now
        self.read_file: ReadFile = partial(_read, root)

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

    def save_file(self, path: Path) -> str | None:
        """Store what is in the file; returns its hash, None if there is no file, "" if that cannot be done."""
        try:
            status, content = self.read_file(path)
            return self.save(content) if content is not None and stat.S_ISREG(status.st_mode) else ""
        except FileNotFoundError:
            return None
        except OSError:
            return ""

    def save_changes(self, files: Iterable[FileChange], root: Path, read: ReadContent) -> list[JSON]:
        """Store the contents before and after; returns a row for each file. Raises OSError."""
        rows: list[JSON] = []
        for change in files:
            row: list[JSON] = [str(root / change.path)]
            for state in (change.before, change.after):
                if state is None:
                    row.append(None)
                    continue
                row.append([state.mode, state.digest])
                if (content := read(state.digest)) is not None:
                    self.save(content)
            rows.append(row)
        return rows

    def _remove_old(self) -> None:
        import shutil  # start-up is measured

        for folder in self._folder.parent.glob(f"*{self._folder.suffix}"):
            with suppress(OSError):  # already removed, or not ours to remove
                places = [each for each in (folder, folder.with_suffix(".jsonl")) if each.exists()]
                used = max(each.stat().st_mtime for each in places)
                if self._now() - used > MAX_UNUSED_S:
                    shutil.rmtree(folder)

    def read(self, name: str) -> bytes | None:
        """The stored content; None if it is missing or damaged, and of a folder, whose digest is empty."""
        with suppress(OSError):
            content = (self._folder / name).read_bytes()
            return content if _hash(content) == name else None
        return None

    def restore(self, writes: Iterable[Write], restore_file: RestoreFile, *, forward: bool = False) -> RestoredFiles:
        """Restore every file to before the first of `writes`, or `forward` to after the last one.

        A file that was changed since is skipped.
        """
        ends: dict[str, tuple[FileState | None, FileState | None]] = {}
        for write in sorted(writes, key=attrgetter("path")):
            before, _ = ends.get(write.path, (write.before, None))
            ends[write.path] = before, write.after
        if forward:
            ends = {path: (after, before) for path, (before, after) in ends.items()}
        new = [path for path, (wanted, _) in ends.items() if wanted is None]
        done = RestoredFiles([], [], [])
        for path in [*reversed(new), *(path for path in ends if ends[path][0])]:  # a folder is removed when it is empty
            if why := self._restore(Path(path), *ends[path], restore_file, done):
                done.skipped.append((path, why))
        return done

    def _restore(
        self,
        path: Path,
        wanted: FileState | None,
        expected: FileState | None,
        restore_file: RestoreFile,
        done: RestoredFiles,
    ) -> str:
        """Restore one file; returns why not, or an empty string."""
        try:
            now = read_state(path, self.read_file)
            if is_same(now, wanted):
                return ""
            goal = wanted or FileState(0, "")
            content = self.read(goal.digest)
            if not is_same(now, expected):
                return self._explain_change(content, goal.digest)
            if wanted and content is None and not stat.S_ISDIR(goal.mode):
                return "its earlier content was not saved"
            restore_file(path, content, goal.mode)
        except OSError as error:
            return error.strerror or str(error)
        (done.restored if wanted else done.removed).append(str(path))
        return ""

    def _explain_change(self, content: bytes | None, digest: str) -> str:
        if content is None:
            return "it has been changed since"
        return f"it has been changed since; its earlier content is in {self._folder / digest}"


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read(root: Path, path: Path) -> tuple[os.stat_result, bytes | None]:
    """Read what a record names. In a folder that is added to the workspace `root` that is a whole path without links.

    Whether it may be written is up to what restores it.
    """
    top = root if path.is_relative_to(root) else Path(path.anchor)
    return read_beneath(top, str(path.relative_to(top)))


def read_state(path: Path, read_file: ReadFile) -> FileState | None:
    """What is at the path; None if nothing is. Raises OSError."""
    try:
        status, content = read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    if content is not None:
        return FileState(status.st_mode, _hash(content))
    return FileState(status.st_mode, "" if stat.S_ISDIR(status.st_mode) else "?")


def is_same(now: FileState | None, recorded: FileState | None) -> bool:
    """Whether what is there is what was recorded, of which the mode may not be known."""
    if now is None or recorded is None:
        return now is recorded
    return now.digest == recorded.digest and (not recorded.mode or recorded.mode == now.mode)
