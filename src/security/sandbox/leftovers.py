"""Undoes what a command did to protected files, and sets aside what it left that would run later by itself.

A mount cannot guard a path that does not exist yet, and Landlock cannot exclude a part of a folder that it allows. So
`Leftovers.take` records the protected files and those that run by themselves (running_files.py) before a command, and
`Leftovers.set_aside` looks again once none of its processes is left. A changed protected file becomes what it was. Of
the others, what is new or changed and runs something is moved to a folder of this program, and what was there comes
back. A repository that runs nothing stays as it is, so `git clone` and `git init` work. No link is followed.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Union

from msgspec import Struct

from ...beneath import get_mark
from ...types.file_names import escape_name
from .git_config import SafeConfig, clean_config
from .running_files import (
    CONFIGS,
    GIT_LINKS,
    RunningFiles,
    find_top,
    grant_rights,
    open_folder,
    read_file,
    read_text,
    walk,
)


class SetAside(Struct, frozen=True):
    """`path`: relative to the workspace, or whole; `kept`: where it is now; `why`: what it would have run."""

    path: str
    kept: Path
    why: str

    def __str__(self) -> str:
        return f"{escape_name(self.path)} ({escape_name(self.why)})"


class SavedFile(Struct, frozen=True):
    """A file, link or folder as it was. `mark` begins with its mode, and changes whenever it does; (): there was none.

    `content`: of a file, or the target of a link; None: it is a folder, or was not saved.
    """

    mark: tuple[int, ...] = ()
    content: Union[bytes, str, None] = None

    @property
    def is_unsaved(self) -> bool:
        return bool(self.mark) and self.content is None and not _is_folder(self.mark)


NOTHING = SavedFile()


class Leftovers:
    """Those of a workspace, and the folders `added` to it. Commands run between `take` and `set_aside`.

    `hooks_path`: see RunningFiles.

    Where several run at the same time, what is there at the end of each is compared with what the first one found.
    """

    def __init__(self, top: Path, aside: Path, hooks_path: str = "", added: Sequence[Path] = ()) -> None:
        self._top = top
        self._tops = (top, *added)
        self._aside = aside
        self._running_files = RunningFiles(self._tops, hooks_path)
        self._protected: set[Path] = set()
        self._parents: set[Path] = set()  # folders on the way to them
        self._guarded: list[Path] = []  # all that was there of both
        self._before: dict[Path, SavedFile] = {}
        self._running = 0  # commands
        self._lock = threading.Lock()
        self._kept: list[SetAside] = []

    def take(self, protected: Iterable[Path] = ()) -> None:
        """Record what is there before a command, or that nothing is. Raises OSError."""
        with self._lock:
            if not self._running:
                paths = {path for path in protected if path not in self._tops and find_top(path, self._tops)}
                self._parents = {parent for path in paths for parent in self._list_parents(path)}
                self._protected = paths - self._parents
                self._guarded = self._list_protected()
                places = dict.fromkeys([*self._guarded, *self._running_files.list(read_text)])
                self._before = {path: entry for path in places if (entry := self._record(path))}
            self._running += 1

    def set_aside(self) -> list[str]:
        """Put back and set aside, once none of the command's processes is left. Returns notes for the model."""
        with self._lock:
            self._running -= 1
            return self._judge_all()

    def take_kept(self) -> list[SetAside]:
        """What was set aside since the last time, up to now by commands that still run, too."""
        with self._lock:
            if self._running:
                self._judge_all()
            set_aside, self._kept = self._kept, []
            return set_aside

    def put_back(self, item: SetAside) -> None:
        """Undo what setting it aside did. Raises OSError."""
        path = self._top / item.path
        with pin_folder(self._tops, path, makes=True) as place:
            _remove(place)
            shutil.move(item.kept, place)
        with self._lock:
            for each in (path, *(path.rglob("*") if path.is_dir() and not path.is_symlink() else ())):
                if entry := self._record(each):
                    self._before[each] = entry

    def _record(self, path: Path) -> SavedFile | None:
        saved, mark = self._before.get(path, NOTHING), _get_mark(path)
        if not mark:
            return None
        if saved.mark == mark:
            return saved
        return SavedFile(mark, _read(path))

    def _list_protected(self) -> list[Path]:
        """The protected paths, what is in them, and the folders on the way: folders before their files."""
        paths = {*self._parents}
        for folder in (*self._tops, *sorted(self._parents)):
            open_folder(folder)
        for path in self._protected:
            if not self._is_unreachable(path):
                paths.add(path)
                for inside, folders, files in walk(path):
                    paths |= {inside / name for name in (*folders, *files)}
        return sorted(paths)

    def _is_unreachable(self, path: Path) -> bool:
        """Whether a link or a file is on the way to the path: then it is not in the workspace."""
        return any((mark := _get_mark(each)) and not _is_folder(mark) for each in self._list_parents(path))

    def _list_parents(self, path: Path) -> tuple[Path, ...]:
        top = find_top(path, self._tops)
        return list_parents(top, path) if top else ()

    def _name(self, path: Path) -> str:
        """The path relative to the workspace; in an added folder the whole one."""
        return str(path.relative_to(self._top)) if path.is_relative_to(self._top) else str(path)

    def _has_changed(self, path: Path) -> bool:
        """Whether it came, went, or has another content, mode or number of names."""
        before, mark = self._before.get(path, NOTHING), _get_mark(path)
        if not mark or before.mark[:2] != mark[:2] or before.is_unsaved:
            return mark != before.mark
        return before.mark != mark and before.content != _read(path)

    def _judge_all(self) -> list[str]:
        """Notes for the model."""
        restored, failed = self._restore_protected()
        set_aside, not_restored = self._set_aside_running()
        self._kept += set_aside
        notes = []
        if restored:
            notes.append(f"protected, put back as it was: {', '.join(restored)}")
        notes += [f"protected, but changed, and could not be put back: {each}" for each in failed]
        notes += [f"could not be put back as it was: {each}" for each in not_restored]
        if set_aside:
            notes.append(f"set aside, as it would run later by itself: {', '.join(map(str, set_aside))}")
        return notes

    def _restore_protected(self) -> tuple[list[str], list[str]]:
        """Make the protected paths what they were. Returns the names of those, and why others could not be."""
        restored: dict[str, None] = {}
        failed = []
        for path in sorted({*self._guarded, *self._list_protected()}):
            before, mark = self._before.get(path, NOTHING), _get_mark(path)
            # Folders on the way to a protected path may be made and removed; anything else there would lead elsewhere.
            is_way = path in self._parents and all(map(_is_folder, filter(None, (before.mark, mark))))
            if is_way or not self._has_changed(path) or self._is_unreachable(path):
                continue
            place = next((each for each in self._protected if path.is_relative_to(each)), path)
            name = escape_name(self._name(place))
            try:
                self._exchange(path, mark, before)
                restored[name] = None
            except OSError as error:
                failed.append(f"{name}: {error.strerror}")
        return list(restored), failed

    def _exchange(self, path: Path, mark: tuple[int, ...], before: SavedFile) -> None:
        """Set aside what is there, and put back what was. Raises OSError."""
        if before.is_unsaved:
            raise OSError(errno.ENODATA, "its content was not saved")
        if mark:
            self._kept.append(self._move(path, "protected"))
        if before.mark:
            self._restore(path, before)

    def _set_aside_running(self) -> tuple[list[SetAside], list[str]]:
        """What is moved, and why something else could not be. What cannot be judged is moved."""
        moved: dict[Path, SetAside] = {}
        failed: list[str] = []
        for _ in range(2):  # what stays of the first may lead to more
            for path in dict.fromkeys(self._running_files.list(self._read_config)):  # two settings may name one file
                if why := self._judge(path):
                    text = read_text(path)
                    with self._note_failure(path, failed):
                        moved[path] = self._move(path, why)
                        if path.name in CONFIGS:
                            with pin_folder(self._tops, path) as place:
                                _write(place, os.fsencode(self._clean_config(path, text).text))
        for path, before in self._before.items():
            was_moved = any(each in moved for each in (path, *self._list_parents(path)))
            if was_moved and before.content is not None and not os.path.lexists(path):
                with self._note_failure(path, failed):
                    self._restore(path, before)
        return list(moved.values()), failed

    @contextmanager
    def _note_failure(self, path: Path, failed: list[str]) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, FileExistsError):
            pass  # a command that still runs moved it
        except OSError as error:
            failed.append(f"{escape_name(self._name(path))}: {error.strerror}")

    def _read_before(self, path: Path) -> str:
        content = self._before.get(path, NOTHING).content
        return os.fsdecode(content) if isinstance(content, bytes) else ""

    def _read_config(self, path: Path) -> str:
        """A repository's configuration as it was before the command; of a new one, as it is."""
        return self._read_before(path) or read_text(path)

    def _judge(self, path: Path) -> str:
        """What a new or changed file would run; "" if nothing, or if it is not in the workspace."""
        running = self._running_files
        try:
            if not self._has_changed(path) or not running.is_inside(path.parent) or running.is_harmless_link(path):
                return ""
            if path.name in GIT_LINKS:
                folder = running.find_git_folder(path)
                return "" if folder and (folder / "HEAD").is_file() else "git settings elsewhere"
            return self._judge_content(path)
        except (OSError, ValueError):  # a command has made it so
            return "it cannot be looked at"

    def _judge_content(self, path: Path) -> str:
        """As _judge. Raises OSError, ValueError."""
        if path.is_symlink():
            return "a link"
        content = read_file(path)
        if content is None:
            return "it cannot be looked at"
        text = os.fsdecode(content)
        if path.name in CONFIGS:
            return ", ".join(dict.fromkeys(self._clean_config(path, text).dropped))
        if path.name == "git-rebase-todo":
            return "exec" if any(line.split()[:1] in (["x"], ["exec"]) for line in text.splitlines()) else ""
        return "a hook" if path.parent.name == "hooks" else "it runs by itself"

    def _clean_config(self, path: Path, text: str) -> SafeConfig:
        """What may stay of the text of a repository's configuration."""
        is_inside = self._running_files.is_inside
        return clean_config(text, self._read_before(path), lambda worktree: is_inside(path.parent / worktree))

    def _move(self, path: Path, why: str) -> SetAside:
        """Set aside what is there. If it cannot be kept, as on a full disk, it is removed. Raises OSError."""
        target = self._aside
        with pin_folder(self._tops, path) as place:
            if _is_folder((place.lstat().st_mode,)):
                for _ in walk(place, os.R_OK | os.W_OK | os.X_OK):
                    pass  # now it can be moved whole
            try:
                self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
                target = Path(tempfile.mkdtemp(prefix=f"{int(time.time())}-", dir=self._aside), path.name)
                shutil.move(place, target)
            except OSError:
                _remove(place)
                why += ", and could not be kept"
        return SetAside(self._name(path), target, why)

    def _restore(self, path: Path, was: SavedFile) -> None:
        with pin_folder(self._tops, path, makes=True) as place:
            _restore(place, was)


