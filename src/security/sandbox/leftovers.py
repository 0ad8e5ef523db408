"""What a command leaves in the workspace that would run later by itself: it is found and set aside.

When its owner next uses git, a shell, an editor or this program, some files run without being asked for: hooks and
settings of a repository at any depth, `.envrc`, an editor's tasks. `Leftovers.take` records those that are there before
a command; `Leftovers.set_aside` looks again after it, moves what is new or changed to a folder of this program, and
puts back what was there. A repository that runs nothing stays as it is, so `git clone` and `git init` work.

A folder is read again only if it changed, so that both cost one stat(2) for each folder of the workspace.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ...types.file_names import escape_name
from .git_config import clean_config, find_value

GIT = ".git"
RUNNING_FILES = frozenset(  # at any depth: a shell, an editor or a debugger runs them, or what they name
    {".envrc", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".gdbinit",
     ".lldbinit", ".autoenv.zsh", ".mise.toml", "mise.toml", ".mise.local.toml", "mise.local.toml",
     ".devcontainer.json", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml"}
)  # fmt: skip
RUNNING_SUFFIXES = (".code-workspace", ".sublime-project")
RUNNING_FOLDERS: Mapping[str, tuple[str, ...]] = {  # folder -> the files in it; a name with / at the end: a folder
    ".vscode": ("tasks.json", "settings.json", "launch.json", "mcp.json"),
    ".cursor": ("mcp.json",),
    ".idea": ("workspace.xml", "startup.xml", "watcherTasks.xml", "runConfigurations/", "tools/"),
    ".helix": ("config.toml", "languages.toml"),
    ".husky": ("/",),
    ".zed": ("tasks.json", "settings.json"),
    ".fleet": ("run.json", "settings.json"),
    ".devcontainer": ("devcontainer.json",),
}
CONFIGS = ("config", "config.worktree")
GIT_FILES = (*CONFIGS, "commondir", "rebase-merge/git-rebase-todo")
MAX_FILE_BYTES = 1_000_000  # of a file of these kinds; a larger one is not judged but set aside
RACY_NS = 50_000_000  # a folder that changed so shortly before it was read is read again


class SetAside(NamedTuple):
    """`path`: relative to the workspace; `kept`: where it is now; `why`: what it would have run."""

    path: str
    kept: Path
    why: str

    def __str__(self) -> str:
        return f"{escape_name(self.path)} ({escape_name(self.why)})"


class KnownFolder(NamedTuple):
    """`hits`: names in it that may run by themselves."""

    stamp: tuple[int, ...]
    read_ns: int
    folders: tuple[str, ...]
    hits: tuple[str, ...]


class RunningFile(NamedTuple):
    """`mark` changes whenever the file does; `content`: None if it is no small file."""

    mark: tuple[int, ...]
    content: bytes | None


class Leftovers:
    """Those of one workspace. One command runs between `take` and `set_aside`."""

    def __init__(self, top: Path, aside: Path) -> None:
        self._top = top
        self._aside = aside
        self._folders: dict[str, KnownFolder] = {}
        self._before: dict[Path, RunningFile] = {}
        self._running = 0  # commands: where several run at the same time, they are judged together
        self._lock = threading.Lock()
        self.kept: list[SetAside] = []

    def take(self) -> None:
        """Record what is there before a command."""
        with self._lock:
            self._running += 1
            if self._running == 1:
                self._before = {path: self._record(path) for path in self._list_running_files()}

    def _record(self, path: Path) -> RunningFile:
        known, mark = self._before.get(path), _get_mark(path)
        return known if known and known.mark == mark else RunningFile(mark, _read(path))

    def set_aside(self) -> list[SetAside]:
        """Set aside what the command left, and put back what was there; once none of its processes is left."""
        with self._lock:
            self._running -= 1
            if self._running:
                return []
            found: dict[Path, SetAside] = {}
            for _ in range(2):  # what stays of the first may lead to more
                for path in dict.fromkeys(self._list_running_files()):  # two settings may name one file
                    if not self._has_changed(path) or not self._is_inside(path.parent):
                        continue  # a folder on the way may be a link out of the workspace
                    if why := self._judge(path):
                        text = (_read(path) or b"").decode("utf-8", "replace")
                        found[path] = self._move(path, why)
                        if path.name in CONFIGS:
                            _write(path, clean_config(text, self._read_before(path)).text.encode())
            for path in found:
                before = self._before.get(path)
                if before and before.content is not None and not os.path.lexists(path):
                    _write(path, before.content, stat.S_IMODE(before.mark[1]))
            self.kept += found.values()
            return list(found.values())

    def _has_changed(self, path: Path) -> bool:
        before, mark = self._before.get(path), _get_mark(path)
        if not before or before.content is None or not mark or before.mark[1] != mark[1]:
            return before is None or before.mark != mark
        return before.mark != mark and before.content != _read(path)

    def keep(self, path: Path, why: str) -> SetAside:
        """Move a file or folder of the workspace out of it."""
        kept = self._move(path, why)
        self.kept.append(kept)
        return kept

    def put_back(self, item: SetAside) -> None:
        """Undo what setting it aside did. Raises OSError."""
        path = self._top / item.path
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif os.path.lexists(path):
            path.unlink()
        shutil.move(item.kept, path)
        self.kept.remove(item)

    def _move(self, path: Path, why: str) -> SetAside:
        relative = path.relative_to(self._top)
        self._aside.mkdir(mode=0o700, parents=True, exist_ok=True)
        number = sum(1 for _ in self._aside.iterdir())
        kept = self._aside / f"{number}-{int(time.time())}" / relative.name
        kept.parent.mkdir(mode=0o700)
        shutil.move(path, kept)
        return SetAside(str(relative), kept, why)

    def _read_before(self, path: Path) -> str:
        before = self._before.get(path)
        return ((before.content if before else None) or b"").decode("utf-8", "replace")

    def _judge(self, path: Path) -> str:
        """What the file would run; "" if nothing."""
        if path.name == GIT:
            folder = None if path.is_symlink() else self._find_git_folder(path)
            return "" if folder and (folder / "HEAD").is_file() else "git settings elsewhere"
        content = None if path.is_symlink() else _read(path)
        if content is None:
            return "a link" if path.is_symlink() else "it cannot be looked at"
        text = content.decode("utf-8", "replace")
        if path.name in CONFIGS:
            safe = clean_config(text, self._read_before(path))
            outward = [each for each in safe.worktrees if not self._is_inside(path.parent / each.strip('"'))]
            return ", ".join(dict.fromkeys([*safe.dropped, *(["core.worktree"] if outward else [])]))
        if path.name == "commondir":
            return "" if self._is_inside(path.parent / text.strip()) else "git settings elsewhere"
        if path.name == "git-rebase-todo":
            return "exec" if any(line.split()[:1] in (["x"], ["exec"]) for line in text.splitlines()) else ""
        return "a hook of git" if path.parent.name == "hooks" else "it runs by itself"

    def _is_inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self._top)

    def _list_running_files(self) -> Iterator[Path]:
        """All files of the workspace that may run by themselves."""
        seen: set[Path] = set()
        for folder, hit in self._list_hits():
            path = Path(folder, hit)
            if hit == GIT or hit == "HEAD":
                git = path if hit == GIT else path.parent
                if not path.is_dir() or path.is_symlink():
                    if hit == GIT:
                        yield path
                    git = (self._find_git_folder(path) if hit == GIT else git) or git
                for each in self._list_git_folders(git):
                    if each not in seen:
                        seen.add(each)
                        yield from self._list_git_files(each)
            elif hit.casefold() in RUNNING_FOLDERS and not path.is_symlink():
                for name in RUNNING_FOLDERS[hit.casefold()]:
                    inside = path / name.rstrip("/")
                    yield from _list_files(inside) if name.endswith("/") else filter(os.path.lexists, (inside,))
            else:
                yield path

    def _list_git_folders(self, git: Path) -> Iterator[Path]:
        """A repository's own folder, those of its submodules and worktrees, and that which it shares settings with."""
        folders = [git]
        for name in ("modules", "worktrees"):
            for place, inside, files in os.walk(git / name):
                folders += [Path(place)] if {"HEAD", "config", "commondir"}.intersection(files) else []
                inside[:] = [each for each in inside if each not in ("objects", "refs", "logs", "hooks")]
        for folder in folders:
            yield folder
            if (shared := _read(folder / "commondir")) is not None:
                common = Path(os.path.realpath(folder / shared.decode("utf-8", "replace").strip()))
                if common.is_relative_to(self._top):
                    yield common

    def _list_git_files(self, git: Path) -> Iterator[Path]:
        yield from (git / name for name in GIT_FILES if os.path.lexists(git / name))
        hooks = git / "hooks"
        if hooks.is_symlink():
            yield hooks
        else:
            yield from (each for each in _list_files(hooks) if each.suffix != ".sample")
        before = self._read_before(git / "config") or (_read(git / "config") or b"").decode("utf-8", "replace")
        if (named := find_value(before, "core.hookspath")) and (
            self._is_inside(folder := (git.parent if git.name == GIT else git) / named)
        ):
            yield from _list_files(folder)

    def _find_git_folder(self, link: Path) -> Path | None:
        """The folder in the workspace that a `.git` file names, or None."""
        text = (_read(link) or b"").decode("utf-8", "replace")
        target = Path(os.path.realpath(link.parent / text.removeprefix("gitdir:").strip()))
        return target if text.startswith("gitdir:") and target.is_relative_to(self._top) else None

    def _list_hits(self) -> Iterator[tuple[str, str]]:
        """Each folder with a name in it that may run by itself. No link is followed."""
        stack, known = [str(self._top)], self._folders
        self._folders = {}
        while stack:
            folder = stack.pop()
            with suppress(OSError):  # it has just gone
                found = os.stat(folder)  # noqa: PTH116 - a Path takes three times as long
                stamp = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns)
                entry = known.get(folder)
                if entry is None or entry.stamp != stamp or entry.read_ns - found.st_mtime_ns < RACY_NS:
                    entry = _read_folder(folder, stamp, stat.S_IMODE(found.st_mode))
                self._folders[folder] = entry
                stack += [f"{folder}/{name}" for name in entry.folders]
                yield from ((folder, name) for name in entry.hits)


