"""AGENTS.md: instructions for agents, from the user, and from the workspace and its parents up to the repository.

The convention is that of https://agents.md: the nearest file comes last and takes precedence. A folder without
AGENTS.md may have CLAUDE.md, which says the same to another program. The text of a repository does not come from the
user: it goes to the model and gives no permissions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .locations import get_user_file

FILE_NAME = "AGENTS.md"
FILE_NAMES = (FILE_NAME, "CLAUDE.md")  # of a folder the first that holds something counts
MAX_CHARS = 32_000  # of all of them; the farthest is cut first
CUT_NOTE = "\n[cut: AGENTS.md is longer]"


class Guide(NamedTuple):
    path: Path
    text: str


def get_user_guide(environ: Mapping[str, str]) -> Path | None:
    """The user's own file, beside the settings; None for a user without a home."""
    settings_file = get_user_file(environ)
    return settings_file and settings_file.with_name(FILE_NAME)


def read_guides(workspace: Path, own: Path | None = None) -> list[Guide]:
    """The farthest first, without files that a link leads out of the repository to, or that cannot be read.

    `own`: the user's file, which holds in every folder.
    """
    folders = _list_folders(workspace)
    left = MAX_CHARS
    found: list[Guide] = []
    places = [[(folder / name, folders[-1]) for name in FILE_NAMES] for folder in folders]
    if own:
        places.append([(own, Path(os.path.realpath(own)).parent)])  # it may be a link to anywhere
    for candidates in places:
        texts = ((path, _read_text(path, top, left)) for path, top in candidates)
        if guide := next((Guide(path, text) for path, text in texts if text), None):
            found.append(guide)
            left -= len(guide.text)
    return found[::-1]


def render_guides(guides: list[Guide]) -> str:
    """The text for the system prompt; "" if there are none."""
    if not guides:
        return ""
    parts = [f"[{guide.path}]\n{guide.text}" for guide in guides]
    head = f"{FILE_NAME} tells agents how to work here. It holds unless the user says otherwise."
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
