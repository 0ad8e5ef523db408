"""Finds the files of a workspace that run by themselves when its owner next uses git, a shell or an editor.

These are hooks and settings of a repository at any depth, `.envrc`, an editor's tasks and the like. A folder is read
again only if it changed, so that looking costs one stat(2) for each folder of the workspace.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from .git_config import find_value

GIT = ".git"
RUNNING_FILES = frozenset(  # at any depth: a shell, an editor or a debugger runs them, or what they name
    {".envrc", ".exrc", ".vimrc", ".nvimrc", ".nvim.lua", ".lvimrc", ".dir-locals.el", ".dir-locals-2.el", ".gdbinit",
     ".lldbinit", ".autoenv.zsh", ".mise.toml", "mise.toml", ".mise.local.toml", "mise.local.toml",
     ".devcontainer.json", ".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", "lefthook.yaml",
     ".lefthook.yaml", "lefthook.toml", "lefthook.json", "lefthook-local.yml", ".mcp.json", "opencode.json"}
)  # fmt: skip
RUNNING_SUFFIXES = (".code-workspace", ".sublime-project")
RUNNING_FOLDERS: Mapping[str, tuple[str, ...]] = {  # folder -> the files in it; a name with / at the end: a folder
    ".vscode": ("tasks.json", "settings.json", "launch.json", "mcp.json"),
    ".cursor": ("mcp.json", "hooks.json"),
    ".claude": ("settings.json", "settings.local.json"),
    ".codex": ("config.toml",),
    ".gemini": ("settings.json",),
    ".idea": ("workspace.xml", "startup.xml", "watcherTasks.xml", "runConfigurations/", "tools/"),
    ".helix": ("config.toml", "languages.toml"),
    ".husky": ("/",),
    ".zed": ("tasks.json", "settings.json"),
    ".fleet": ("run.json", "settings.json"),
    ".devcontainer": ("devcontainer.json",),
    ".hg": ("hgrc",),
}
HOOKS_PATH = "core.hookspath"
CONFIGS = ("config", "config.worktree")
GIT_SETTINGS = ("hooks", *CONFIGS, "commondir")  # they make git run programs, or look elsewhere
MARKS = ("HEAD", "objects", "refs")
REBASE_TODO = "rebase-merge/git-rebase-todo"
MAX_REPOSITORIES = 100  # submodules and worktrees of one repository that are looked at
MAX_FILE_BYTES = 10_000_000  # of a file that is recorded, and restored
RACY_NS = 50_000_000  # a folder that changed so shortly before it was read is read again


class KnownFolder(NamedTuple):
    """`hits`: names in it that may run by themselves."""

    stamp: tuple[int, ...]
    read_ns: int
    folders: tuple[str, ...]
    hits: tuple[str, ...]


class RunningFiles:
    """Those of the workspace `top`. `hooks_path`: core.hooksPath of the user's own configuration of git."""

    def __init__(self, top: Path, hooks_path: str = "") -> None:
        self._top = top
        self._hooks_path = hooks_path
        self._folders: dict[str, KnownFolder] = {}

    def list(self, read_config: Callable[[Path], str]) -> Iterator[Path]:
        """All of them, some twice. `read_config` gives the text of a repository's configuration."""
        for folder, hit in self._list_hits():
            path = Path(folder, hit)
            if hit in (GIT, "HEAD"):
                git = path if hit == GIT else path.parent
                if path.is_symlink() or not path.is_dir():
                    yield from [path] if hit == GIT else []
                    git = (self.find_git_folder(path) if hit == GIT else git) or git
                folders = [*self._list_settings_folders(git)]
                for each in folders:
                    yield from _list_git_files(each)
                named = {self._hooks_path, *(find_value(read_config(each / "config"), HOOKS_PATH) for each in folders)}
                for name in filter(None, named):
                    if self.is_inside(path.parent / name):
                        yield from _list_files(path.parent / name)
            elif hit.casefold() in RUNNING_FOLDERS and not path.is_symlink():
                for name in RUNNING_FOLDERS[hit.casefold()]:
                    inside = path / name.rstrip("/")
                    yield from _list_files(inside) if name.endswith("/") else filter(os.path.lexists, (inside,))
            else:
                yield path

    def is_inside(self, path: Path) -> bool:
        return Path(os.path.realpath(path)).is_relative_to(self._top)

    def find_git_folder(self, link: Path) -> Path | None:
        """The folder in the workspace that a `.git` file names, or None."""
        text = read_text(link)
        target = Path(os.path.realpath(link.parent / text.removeprefix("gitdir:").strip()))
        return target if text.startswith("gitdir:") and target.is_relative_to(self._top) else None

    def _list_settings_folders(self, git: Path) -> Iterator[Path]:
        """Those of a repository, and those that they share settings with."""
        for folder in list_git_folders(git):
            yield folder
            if os.path.lexists(folder / "commondir"):
                common = Path(os.path.realpath(folder / read_text(folder / "commondir").strip()))
                if common.is_relative_to(self._top):
                    yield common

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


def list_git_folders(git: Path) -> Iterator[Path]:
    """The folders that git takes its configuration from: the repository's own, its submodules', its worktrees'."""
    yield git
    yield from islice(_list_nested(git), 0 if git.is_symlink() else MAX_REPOSITORIES)


def _list_nested(git: Path) -> Iterator[Path]:
    for name in ("modules", "worktrees"):
        for folder, folders, files in os.walk(git / name):
            folders[:] = [each for each in folders if each not in ("objects", "refs", "logs", "hooks")]
            if {"HEAD", "config", "commondir"}.intersection(files):
                yield Path(folder)


def _list_git_files(git: Path) -> Iterator[Path]:
    yield from (git / name for name in (*GIT_SETTINGS[1:], REBASE_TODO) if os.path.lexists(git / name))
    hooks = git / "hooks"
    yield from [hooks] if hooks.is_symlink() else (each for each in _list_files(hooks) if each.suffix != ".sample")


def _list_files(folder: Path) -> Iterator[Path]:
    for inside, _folders, files in os.walk(folder):
        yield from (Path(inside, name) for name in files)


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
            if name == GIT or name in RUNNING_FOLDERS:
                hits.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
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


def is_part_of_repository(top: Path, path: str) -> bool:
    """Whether a file of this relative path makes git take a folder for a repository, or is one of its settings there.

    Git takes any folder for one that has MARKS (gitrepository-layout(5)), and obeys its settings.
    """
    parts = Path(path).parts
    for depth, name in enumerate(parts):
        folder = top.joinpath(*parts[:depth])
        if name in (*MARKS, *GIT_SETTINGS) and all(each == name or os.path.lexists(folder / each) for each in MARKS):
            return True
    return False


def read_file(path: Path) -> bytes | None:
    """The content of a regular file; None for anything else, and for one that is too large."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def read_text(path: Path) -> str:
    return (read_file(path) or b"").decode("utf-8", "replace")