def _read_folder(folder: str, stamp: tuple[int, ...], mode: int) -> KnownFolder:
    if not os.access(folder, os.R_OK | os.X_OK):  # a command may have hidden it from us, but not from git
        with suppress(OSError):
            Path(folder).chmod(mode | 0o700)
    read_ns = time.time_ns()
    folders: list[str] = []
    hits: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name.casefold()
            is_folder = entry.is_dir(follow_symlinks=False)
            if name == GIT or name in RUNNING_FOLDERS:
                hits.append(entry.name)
            elif is_folder:
                folders.append(entry.name)
            elif name in RUNNING_FILES or name.endswith(RUNNING_SUFFIXES) or entry.name == "HEAD":
                hits.append(entry.name)
    if "HEAD" in hits and not any(os.path.lexists(f"{folder}/{name}") for name in ("objects", "commondir")):
        hits.remove("HEAD")  # it is no bare repository
    return KnownFolder(stamp, read_ns, tuple(folders), tuple(hits))


def is_running_by_itself(path: str) -> bool:
    """Whether a file of this relative path would run by itself in a workspace; repositories aside."""
    parts = [part.casefold() for part in Path(path).parts]
    if not parts:
        return False
    if parts[-1] in RUNNING_FILES or parts[-1].endswith(RUNNING_SUFFIXES):
        return True
    return any(
        "/".join(parts[at + 1 :]) == name.casefold()
        or (name.endswith("/") and "/".join(parts[at + 1 :]).startswith(name.casefold().lstrip("/")))
        for at, part in enumerate(parts)
        for name in RUNNING_FOLDERS.get(part, ())
    )


def _list_files(folder: Path) -> Iterator[Path]:
    for inside, _folders, files in os.walk(folder):
        yield from (Path(inside, name) for name in files)


def _get_mark(path: Path) -> tuple[int, ...]:
    try:
        found = path.lstat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read(path: Path) -> bytes | None:
    """The content of a small regular file; None for anything else."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def _write(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as file:
        file.write(content)
