"""What the system prompt tells of the environment: date, system, git branch and sandbox, in one short paragraph.

It is made once for a conversation: the prompt stays the same from turn to turn, for the server's cache.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from ..types.messages import ENVIRONMENT_PREFIX
from .project import GIT, list_folders
from .settings import SecuritySettings

MAX_NAME_CHARS = 80  # of a branch


def describe_environment(workspace: Path, security: SecuritySettings, today: str) -> str:
    """The paragraph; at most 150 tokens."""
    system = "Windows"
    if hasattr(os, "uname"):
        host = os.uname()
        system = f"{host.sysname} {host.release.partition('-')[0]} {host.machine}"
    facts = [f"today is {today}", f"the system is {system}"]
    if branch := find_branch(workspace):
        facts.append(f"the git branch is {branch}")
    return f"{ENVIRONMENT_PREFIX}{'; '.join(facts)}. {_describe_sandbox(security)}"


def find_branch(workspace: Path, owners: Collection[int] | None = None) -> str:
    """The branch that is checked out around the workspace, else the beginning of the commit; "" outside of git.

    `owners`: whose repository counts above the workspace; None: as get_owners says.
    """
    folder = list_folders(workspace, owners)[-1]
    git = folder / GIT
    with suppress(OSError, ValueError):
        if git.is_file():  # of a worktree or a submodule
            git = folder / git.read_text(encoding="utf-8").removeprefix("gitdir:").strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref:"):
            head = head[:10]
        name = head.removeprefix("ref: refs/heads/")
        return name[:MAX_NAME_CHARS] if name.isprintable() else ""
    return ""


def _describe_sandbox(security: SecuritySettings) -> str:
    if not security.exec_enabled:
        return "You cannot run commands."
    if security.sandbox == "off":
        return "Commands run without a sandbox."
    network = "reach the network only with access=network"
    if security.sandbox_network:
        network = "reach the network"
    sandbox = "Commands run in a sandbox, where the system has one"
    if security.container_image:
        sandbox = f"Commands run in a container of {security.container_image}"
    return f"{sandbox}: they do not see the home folder, keep temporary files in $TMPDIR, and {network}."
