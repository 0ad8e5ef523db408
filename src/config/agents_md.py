"""AGENTS.md: instructions for agents, from the workspace and its parents up to the repository.

The convention is that of https://agents.md: the nearest file comes last and takes precedence. The text comes from the
repository, not from the user: it goes to the model and gives no permissions.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

FILE_NAME = "AGENTS.md"
MAX_CHARS = 32_000  # of all of them; the farthest is cut first
CUT_NOTE = "\n[cut: AGENTS.md is longer]"


class Guide(NamedTuple):
    path: Path
    text: str


def read_guides(workspace: Path) -> list[Guide]:
    """The farthest first, without files that a link leads out of the repository to, or that cannot be read."""
    folders = _list_folders(workspace)
    left = MAX_CHARS
    found: list[Guide] = []
    for folder in folders:
        text = _read_text(folder / FILE_NAME, folders[-1], left)
        if text:
            found.append(Guide(folder / FILE_NAME, text))
            left -= len(text)
    return found[::-1]


def render_guides(guides: list[Guide]) -> str:
    """The text for the system prompt; "" if there are none."""
    if not guides:
        return ""
    parts = [f"[{guide.path}]\n{guide.text}" for guide in guides]
    head = f"This project's {FILE_NAME} tells agents how to work here. It holds unless the user says otherwise."
    return "\n\n".join([head, *parts])


def _list_folders(workspace: Path) -> list[Path]:
    """The workspace and its parents up to the one with .git; only the workspace if there is none."""
    folders: list[Path] = []
    for folder in (workspace, *workspace.parents):
        folders.append(folder)
        if os.access(folder / ".git", os.F_OK):  # Path.exists raises if a parent may not be entered
            return folders
    return [workspace]


def _read_text(path: Path, top: Path, left: int) -> str:
    with suppress(OSError):
        real = Path(os.path.realpath(path))
        if left > 0 and real.is_file() and real.is_relative_to(os.path.realpath(top)):
            with real.open(encoding="utf-8-sig", errors="replace") as file:
                text = file.read(left + 1).strip()
            return text if len(text) <= left else text[:left] + CUT_NOTE
    return ""
