"""Where a path leads, as the system sees it: looked at, never opened.

The only part of this room that looks at files. Links are resolved one by one, and what is not there is where it
would be. What leads through /proc is nowhere: there, the same path is another for another process.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

LONGEST = 4096  # characters of a path
MOST_LINKS = 40  # as Linux has it
MOST_ENTRIES = 20_000  # of a workspace that are looked at for the sake of one command
PROC = "/proc"
SHELL_START_FILES = (  # in the home folder: shells run them
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".config/fish",
)
UNWRITABLE = (".git",)  # a folder of this name: its hooks and its settings are run


def real(path: str) -> str | None:
    """An absolute path without its links; None for one through /proc, and for one that never ends."""
    if len(path) > LONGEST or "\0" in path:
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
            target = os.readlink(following)  # noqa: PTH115 - a Path would cost ten times as much
        except (OSError, ValueError):  # no link, or nothing there at all
            at = following
            continue
        links += 1
        if links > MOST_LINKS:
            return None
        rest.extend(target.split("/")[::-1])
        at = "" if target.startswith("/") else at
    return at or "/"


class Ground:
    """The workspace, for one decision: `root` is its real path, `here` the folder of it that paths start from."""

    def __init__(self, workspace: Path, folder: str = ".") -> None:
        self.root = os.path.realpath(workspace)
        self.here = os.path.realpath(Path(self.root, folder))
        self._looked_at = 0

    def at(self, folder: str) -> Ground:
        """The same, seen from another folder of it."""
        return self if folder == "." else Ground(Path(self.root), folder)

    def where(self, path: str) -> str | None:
        """Where a path leads, relative to the workspace ("." is itself); None if out of it."""
        found = real(path if path.startswith("/") else f"{self.here}/{path}")
        if found is None or self.root == "/":
            return found and (found[1:] or ".")
        if found == self.root:
            return "."
        return found[len(self.root) + 1 :] if found.startswith(f"{self.root}/") else None

    def exists(self, path: str) -> bool:
        return os.path.lexists(Path(self.here, path))

    def is_folder(self, path: str) -> bool:
        return Path(self.here, path).is_dir()

    def is_met_without_links(self, folder: str) -> bool:
        """Whether `..` means the same behind a folder for a shell, which goes by names, and for the system."""
        path = os.path.join(self.here, folder)  # noqa: PTH118 - a Path would leave out parts
        found = real(path)
        return found == os.path.normpath(path) or (found == self.root and ".." not in path.split("/"))

    def has_repository_of_its_own(self) -> bool:
        """Whether git would find another repository here than the workspace's: one that the model may have made."""
        folder = self.here
        while folder not in (self.root, "/"):
            if any(os.path.lexists(f"{folder}/{name}") for name in (".git", "HEAD")):
                return True
            folder = os.path.dirname(folder)  # noqa: PTH120 - as above
        return os.path.lexists(f"{self.root}/HEAD") and not os.path.lexists(f"{self.root}/.git")

    def names(self, folder: str) -> list[str] | None:
        """What is in a folder of the workspace, hidden files too; None where there is more than can be looked at."""
        try:
            names = [entry.name for entry in Path(self.here, folder).iterdir()]
        except OSError:
            return []
        self._looked_at += len(names)
        return names if self._looked_at <= MOST_ENTRIES else None

    def is_closed(self, folders: Iterable[str]) -> bool:
        """Whether no link below these folders leads out of the workspace, so that following links is harmless.

        A link to another folder of the workspace is followed, and then all of the workspace is looked at.
        """
        tops = [real(folder if folder.startswith("/") else f"{self.here}/{folder}") or self.root for folder in folders]
        for seen, entry in enumerate(chain.from_iterable(map(self._entries, tops))):
            if seen > MOST_ENTRIES:
                return False
            if not entry.is_symlink():
                continue
            if self.where(entry.path) is None:
                return False
            if self.root not in tops and entry.is_dir():
                return self.is_closed([self.root])
        return True

    def _entries(self, folder: str) -> Iterator[os.DirEntry[str]]:
        folders = [folder]
        while folders:
            try:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        yield entry
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
            except OSError:  # nor can the command look into it
                continue


def list_start_files(home: str) -> tuple[Path, ...]:
    """What shells run when they start, whether it is there or not; none without a home folder."""
    if not home.startswith("/"):
        return ()
    usual = [Path(os.path.realpath(home), name) for name in SHELL_START_FILES]
    return tuple(dict.fromkeys([*usual, *(Path(os.path.realpath(each)) for each in usual)]))


def protected(path: str, workspace: Path, files: tuple[Path, ...]) -> str:
    """Why nothing may write there, or "". Case is folded, since some file systems do."""
    if len(path) > LONGEST or "\0" in path:
        return ""  # no path at all, which the tool will say
    parts = _folded(Path(os.path.realpath(workspace / path)))
    below = parts[len(_folded(Path(os.path.realpath(workspace)))) :]
    if any(name in below for name in UNWRITABLE):
        return "git's own files are never written"
    for file in files:
        if parts[: len(_folded(file))] == _folded(file):
            return f"{file.name} is never written: it contains your settings, or commands that a shell runs"
    return ""


def _folded(path: Path) -> tuple[str, ...]:
    return tuple(part.casefold() for part in path.parts)


def in_workspace(name: str, path: str, ground: Ground) -> bool:
    """Whether a command of that name may be found in the workspace, or in whatever is the current folder.

    `path` is the PATH. What stands in the workspace can be written by the model, and would go by the same name.
    """
    for folder in path.split(":"):
        if not folder.startswith("/"):
            return True
        program = f"{folder}/{name}"
        if os.access(program, os.X_OK) and Path(program).is_file():
            return ground.root != "/" and any(ground.where(each) is not None for each in (folder, program))
    return False
