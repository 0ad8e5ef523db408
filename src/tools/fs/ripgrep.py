"""ripgrep, where it is found: it tells fast which files hold a word. Which lines match is decided elsewhere.

So what it says can only leave out files in which nothing could match, and the result is the same without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ..sdk.context import ToolContext

SECONDS = 20.0
FLAGS = ("--no-config", "--no-messages", "--files-with-matches", "--null", "--text", "--fixed-strings")


def find_rg(ctx: ToolContext) -> str:
    """Its path, or "". One that lies in the workspace is not the user's, and is not run."""
    from shutil import which

    found = os.path.realpath(which("rg", path=ctx.environment.get("PATH", "")) or "/")
    return "" if found == "/" or Path(found).is_relative_to(os.path.realpath(ctx.workspace)) else found


def holding(
    rg: str, words: Sequence[str], files: Sequence[str], workspace: Path, *, ignore_case: bool
) -> set[str] | None:
    """Those of the files that hold one of the words; None where it cannot be told."""
    import subprocess

    patterns = [argument for word in words for argument in ("-e", word)]
    case = ["--ignore-case"] if ignore_case else ["--case-sensitive"]
    try:
        done = subprocess.run(  # noqa: S603 - the user's own rg, with words and paths as they are
            [rg, *FLAGS, *case, *patterns, "--", *(f"./{file}" for file in files)],
            cwd=workspace,
            env={"PATH": os.defpath},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode not in (0, 1):
        return None
    return {os.fsdecode(name).removeprefix("./") for name in done.stdout.split(b"\0") if name}
