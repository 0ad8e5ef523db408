"""Where a path leads, as the system sees it: looked at, never opened.

The only part of this room that looks at files; links are resolved, and what is not there is where it would be.
"""

from __future__ import annotations

import os
from pathlib import Path

LONGEST = 4096  # characters of a path
UNWRITABLE = (".git",)  # a folder of this name: its hooks and its config run as code


def inside(path: str, workspace: Path) -> str | None:
    """Where a path leads, relative to the workspace and with `/` between its parts; None if out of it."""
    if len(path) > LONGEST or "\0" in path:
        return None
    try:
        real = Path(os.path.realpath(workspace / path))
    except (OSError, ValueError):
        return None
    root = Path(os.path.realpath(workspace))
    return real.relative_to(root).as_posix() if real.is_relative_to(root) else None


def protected(path: str, workspace: Path, files: tuple[Path, ...]) -> str:
    """Why nothing may write there, or "". Case is folded, since some file systems do."""
    if len(path) > LONGEST or "\0" in path:
        return ""  # no path at all, which the tool will say
    parts = _folded(Path(os.path.realpath(workspace / path)))
    below = parts[len(_folded(Path(os.path.realpath(workspace)))) :]
    if any(name in below for name in UNWRITABLE):
        return "git's own files are not written"
    if any(parts[: len(_folded(file))] == _folded(file) for file in files):
        return "it holds the user's settings for this program"
    return ""


def _folded(path: Path) -> tuple[str, ...]:
    return tuple(part.casefold() for part in path.parts)
