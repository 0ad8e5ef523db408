"""What no command may change stays as it is: looked at before a command, put back after it.

No mount can guard what does not exist yet, and Landlock cannot take a part out of what it allows. So
`Keeper.look` takes down each protected path, and `Keeper.put_back`, once nothing of the command is alive,
removes what came into being and restores what was changed. Contents are read again only where the file
system says that they changed (inode, size, times). No link is followed.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, Union

MOST = 10_000_000  # bytes of a protected file that are kept


class Entry(NamedTuple):
    """A file, link or folder as it was. `mark` is what the file system says of its last change."""

    mark: tuple[int, ...]
    content: Union[bytes, str, Mapping[str, Entry], None]  # a file's, a link's target, a folder's; None: not kept


class PutBack(NamedTuple):
    """Paths relative to the workspace: what was put back, and what could not be, with the reason."""

    done: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


class Keeper:
    """For one workspace. Between `look` and `put_back` one command runs."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._known: dict[Path, Entry | None] = {}
        self._ways: dict[Path, Entry | None] = {}
        self._within: Mapping[Path, Sequence[Path]] = {}

    def look(self, paths: Iterable[Path], within: Mapping[Path, Sequence[Path]] | None = None) -> None:
        """Take down what is there, and not there, at each path and on the way to it. Raises OSError.

        `within`: folders that may go as a whole, or move, with the paths inside that else stay as they are.
        """
        self._within = within or {}
        paths = [path for path in paths if path != self._top and path.is_relative_to(self._top)]
        ways = {each for path in paths for each in ways_to(self._top, path)}
        for folder, inside in self._within.items():
            ways |= {folder, *(way for path in inside for way in ways_to(folder, path))}
            paths += inside
        leaves = sorted(set(paths) - ways)
        self._ways = {way: _entry(way, None, whole=False) for way in sorted(ways)}
        self._known = {path: _entry(path, self._known.get(path)) for path in leaves if not self._beyond(path)}

    def put_back(self) -> PutBack:
        """Call it once nothing of the command is alive."""
        done, failed = [], []
        gone = [each for each in self._within if _kind(each) == "nothing" or self._beyond(each)]
        for path, was in (*self._ways.items(), *self._known.items()):  # what is above comes first
            if any(path.is_relative_to(each) for each in gone):
                continue
            try:
                if path in self._ways:
                    changed = self._way_put_back(path, was)
                else:
                    changed = not self._beyond(path) and _put_back(path, was)
                if changed:
                    done.append(str(path.relative_to(self._top)))
            except OSError as error:
                failed.append(f"{path.relative_to(self._top)}: {error.strerror}")
        return PutBack(tuple(done), tuple(failed))

    def _way_put_back(self, way: Path, was: Entry | None) -> bool:
        """A folder on the way may come and go; a link or a file in its place would lead elsewhere."""
        if was is None or stat.S_ISDIR(was.mark[1]):
            if _kind(way) in ("nothing", "folder"):
                return False
            was = None
        elif _mark(way) == was.mark:
            return False
        _restore(way, was)
        return True

    def _beyond(self, path: Path) -> bool:
        """Whether a link or a file is on the way, so that the path is not in the workspace at all."""
        return any(_kind(way) in ("link", "file") for way in ways_to(self._top, path))


@lru_cache(4096)  # asked several times a command
def ways_to(top: Path, path: Path) -> tuple[Path, ...]:
    """The folders between `top` and a path below it, the outermost first."""
    return tuple(each for each in reversed(path.parents) if each != top and each.is_relative_to(top))


def _entry(path: Path, known: Entry | None, *, whole: bool = True) -> Entry | None:
    mark = _mark(path)
    if not mark:
        return None
    kind = _kind(path)
    if kind == "link":
        return Entry(mark, str(path.readlink()))
    if kind == "folder":
        before = known.content if known and isinstance(known.content, Mapping) else {}
        inside = {name: _entry(path / name, before.get(name)) for name in (_names(path) if whole else ())}
        return Entry(mark, {name: entry for name, entry in inside.items() if entry})
    if known and known.mark == mark:
        return known
    readable = kind == "file" and mark[2] <= MOST and os.access(path, os.R_OK)
    return Entry(mark, path.read_bytes() if readable else None)


def _put_back(path: Path, was: Entry | None) -> bool:
    if not _changed(path, was):
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    _restore(path, was)
    return True


def _changed(path: Path, was: Entry | None) -> bool:
    mark = _mark(path)
    if was is None or not mark or not isinstance(was.content, Mapping):
        return mark != (was.mark if was else ())
    if _kind(path) != "folder" or mark[1] != was.mark[1] or _names(path) != sorted(was.content):
        return True
    return any(_changed(path / name, entry) for name, entry in was.content.items())


def _restore(path: Path, was: Entry | None) -> None:
    """Put in place of whatever is there what was; what was not kept is left as it is."""
    if was is not None and was.content is None:
        return
    if _kind(path) == "folder":
        shutil.rmtree(path)
    else:
        with suppress(FileNotFoundError):
            path.unlink()
    if was is None:
        return
    if isinstance(was.content, str):
        path.symlink_to(was.content)
    elif isinstance(was.content, bytes):
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.write(was.content)
            os.fchmod(file.fileno(), stat.S_IMODE(was.mark[1]))
    elif was.content is not None:
        path.mkdir()
        for name, entry in was.content.items():
            _restore(path / name, entry)
        path.chmod(stat.S_IMODE(was.mark[1]))


def _names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir())


def _mark(path: Path) -> tuple[int, ...]:
    """Inode, mode, size, times; empty where there is nothing. A command can set back one time, but not the other."""
    try:
        found = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return ()
    if stat.S_ISDIR(found.st_mode):
        return (found.st_ino, found.st_mode)
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _kind(path: Path) -> str:
    mark = _mark(path)
    if not mark:
        return "nothing"
    return "link" if stat.S_ISLNK(mark[1]) else "folder" if stat.S_ISDIR(mark[1]) else "file"