@contextmanager
def pin_folder(tops: Sequence[Path], path: Path, *, makes: bool = False) -> Iterator[Path]:
    """The path by a descriptor of its folder: a link that a running command puts on the way leads nowhere else.

    `makes`: folders that are missing are made. Raises OSError, where the folder is in none of `tops` too.
    """
    real = Path(os.path.realpath(path.parent))
    top = find_top(real, tops)
    if not top:
        raise FileNotFoundError(errno.ENOENT, "not in the workspace", str(path))
    folder = os.open(top, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in (*real.relative_to(top).parts, ""):
            if not os.access(f"/proc/self/fd/{folder}", os.W_OK | os.X_OK):
                grant_rights(folder)
            if not name:
                break
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            inner = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield Path(f"/proc/self/fd/{folder}", path.name)
    finally:
        os.close(folder)


@lru_cache(4096)  # called several times for each command
def list_parents(top: Path, path: Path) -> tuple[Path, ...]:
    """The folders between `top` and a path below it, the outermost first."""
    return tuple(each for each in reversed(path.parents) if each != top and each.is_relative_to(top))


def _get_mark(path: Path) -> tuple[int, ...]:
    """As get_mark; of a folder its mode; empty if nothing is there."""
    try:
        mark = get_mark(path.lstat())
    except OSError:
        return ()
    return mark[:1] if _is_folder(mark) else mark


def _is_folder(mark: tuple[int, ...]) -> bool:
    return bool(mark) and stat.S_ISDIR(mark[0])


def _read(path: Path) -> bytes | str | None:
    return str(path.readlink()) if path.is_symlink() else read_file(path)


def _remove(path: Path) -> None:
    """Remove what is there, if there is anything. Raises OSError."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _restore(path: Path, was: SavedFile) -> None:
    if isinstance(was.content, str):
        path.symlink_to(was.content)
    elif was.content is None:
        path.mkdir()
        path.chmod(stat.S_IMODE(was.mark[0]))
    else:
        _write(path, was.content, stat.S_IMODE(was.mark[0]))
        os.utime(path, ns=(was.mark[4], was.mark[4]))


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
        os.fchmod(file.fileno(), mode)
