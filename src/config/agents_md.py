"""What a project tells agents that work on it: AGENTS.md, of the workspace and of its parents up to the repository.

The convention is that of https://agents.md: the file nearest to the work comes last, and so has the last word. It
is text of the repository's, not of the user's: what it says goes to the model, and gives it no permission.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

NAME = "AGENTS.md"
LONGEST = 32_000  # characters of all of them; the farthest gives way first
CUT = "\n[cut: AGENTS.md is longer]"


class Guide(NamedTuple):
    path: Path
    text: str


def guides(workspace: Path) -> list[Guide]:
    """The farthest first. One that leads out of the repository by a link, or cannot be read, is left out."""
    folders = _up_to_repository(workspace)
    room = LONGEST
    found: list[Guide] = []
    for folder in folders:
        text = _text(folder / NAME, folders[-1], room)
        if text:
            found.append(Guide(folder / NAME, text))
            room -= len(text)
    return found[::-1]


def as_prompt(found: list[Guide]) -> str:
    """For the system prompt; empty where there is none."""
    if not found:
        return ""
    parts = [f"[{guide.path}]\n{guide.text}" for guide in found]
    head = f"This project's {NAME} tells agents how to work here. It holds unless the user says otherwise."
    return "\n\n".join([head, *parts])


def _up_to_repository(workspace: Path) -> list[Path]:
    """The workspace, and its parents up to the one that holds .git; itself alone where none does."""
    folders: list[Path] = []
    for folder in (workspace, *workspace.parents):
        folders.append(folder)
        if os.access(folder / ".git", os.F_OK):  # Path.exists raises where a folder above may not be entered
            return folders
    return [workspace]


def _text(path: Path, top: Path, room: int) -> str:
    with suppress(OSError):
        real = Path(os.path.realpath(path))
        if room > 0 and real.is_file() and real.is_relative_to(os.path.realpath(top)):
            with real.open(encoding="utf-8-sig", errors="replace") as file:
                text = file.read(room + 1).strip()
            return text if len(text) <= room else text[:room] + CUT
    return ""
