"""The repository outside a workspace that the workspace belongs to, as a linked worktree or as a submodule.

A `.git` file names a folder of git's, and who makes a workspace writes that file: one in an archive may name any
repository of the user's. So the folder counts only if it names the workspace in turn, since that is written by somebody
who may write there: a worktree's folder in `gitdir` (gitrepository-layout(5)), any other in core.worktree.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import Struct

from ...types.file_names import escape_name
from .git_config import find_value
from .running_files import COMMON_DIR, COMMON_LINK, CONFIGS, GIT, GIT_LINK, read_text

WORKTREES = "worktrees"  # the folder in a repository with those of its worktrees
NOT_OPENED = "The repository {folder} is not opened to commands: .git names it, but {why}."
WORKTREE_WHY = "its file gitdir does not name this folder (if the worktree was moved, run `git worktree repair` in it)"
OTHER_WHY = 'its core.worktree is not this folder (if it belongs here, run `git config core.worktree "$PWD"` in it)'
LINK_WHY = ".git is a link"


class Repository(Struct, frozen=True):
    """`folder`: what git must read outside of the workspace; None: nothing. `warning`: what is not opened, and why."""

    folder: Path | None = None
    warning: str = ""


def find_repository(workspace: Path) -> Repository:
    """The repository of the workspace, if it is outside and names the workspace."""
    top = Path(os.path.realpath(workspace))
    mark = top / GIT
    named = GIT_LINK.fullmatch(read_text(mark))
    if not named and not mark.is_symlink():
        return Repository()
    own = Path(os.path.realpath(mark))
    if named:
        own = Path(os.path.realpath(top / named[1]))
    common = own
    shared = COMMON_LINK.fullmatch(read_text(own / COMMON_DIR))
    if shared:
        common = Path(os.path.realpath(own / shared[1]))
    if common.is_relative_to(top) and own.is_relative_to(top):
        return Repository()
    is_worktree = shared is not None or own.parent.name == WORKTREES
    if why := _explain_stranger(own, common, mark, is_worktree=is_worktree):
        return Repository(warning=NOT_OPENED.format(folder=escape_name(common), why=why))
    return Repository(common)


def _explain_stranger(own: Path, common: Path, mark: Path, *, is_worktree: bool) -> str:
    """Why the folder `own` of the repository `common` is not that of the workspace with this `.git`, or ""."""
    if mark.is_symlink():
        return LINK_WHY
    if is_worktree:
        back = COMMON_LINK.fullmatch(read_text(own / "gitdir"))
        if not back or own.parent != common / WORKTREES:
            return WORKTREE_WHY
        named = own / back[1]
        if Path(os.path.realpath(named.parent), named.name) != mark:
            return WORKTREE_WHY
    else:  # with extensions.worktreeConfig it is in the second of CONFIGS
        worktree = find_value("\n".join(read_text(own / name) for name in CONFIGS), "core.worktree")
        if not worktree or Path(os.path.realpath(own / worktree)) != mark.parent:
            return OTHER_WHY
    if not os.access(common / "HEAD", os.F_OK):
        return "there is none"
    return ""
