"""Which files no tool writes, and which folders may be added to a workspace. Files are looked at, never opened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...beneath import MAX_PATH_CHARS, find_place, split_place
from ...errors import ConfigError
from ...types.file_names import escape_name
from ..sandbox.running_files import START_FILES, is_running_by_itself

UNWRITABLE = (".git",)  # folders of this name: git runs their hooks and settings
SYSTEM_FOLDERS = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")


def list_start_files(home: str) -> tuple[Path, ...]:
    """The files of a home that run by themselves, whether they exist or not; none without a home folder."""
    if not home.startswith("/"):
        return ()
    usual = [Path(os.path.realpath(home), name) for name in START_FILES]
    return tuple(dict.fromkeys([*usual, *(Path(os.path.realpath(each)) for each in usual)]))


def check_added(folders: Sequence[Path], workspace: Path, own: Iterable[Path], home: str) -> None:
    """Raises ConfigError for a folder that cannot be added to the workspace. All are resolved.

    `own`: files and folders of this program. A folder with something in it that runs by itself, or is a secret of
    this program, cannot be held apart from it.
    """
    kept = [*own, *list_start_files(home)]
    for count, folder in enumerate(folders):
        name = escape_name(folder)
        if folder.is_relative_to(workspace):
            raise ConfigError(f"{name} is in the workspace, so it need not be added")
        if workspace.is_relative_to(folder):
            raise ConfigError(f"{name} contains the workspace {escape_name(workspace)}: start there instead")
        for other in folders[:count]:
            if folder.is_relative_to(other) or other.is_relative_to(folder):
                raise ConfigError(f"{name} and {escape_name(other)} are one in the other: add the outer one")
        if home and Path(os.path.realpath(home)).is_relative_to(folder):
            raise ConfigError(f"{name} contains your home folder: add a folder in it")
        if Path(os.path.realpath(tempfile.gettempdir())).is_relative_to(folder):
            raise ConfigError(f"{name} contains the folder for temporary files: add a folder in it")
        if any(folder.is_relative_to(each) or Path(each).is_relative_to(folder) for each in SYSTEM_FOLDERS):
            raise ConfigError(f"{name} is part of the system, or contains it")
        if any(folder.is_relative_to(each) or each.is_relative_to(folder) for each in kept):
            raise ConfigError(f"{name} holds settings, the state of this program, or what a shell runs")
        is_running = folder.name.startswith(".") or is_running_by_itself(f"{folder}/any".lstrip("/"))
        if is_running or any(part in UNWRITABLE for part in folder.parts):
            raise ConfigError(f"{name} is a folder of git, or one whose files programs run")


def explain_protection(path: str, workspace: Path, files: tuple[Path, ...], added: tuple[Path, ...] = ()) -> str:
    """Why no tool may write to the path, or "". Case is ignored, as some file systems do.

    `added`: folders besides the workspace. Out of all of them every folder of git's counts.
    """
    if len(path) > MAX_PATH_CHARS or "\0" in path:
        return ""  # no valid path; the tool reports it
    parts = _fold_case(Path(os.path.realpath(workspace / path)))
    place = find_place(path, workspace, added)
    below = parts if place is None else _fold_case(Path(split_place(place, workspace, added)[1]))
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
