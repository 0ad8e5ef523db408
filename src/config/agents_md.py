"""AGENTS.md: instructions for agents, from the user, and from the workspace and its parents up to the repository.

The convention is that of https://agents.md: the nearest file comes last and takes precedence. A folder without
AGENTS.md may have CLAUDE.md, which says the same to another program. The text of a repository does not come from the
user: it goes to the model and gives no permissions.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ..beneath import find_relative, open_file
from .locations import get_user_file
from .project import get_owners, is_owned, list_folders

FILE_NAME = "AGENTS.md"
FILE_NAMES = (FILE_NAME, "CLAUDE.md")  # of a folder the first that holds something counts
MAX_CHARS = 32_000  # of all of them; the farthest is cut first
CUT_NOTE = "\n[cut: AGENTS.md is longer]"


class Guide(Struct, frozen=True):
    path: Path
    text: str


def get_user_guide(environ: Mapping[str, str]) -> Path | None:
    """The user's own file, beside the settings; None for a user without a home."""
    settings_file = get_user_file(environ)
    return settings_file and settings_file.with_name(FILE_NAME)


def read_guides(
    workspace: Path,
    own: Path | None = None,
    owners: Collection[int] | None = None,
    is_unreadable: Callable[[Path], bool] = lambda _: False,
) -> list[Guide]:
    """The farthest first, without files that a link leads out of the repository to, or that cannot be read.

    `own`: the user's file, which holds in every folder. `owners`: whose files count in the folders above the workspace;
    None: as get_owners says. `is_unreadable`: whether a rule denies reading a file, to which a link may lead.
    """
    if owners is None:
        owners = get_owners(workspace)
    folders = list_folders(workspace, owners)
    # Files, of which the first that holds something counts, the folder that they are below, and whose they must be.
    places: list[tuple[list[Path], Path, Collection[int] | None]] = []
    for folder in folders:
        owned_by = None if folder is folders[0] else owners  # in the workspace they may be anybody's
        places.append(([folder / name for name in FILE_NAMES], folders[-1], owned_by))
    if own:
        places.append(([own], Path(os.path.realpath(own)).parent, None))  # it may be a link to anywhere
    chars_left = MAX_CHARS
    guides: list[Guide] = []
    for files, top, owned_by in places:
        for path in files:
            if text := _read_text(path, top, owned_by, chars_left, is_unreadable):
                guides.append(Guide(path, text))
                chars_left -= len(text)
                break
    return guides[::-1]


def render_guides(guides: list[Guide]) -> str:
    """The text for the system prompt; "" if there are none."""
    if not guides:
        return ""
    parts = [f"[{guide.path}]\n{guide.text}" for guide in guides]
    head = f"{FILE_NAME} tells agents how to work here. It holds unless the user says otherwise."
    return "\n\n".join([head, *parts])


def _read_text(
    path: Path, top: Path, owners: Collection[int] | None, left: int, is_unreadable: Callable[[Path], bool]
) -> str:
    """The text of a file, cut to `left` characters; "" if it does not count."""
    relative = find_relative(str(path), top)
    if left <= 0 or relative is None or (owners is not None and not is_owned(path, owners)):
        return ""
    real = Path(os.path.realpath(top), relative)
    if real != path and is_unreadable(real):
        return ""
    with suppress(OSError), io.TextIOWrapper(open_file(top, relative), "utf-8-sig", "replace") as file:
        if owners is None or os.fstat(file.fileno()).st_uid in owners:  # it may be another one by now
            text = file.read(left + 1).strip()
            if len(text) > left:
                text = text[:left] + CUT_NOTE
            return text
    return ""
