"""Where a path leads, as the system sees it. Files are looked at, never opened.

Links are resolved one by one; a path that does not exist leads to where it would be. A path through /proc leads
nowhere, since there it means another file for each process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

MAX_PATH_CHARS = 4096
MAX_LINKS = 40  # in one path, as in Linux
MAX_ENTRIES = 20_000  # of a workspace that are looked at for one command
PROC = "/proc"
SHELL_START_FILES = (  # in the home folder: shells run them
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".zshrc", ".zshenv",
    ".zprofile", ".zlogin", ".config/fish",
)  # fmt: skip
UNWRITABLE = (".git",)  # folders of this name: git runs their hooks and settings


def resolve_links(path: str) -> str | None:
    """An absolute path without links; None for one through /proc, and for links that go in a circle."""
    if len(path) > MAX_PATH_CHARS or "\0" in path:
        return None
    rest = path.split("/")[::-1]
    at, links = "", 0
    while rest:
        part = rest.pop()
        if part in ("", "."):
            continue
        if part == "..":
            at = at.rpartition("/")[0]
            continue
        following = f"{at}/{part}"
        if following == PROC:
            return None
        try:
            target = os.readlink(following)  # noqa: PTH115 - a Path takes ten times as long
        except (OSError, ValueError):  # no link, or nothing is there
            at = following
            continue
        links += 1
        if links > MAX_LINKS:
            return None
        rest.extend(target.split("/")[::-1])
        at = "" if target.startswith("/") else at
    return at or "/"


class Workspace:
    """The workspace, for one decision. `root` is its real path; relative paths start from `here`, a folder in it."""

    def __init__(self, workspace: Path, folder: str = ".") -> None:
        self.root = os.path.realpath(workspace)
        self.here = os.path.realpath(Path(self.root, folder))
        self._looked_at = 0

    def enter(self, folder: str) -> Workspace:
        """The same workspace, with paths that start from another of its folders."""
        return self if folder == "." else Workspace(Path(self.root), folder)

    def relative_or_none(self, path: str) -> str | None:
        """Where a path leads, relative to the workspace ("." is the workspace itself); None if out of it."""
        found = resolve_links(path if path.startswith("/") else f"{self.here}/{path}")
        if found is None or self.root == "/":
            return found and (found[1:] or ".")
        if found == self.root:
            return "."
        return found[len(self.root) + 1 :] if found.startswith(f"{self.root}/") else None

    def exists(self, path: str) -> bool:
        return os.path.lexists(Path(self.here, path))

    def is_folder(self, path: str) -> bool:
        return Path(self.here, path).is_dir()

    def has_no_symlinks(self, folder: str) -> bool:
        """Whether `folder/..` is the same for a shell, which goes by names, and for the system."""
        path = os.path.join(self.here, folder)  # noqa: PTH118 - a Path would drop parts
        found = resolve_links(path)
        return found == os.path.normpath(path) or (found == self.root and ".." not in path.split("/"))

    def has_own_repository(self) -> bool:
        """Whether git would find a repository here that is not the workspace's, since the model may have made it."""
        folder = self.here
        while folder not in (self.root, "/"):
            if any(os.path.lexists(f"{folder}/{name}") for name in (".git", "HEAD")):
                return True
            folder = os.path.dirname(folder)  # noqa: PTH120 - as above
        return os.path.lexists(f"{self.root}/HEAD") and not os.path.lexists(f"{self.root}/.git")

    def list_names(self, folder: str) -> list[str] | None:
        """All names in a folder of the workspace; None if MAX_ENTRIES is exceeded."""
        try:
            names = [entry.name for entry in Path(self.here, folder).iterdir()]
        except OSError:
            return []
        self._looked_at += len(names)
        return names if self._looked_at <= MAX_ENTRIES else None

    def has_no_link_out(self, folders: Iterable[str]) -> bool:
        """Whether no link below these folders leads out of the workspace.

        If a link leads to another folder of the workspace, the whole workspace is searched.
        """
        roots = [
            resolve_links(folder if folder.startswith("/") else f"{self.here}/{folder}") or self.root
            for folder in folders
        ]
        for seen, entry in enumerate(chain.from_iterable(map(self._list_entries, roots))):
            if seen > MAX_ENTRIES:
                return False
            if not entry.is_symlink():
                continue
            if self.relative_or_none(entry.path) is None:
                return False
            if self.root not in roots and entry.is_dir():
                return self.has_no_link_out([self.root])
        return True

    def _list_entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        folders = [folder]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        yield entry
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
            except OSError:  # the command cannot look into it either
                continue


def list_start_files(home: str) -> tuple[Path, ...]:
    """The files that shells run when they start, whether they exist or not; none without a home folder."""
    if not home.startswith("/"):
        return ()
    usual = [Path(os.path.realpath(home), name) for name in SHELL_START_FILES]
    return tuple(dict.fromkeys([*usual, *(Path(os.path.realpath(each)) for each in usual)]))


def explain_protection(path: str, workspace: Path, files: tuple[Path, ...]) -> str:
    """Why no tool may write to the path, or "". Case is ignored, as some file systems do."""
    if len(path) > MAX_PATH_CHARS or "\0" in path:
        return ""  # no valid path; the tool reports it
    parts = _fold_case(Path(os.path.realpath(workspace / path)))
    below = parts[len(_fold_case(Path(os.path.realpath(workspace)))) :]
    if any(name in below for name in UNWRITABLE):
        return "git's own files are never written"
    for file in files:
        if parts[: len(_fold_case(file))] == _fold_case(file):
            return f"{file.name} is never written: it contains your settings, or commands that a shell runs"
    return ""


def _fold_case(path: Path) -> tuple[str, ...]:
    return tuple(part.casefold() for part in path.parts)


def is_in_workspace(name: str, path: str, workspace: Workspace) -> bool:
    """Whether PATH, given as `path`, may lead to a program of that name in the workspace or in the current folder.

    The model can write such a program.
    """
    for folder in path.split(":"):
        if not folder.startswith("/"):
            return True
        program = f"{folder}/{name}"
        if os.access(program, os.X_OK) and Path(program).is_file():
            return workspace.root != "/" and any(
                workspace.relative_or_none(each) is not None for each in (folder, program)
            )
    return False
