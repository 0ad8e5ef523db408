"""The folders of a project: the workspace, and those above it up to the one with .git.

In a folder above that several users share, such as /tmp, anybody may put a repository or instructions for agents. So
what is there counts only if it belongs to this user, to root, or to the owner of the workspace, as for git without
safe.directory.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

GIT = ".git"


def get_owners(workspace: Path) -> frozenset[int]:
    """The ids of those whose files count in the folders above the workspace."""
    owners = {0, os.geteuid()} if hasattr(os, "geteuid") else set()
    with suppress(OSError):
        owners.add(workspace.stat().st_uid)
    return frozenset(owners)


def is_owned(path: Path, owners: Collection[int]) -> bool:
    """Whether a file or folder belongs to one of `owners`, and if it is a link, what it leads to as well."""
    try:
        return path.lstat().st_uid in owners and path.stat().st_uid in owners
    except OSError:  # it is not there, or a folder above may not be entered
        return False


def list_folders(workspace: Path, owners: Collection[int] | None = None) -> list[Path]:
    """The workspace and its parents up to the one with .git; only the workspace if there is none.

    `owners`: whose .git counts in a parent; None: as get_owners says.
    """
    if owners is None:
        owners = get_owners(workspace)
    for count, folder in enumerate((workspace, *workspace.parents)):
        if is_owned(folder / GIT, owners) or (not count and os.access(folder / GIT, os.F_OK)):
            return [workspace, *workspace.parents][: count + 1]
    return [workspace]
