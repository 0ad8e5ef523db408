"""Which files no tool writes, and which folders may be added to a workspace. Files are looked at, never opened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain
from pathlib import Path

from ...beneath import MAX_PATH_CHARS, find_place, split_place
from ...errors import ConfigError
from ...types.file_names import UNPASSABLE, escape_name
from ..sandbox.running_files import START_FILES, is_running_by_itself

UNWRITABLE = (".git",)  # folders of this name: git runs their hooks and settings
SYSTEM_FOLDERS = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/proc", "/run", "/sbin", "/sys", "/usr")


def list_start_files(home: str) -> tuple[Path, ...]:
    """The files of a home that run by themselves, whether they exist or not; none without a home folder."""
    if not home.startswith("/"):
        return ()
    usual = [Path(os.path.realpath(home), name) for name in START_FILES]
    return tuple(dict.fromkeys([*usual, *(Path(os.path.realpath(each)) for each in usual)]))


def check_added(folders: Sequence[Path], workspace: Path, own: Iterable[Path], environment: Mapping[str, str]) -> None:
    """Raises ConfigError for a folder that cannot be added to the workspace. All are resolved.

    `own`: files and folders of this program. A folder with something in it that runs by itself, or is a secret of
    this program, cannot be held apart from it. `environment`: that of the user, for HOME and PATH.
    """
    home = environment.get("HOME", "")
    files = [*own, *list_start_files(home)]
    on_path = {os.path.realpath(each) for each in environment.get("PATH", "").split(os.pathsep) if each}
    for count, folder in enumerate(folders):
        checks = chain(_check_place(folder, workspace, folders[:count], home), _check_content(folder, files, on_path))
        for is_wrong, why in checks:
            if is_wrong:
                raise ConfigError(f"{escape_name(folder)} {why}")


def _check_place(folder: Path, workspace: Path, others: Iterable[Path], home: str) -> Iterator[tuple[bool, str]]:
    yield folder.is_relative_to(workspace), "is in the workspace, so it need not be added"
    around = f"contains the workspace {escape_name(workspace)}: start there instead"
    yield workspace.is_relative_to(folder), around
    for other in others:
        yield _overlaps(folder, other), f"and {escape_name(other)} are one in the other: add the outer one"
    holds_home = home != "" and Path(os.path.realpath(home)).is_relative_to(folder)
    yield holds_home, "contains your home folder: add a folder in it"
    temporary = Path(os.path.realpath(tempfile.gettempdir()))
    yield temporary.is_relative_to(folder), "contains the folder for temporary files: add a folder in it"
    is_system = any(_overlaps(folder, Path(each)) for each in SYSTEM_FOLDERS)
    yield is_system, "is part of the system, or contains it"


def _check_content(folder: Path, kept: Iterable[Path], on_path: Set[str]) -> Iterator[tuple[bool, str]]:
    is_kept = any(_overlaps(folder, each) for each in kept)
    yield is_kept, "holds settings, the state of this program, or what a shell runs"
    is_hidden = folder.name.startswith(".") or any(part in UNWRITABLE for part in folder.parts)
    is_running = is_hidden or is_running_by_itself(f"{folder}/any".lstrip("/"))
    yield is_running, "is a folder of git, or one whose files programs run"
    yield str(folder) in on_path, "is on PATH, so what is written there runs by its name"


def _overlaps(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def explain_protection(path: str, workspace: Path, files: tuple[Path, ...], added: tuple[Path, ...] = ()) -> str:
    """Why no tool may write to the path, or "". Case is ignored, as some file systems do.

    `added`: folders besides the workspace. Out of all of them every folder of git's counts.
    """
    if len(path) > MAX_PATH_CHARS or UNPASSABLE.search(path):
        return ""  # no valid path: it is out of reach
    below = parts = _fold_case(Path(os.path.realpath(workspace / path)))
    place = find_place(path, workspace, added)
    if place is not None:
        below = _fold_case(Path(split_place(place, workspace, added)[1]))
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
