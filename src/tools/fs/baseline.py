"""What the files of the workspace hold before a command, so that its changes can be undone.

`Baseline.refresh` keeps the contents of all files that it has not seen like that before; `find_changes` looks again
after the command. A file whose size, times and inode are the same is not read again, so both cost one lstat(2) for each
file. Contents are in one temporary file, which the kernel removes with this process, however it ends.

Not kept: `.git`, folders that .gitignore ignores and those of caches and installations; a file beyond MAX_FILE_BYTES;
what is beyond MAX_FILES or MAX_KEPT_BYTES. No link is followed, whatever changes meanwhile: folders are opened beneath
the workspace, and files in them by their descriptors.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ...beneath import FOLDER, get_mark, open_beneath, open_top, read_file
from ...types.file_names import FileChange, FileState
from .walk import GIT_FOLDER, IGNORE_FILE, MAX_IGNORE_BYTES, IgnoreFile, is_ignored, read_ignore_file

MAX_FILE_BYTES = 2_000_000
MAX_FILES = 20_000
MAX_KEPT_BYTES = 200_000_000
LEFT_OUT = frozenset({GIT_FOLDER, "node_modules", "__pycache__"})
MARKERS = ("CACHEDIR.TAG", "pyvenv.cfg")  # in a folder of a cache, or of an installed Python
RACY_NS = 50_000_000  # a file that changed so shortly before it was read is read again


class SeenFile(NamedTuple):
    """`mark` changes whenever the file does."""

    mark: tuple[int, ...]
    read_ns: int
    state: FileState


class Baseline:
    """That of one workspace, or of a folder added to it, whose paths are told whole with `before` them.

    `folder` is where the temporary file is.
    """

    def __init__(self, workspace: Path, folder: Path, before: str = "") -> None:
        self._workspace = workspace
        self._folder = folder
        self._before = before
        self._seen: dict[str, SeenFile] = {}
        self._rules: dict[str, tuple[tuple[int, ...], tuple[IgnoreFile, ...]]] = {}
        self._kept: dict[str, tuple[int, int]] = {}  # digest -> place and size in the file
        self._file: BinaryIO | None = None
        self._kept_bytes = 0
        self._is_complete = True

    def refresh(self) -> None:
        """Keep what is there now."""
        self._seen = dict(self._look())

    def find_changes(self) -> tuple[Sequence[FileChange], bool]:
        """What has changed since `refresh`, and whether that is all of it; keep what is there now.

        It is not all where something is not kept, which is not looked at.
        """
        before, was_complete = self._seen, self._is_complete
        self.refresh()
        now = self._seen
        changes = []
        for path in sorted(before.keys() | now.keys()):
            old, new = before.get(path), now.get(path)
            change = FileChange(f"{self._before}{path}", old and old.state, new and new.state)
            if old is not new and change.before != change.after:
                changes.append(change)
        return changes, was_complete and self._is_complete

    def read(self, digest: str) -> bytes | None:
        """The content that was kept; None if there is none."""
        if self._file is None or digest not in self._kept:
            return None
        place, size = self._kept[digest]
        return os.pread(self._file.fileno(), size, place)

    def _look(self) -> Iterator[tuple[str, SeenFile]]:
        """Each file, link and folder with its path in the workspace."""
        waiting: list[tuple[str, tuple[IgnoreFile, ...]]] = [("", ())]
        count, self._is_complete = 0, True
        try:
            root = open_top(self._workspace)
        except OSError:  # it has gone
            return
        try:
            while waiting:
                prefix, rules = waiting.pop()
                for path, seen, below in self._look_into(prefix, rules, root):
                    yield path, seen
                    if below is not None:
                        waiting.append((f"{path}/", below))
                    else:
                        count += 1
                    if count >= MAX_FILES:
                        self._is_complete = False
                        return
        finally:
            os.close(root)

    def _look_into(
        self, prefix: str, rules: tuple[IgnoreFile, ...], root: int
    ) -> Iterator[tuple[str, SeenFile, tuple[IgnoreFile, ...] | None]]:
        """What is in a folder; of each folder that is to be looked into, the rules that hold there."""
        try:
            folder = open_beneath(root, prefix or ".", FOLDER)
        except OSError:  # it has just gone, may not be read, or became a link
            return
        try:
            with os.scandir(folder) as entries:
                inside = {entry.name: entry for entry in entries}
            if prefix and any(name in inside for name in MARKERS):
                return
            if IGNORE_FILE in inside:
                rules += self._read_rules(prefix, inside[IGNORE_FILE], folder)
            for name, entry in inside.items():
                path = f"{prefix}{name}"
                with suppress(OSError, UnicodeEncodeError):
                    path.encode()  # a journal holds no other names
                    if not entry.is_dir(follow_symlinks=False):
                        yield path, self._see(path, entry.stat(follow_symlinks=False), name, folder), None
                    elif name not in LEFT_OUT and not is_ignored(f"{path}/", rules):
                        mode = entry.stat(follow_symlinks=False).st_mode
                        yield path, SeenFile((), 0, FileState(mode, "")), rules
        finally:
            os.close(folder)

    def _read_rules(self, prefix: str, entry: os.DirEntry[str], folder: int) -> tuple[IgnoreFile, ...]:
        try:
            mark = get_mark(entry.stat(follow_symlinks=False))
            remembered = self._rules.get(prefix)
            if remembered is None or remembered[0] != mark:
                content = read_file(IGNORE_FILE, folder, MAX_IGNORE_BYTES) or b""
                remembered = self._rules[prefix] = mark, read_ignore_file(prefix, content)
        except OSError:
            return ()
        return remembered[1]

    def _see(self, path: str, status: os.stat_result, name: str, folder: int) -> SeenFile:
        seen, mark = self._seen.get(path), get_mark(status)
        if seen and seen.mark == mark and seen.read_ns - status.st_mtime_ns > RACY_NS:
            return seen
        read_ns, content, digest = time.time_ns(), None, ""
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(os.readlink(name, dir_fd=folder))
        elif stat.S_ISREG(status.st_mode):
            with suppress(OSError):  # what may not be read is there
                content = read_file(name, folder, MAX_FILE_BYTES)
        if content is not None:
            digest = self._keep(content)
        return SeenFile(mark, read_ns, FileState(status.st_mode, digest or f"?{mark}"))

    def _keep(self, content: bytes) -> str:
        """Keep the content; returns its digest, "" if there is no room."""
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._kept:
            if self._kept_bytes + len(content) > MAX_KEPT_BYTES:
                return ""
            try:
                if self._file is None:
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115 - kept open
                    weakref.finalize(self, self._file.close)
                os.pwrite(self._file.fileno(), content, self._kept_bytes)
            except OSError:  # the disk is full
                return ""
            self._kept[digest] = self._kept_bytes, len(content)
            self._kept_bytes += len(content)
        return digest


RecordChanges = Callable[..., None]  # (changes, read: digest -> content, is_complete=) records them


class FileWatch:
    """Finds what calls change in files. `has_jobs`: whether commands in the background run, which change them, too."""

    def __init__(self, baselines: Sequence[Baseline], has_jobs: Callable[[], bool]) -> None:
        self._baselines = baselines
        self._has_jobs = has_jobs
        self._lock = threading.Lock()
        self._calls = 0  # that run now; subagents run several at the same time

    @contextmanager
    def watch(self, record: RecordChanges, *, only_files: bool) -> Iterator[None]:
        """Record what changes during a call. `only_files`: nothing else can change."""
        with self._lock:
            if self._calls or self._has_jobs():  # what they have changed since the last look
                self._record(record)
            else:
                self._refresh()
            self._calls += 1
        try:
            yield
        finally:
            with self._lock:
                self._calls -= 1
                self._record(record, only_files=only_files)

    @contextmanager
    def watch_jobs(self, record: RecordChanges) -> Iterator[None]:
        """Record what commands of before change during an answer, as its work."""
        with self._lock:
            self._refresh()
        try:
            yield
        finally:
            with self._lock:
                self._record(record)

    def _refresh(self) -> None:
        for each in self._baselines:
            each.refresh()

    def _read(self, digest: str) -> bytes | None:
        contents = (each.read(digest) for each in self._baselines)
        return next((content for content in contents if content is not None), None)

    def _record(self, record: RecordChanges, *, only_files: bool = False) -> None:
        looks = [each.find_changes() for each in self._baselines]
        changes = [change for found, _ in looks for change in found]
        are_all = all(is_all for _, is_all in looks)
        if changes or only_files:
            record(changes, self._read, is_complete=are_all and only_files)
