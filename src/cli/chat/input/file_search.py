"""The files of the workspace and of added folders that `@` finds: what git lists, or a bounded walk elsewhere.

A path matches if it holds the typed characters in their order, in any case. Best are paths whose last part begins with
them, then those that hold them together, then the rest; of equals the shorter ones.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

MAX_FILES = 100_000  # of a repository
MAX_WALKED_ENTRIES = 20_000  # outside of one
MAX_WALK_S = 0.5
GIT_TIMEOUT_S = 3.0
MAX_MATCHES = 50
MIN_AGE_S = 5.0  # of a list, before it is made again
AGE_FACTOR = 20  # the same, in times that making it took
# Nothing that the repository's configuration names is run.
LIST_OPTIONS = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "ls-files", "-coz")
SKIPPED_FOLDERS = ("node_modules", "__pycache__")


class FileIndex:
    """The files below `root`, and in `added`, listed when they are first searched, and again some seconds later."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.monotonic, added: Sequence[Path] = ()) -> None:
        self._root = root
        self._added = added
        self._clock = clock
        self._paths: list[str] = []
        self._expires = -1.0

    def search(self, typed: str) -> list[str]:
        """The best matches, the best first; folders end in a slash."""
        if (now := self._clock()) >= self._expires:
            self._paths = list_paths(self._root, self._added)
            took = self._clock() - now
            self._expires = now + max(MIN_AGE_S, AGE_FACTOR * took)
        matches = iter(match_paths(typed, self._paths))
        existing = (path for path in matches if os.path.lexists(self._root / path))  # git lists deleted files, too
        return [path for path, _ in zip(existing, range(MAX_MATCHES), strict=False)]


def list_paths(root: Path, added: Sequence[Path] = ()) -> list[str]:
    """Paths of files, and of the folders that hold them, relative to `root`; those in `added` are whole."""
    paths: list[str] = []
    for top in (root, *added):
        files = dict.fromkeys(_list_by_git(top, (root, *added))[:MAX_FILES] or _walk(top))
        folders = {parent: None for path in files for parent in _list_parents(path)}
        before = "" if top == root else f"{top}/"
        paths += [f"{before}{path}" for path in (*files, *folders)]
    return paths


def match_paths(typed: str, paths: list[str]) -> list[str]:
    """The paths that hold the typed characters in their order, the best first."""
    # Each part can match in one way only, so that no path takes more than a pass.
    wanted = re.compile("".join(f"[^{re.escape(each)}]*{re.escape(each)}" for each in typed), re.IGNORECASE | re.DOTALL)
    lower = typed.lower()

    def rank(path: str) -> tuple[int, int, str]:
        name = path.rstrip("/").rpartition("/")[2].lower()
        fit = (name.startswith(lower), lower in name, lower in path.lower(), bool(wanted.match(name)), True)
        return fit.index(True), len(path), path

    return sorted(filter(wanted.match, paths), key=rank)


def _list_by_git(root: Path, tops: Sequence[Path]) -> list[str]:
    """Tracked and new files, without ignored ones; none outside of a repository, and in a folder that it ignores.

    `tops`: folders that may be written to, so a git in them is not the user's own.
    """
    import subprocess  # start-up is measured

    from ....tools.process.proc import find_program

    if not (git := find_program("git", os.environ.get("PATH", os.defpath), tops)):
        return []
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [git, *LIST_OPTIONS, "--exclude-standard"],
            cwd=root,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]


def _walk(root: Path) -> Iterator[str]:
    """Files in the order of their depth, without hidden ones, until the time or the number of entries is reached."""
    deadline, seen, waiting = time.monotonic() + MAX_WALK_S, 0, [""]
    for prefix in waiting:
        try:
            with os.scandir(root / prefix) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MAX_WALKED_ENTRIES or time.monotonic() > deadline:
                        return
                    if entry.name.startswith(".") or entry.name in SKIPPED_FOLDERS:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(f"{prefix}{entry.name}/")
                    else:
                        yield prefix + entry.name
        except OSError:  # it may not be read, or is gone
            continue


def _list_parents(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rstrip("/").rpartition("/")[0]
        if path:
            yield f"{path}/"
