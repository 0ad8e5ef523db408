"""Which files no tool writes. Files are looked at, never opened."""

from __future__ import annotations

import os
from pathlib import Path

from ...beneath import MAX_PATH_CHARS
from ...types.file_names import escape_name
from ..sandbox.running_files import START_FILES

UNWRITABLE = (".git",)  # folders of this name: git runs their hooks and settings


def list_start_files(home: str) -> tuple[Path, ...]:
    """The files of a home that run by themselves, whether they exist or not; none without a home folder."""
    if not home.startswith("/"):
        return ()
    usual = [Path(os.path.realpath(home), name) for name in START_FILES]
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
