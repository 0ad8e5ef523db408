"""Protected files are recorded before a command, and restored after it.

A mount cannot guard a path that does not exist yet, and Landlock cannot exclude a part of a folder that it allows. So
`Snapshot.take` records each protected path, and `Snapshot.restore`, once no process of the command is left, removes
what was created and restores what was changed. Contents are read again only if the file's inode, size or times
changed. No link is followed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Union

Remove = Callable[[Path], object]
MAX_SAVED_BYTES = 10_000_000  # of one file; a larger one is not restored


class SavedEntry(NamedTuple):
    """A file, link or folder as it was. `mark` changes whenever it does: see `_get_mark`."""

    mark: tuple[int, ...]
    content: Union[bytes, str, Mapping[str, SavedEntry], None]  # a file's, a link's target, a folder's; None: not saved


class RestoreResult(NamedTuple):
    """Paths relative to the workspace: those restored, and those that could not be, each with the reason."""

    restored: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Snapshot:
    """The protected files of one workspace. One command runs between `take` and `restore`."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._saved: dict[Path, SavedEntry | None] = {}
        self._parents: dict[Path, SavedEntry | None] = {}

    def take(self, paths: Iterable[Path]) -> None:
        """Record what is at each path and on the way to it, or that nothing is. Raises OSError."""
        paths = [path for path in paths if path != self._top and path.is_relative_to(self._top)]
        parents = {each for path in paths for each in list_parents(self._top, path)}
        leaves = sorted(set(paths) - parents)
        self._parents = {parent: _save(parent, None, whole=False) for parent in sorted(parents)}
        self._saved = {path: _save(path, self._saved.get(path)) for path in leaves if not self._is_unreachable(path)}

    def restore(self, remove: Remove) -> RestoreResult:
        """Call it once no process of the command is left. `remove` takes away what was not there before."""
        restored, failed = [], []
        for path, was in (*self._parents.items(), *self._saved.items()):  # parents come first
            try:
                if path in self._parents:
                    changed = self._restore_parent(path, was, remove)
                else:
                    changed = not self._is_unreachable(path) and _restore_path(path, was, remove)
                if changed:
                    restored.append(str(path.relative_to(self._top)))
            except OSError as error:
                failed.append(f"{path.relative_to(self._top)}: {error.strerror}")
        return RestoreResult(tuple(restored), tuple(failed))

    def _restore_parent(self, parent: Path, was: SavedEntry | None, remove: Remove) -> bool:
        """A folder on the way may be made and removed; a link or a file in its place would lead elsewhere."""
        if was is None or stat.S_ISDIR(was.mark[1]):
            if _get_kind(parent) in ("nothing", "folder"):
                return False
            was = None
        elif _get_mark(parent) == was.mark:
            return False
        _restore(parent, was, remove)
        return True

    def _is_unreachable(self, path: Path) -> bool:
        """Whether a link or a file is on the way to the path: then it is not in the workspace."""
        return any(_get_kind(parent) in ("link", "file") for parent in list_parents(self._top, path))


@lru_cache(4096)  # called several times for each command
def list_parents(top: Path, path: Path) -> tuple[Path, ...]:
    """The folders between `top` and a path below it, the outermost first."""
    return tuple(each for each in reversed(path.parents) if each != top and each.is_relative_to(top))


def _save(path: Path, known: SavedEntry | None, *, whole: bool = True) -> SavedEntry | None:
    mark = _get_mark(path)
    if not mark:
        return None
    kind = _get_kind(path)
    if kind == "link":
        return SavedEntry(mark, str(path.readlink()))
    if kind == "folder":
        before = known.content if known and isinstance(known.content, Mapping) else {}
        inside = {name: _save(path / name, before.get(name)) for name in (_list_names(path) if whole else ())}
        return SavedEntry(mark, {name: entry for name, entry in inside.items() if entry})
    if known and known.mark == mark:
        return known
    readable = kind == "file" and mark[2] <= MAX_SAVED_BYTES and os.access(path, os.R_OK)
    return SavedEntry(mark, path.read_bytes() if readable else None)


def _restore_path(path: Path, was: SavedEntry | None, remove: Remove) -> bool:
    if not _has_changed(path, was):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    _restore(path, was, remove)
    return True


def _has_changed(path: Path, was: SavedEntry | None) -> bool:
    mark = _get_mark(path)
    if was is None or not mark or not isinstance(was.content, Mapping):
        return mark != (was.mark if was else ())
    if _get_kind(path) != "folder" or mark[1] != was.mark[1] or _list_names(path) != sorted(was.content):
        return True
    return any(_has_changed(path / name, entry) for name, entry in was.content.items())


def _restore(path: Path, was: SavedEntry | None, remove: Remove) -> None:
    """Replace what is at the path by what was there. Raises OSError if its content was not saved."""
    if was is not None and was.content is None:
        raise OSError(errno.ENODATA, "its content was not saved")
    if _get_kind(path) != "nothing":
        remove(path)
    if was is None:
        return
    if isinstance(was.content, str):
        path.symlink_to(was.content)
    elif isinstance(was.content, bytes):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(was.content)
            os.fchmod(file.fileno(), stat.S_IMODE(was.mark[1]))
        os.utime(path, ns=(was.mark[3], was.mark[3]))
    elif was.content is not None:
        path.mkdir()
        for name, entry in was.content.items():
            if entry.content is not None:
                _restore(path / name, entry, remove)
        path.chmod(stat.S_IMODE(was.mark[1]))


def _list_names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def _get_mark(path: Path) -> tuple[int, ...]:
    """Inode, mode, size, times; empty if nothing is there. A command can set back the one time, but not the other."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    if stat.S_ISDIR(found.st_mode):
        return (found.st_ino, found.st_mode)
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _get_kind(path: Path) -> str:
    mark = _get_mark(path)
    if not mark:
        return "nothing"
    return "link" if stat.S_ISLNK(mark[1]) else "folder" if stat.S_ISDIR(mark[1]) else "file"
