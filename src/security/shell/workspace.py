"""Where a path leads, as the system sees it. Files are looked at, never opened.

Links are resolved one by one; a path that does not exist leads to where it would be. A path through /proc leads
nowhere, since there it means another file for each process.
"""

from __future__ import annotations

import os
from pathlib import Path

from ...types.file_names import escape_name

MAX_PATH_CHARS = 4096
MAX_LINKS = 40  # in one path, as in Linux
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
    """The workspace, for one decision. `root` is its real path."""

    def __init__(self, workspace: Path) -> None:
        self.root = os.path.realpath(workspace)

    def relative_or_none(self, path: str) -> str | None:
        """Where a path leads, relative to the workspace ("." is the workspace itself); None if out of it."""
        found = resolve_links(path if path.startswith("/") else f"{self.root}/{path}")
        if found is None or self.root == "/":
            return found and (found[1:] or ".")
        if found == self.root:
            return "."
        return found[len(self.root) + 1 :] if found.startswith(f"{self.root}/") else None


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
            return (
                f"{escape_name(file.name)} is never written: it contains your settings, or commands that a shell runs"
            )
    return ""


def _fold_case(path: Path) -> tuple[str, ...]:
    return tuple(part.casefold() for part in path.parts)
