"""What is below a folder: where a path leads, and opening that without following a link.

A path is resolved once, by `find_relative`. The result holds no link, and it is what rules are compared with. Each of
its components is then opened from the one before it with O_NOFOLLOW: a link that is met there was put there since, and
is refused. openat2() would do the same on Linux alone, and not faster.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
STEP = FOLDER | getattr(os, "O_PATH", 0)  # to pass through a folder one need not be allowed to list it
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
LINK_ERRORS = (errno.ELOOP, errno.EMLINK, errno.ENOTDIR)  # of O_NOFOLLOW, depending on the system
LINK_MET = "it changed meanwhile, or is a circle of links: a link is in its place or on the way to it"
MAX_PATH_CHARS = 4096  # the cost of resolving a path grows with the square of its length


class LinkMet(OSError):
    """A link is where a resolved path has none."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, LINK_MET, path)


def find_relative(path: str, top: Path) -> str | None:
    """Where a path leads, relative to `top` ("." is `top` itself); None if out of it, or not to be found."""
    if len(path) > MAX_PATH_CHARS:
        return None
    try:
        root, real = os.path.realpath(top), os.path.realpath(top / path)
    except (ValueError, OSError):  # it holds a NUL or a lone surrogate; a link that may not be read, as /proc/1/root
        return None
    if real == root:
        return "."
    above = root.rstrip("/") + "/"
    return real[len(above) :] if real.startswith(above) else None


def find_place(path: str, workspace: Path, added: Sequence[Path] = ()) -> str | None:
    """Where a path leads: below the workspace as find_relative, in one of the `added` folders the whole path.

    None if it is in none of them. `added` are resolved.
    """
    place = find_relative(path, workspace)
    if place is None:
        for top in added:
            below = find_relative(str(workspace / path), top)
            if below is not None:
                return str(top / below)
    return place


def split_place(place: str, workspace: Path, added: Sequence[Path] = ()) -> tuple[Path, str]:
    """The folder that a place is in, and its path below that."""
    for top in added:
        if place.startswith(f"{top}/"):
            return top, place[len(f"{top}/") :]
        if place == str(top):
            return top, "."
    return workspace, place


def open_top(top: Path) -> int:
    """A descriptor of the folder that paths are below, which may be given by a link. Raises OSError."""
    return os.open(os.path.realpath(top), FOLDER)


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path`, which is relative to the descriptor `folder`, and return its descriptor.

    Raises OSError, LinkMet for a link; also for a path that is absolute or has a component "..".
    """
    *above, name = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    if path.startswith("/") or ".." in (*above, name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = folder
    try:
        for part in above:
            below = _open(part, STEP, here)
            if here != folder:
                os.close(here)
            here = below
        return _open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, here)
    finally:
        if here != folder:
            os.close(here)


def read_beneath(top: Path, path: str) -> tuple[os.stat_result, bytes | None]:
    """The state of what is at a path below `top`, and the content of a file or the target of a link; else None.

    Only the last component may be a link. Raises OSError.
    """
    above, _, name = path.rpartition("/")
    root = open_top(top)
    try:
        folder = open_beneath(root, above or ".", STEP)
    finally:
        os.close(root)
    try:
        status = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return status, os.fsencode(os.readlink(name, dir_fd=folder))
        return status, read_file(name, folder) if stat.S_ISREG(status.st_mode) else None
    finally:
        os.close(folder)


def read_file(name: str, folder: int, max_bytes: int | None = None) -> bytes | None:
    """The content of a regular file in the folder; None if it is larger. Raises OSError, also for other kinds."""
    with to_regular_file(open_beneath(folder, name, READ)) as file:
        is_larger = max_bytes is not None and os.fstat(file.fileno()).st_size > max_bytes
        return None if is_larger else file.read()


def open_file(top: Path, path: str) -> BinaryIO:
    """Open a regular file at a path below `top`, for reading. Raises OSError."""
    folder = open_top(top)
    try:
        return to_regular_file(open_beneath(folder, path, READ))
    finally:
        os.close(folder)


def to_regular_file(descriptor: int) -> BinaryIO:
    """The file of a descriptor. Raises OSError, and closes it, if it is no regular file."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return os.fdopen(descriptor, "rb")


def get_mark(status: os.stat_result) -> tuple[int, ...]:
    """Mode, number of names, inode, size and times, which change whenever a file does.

    A command can set back one of the times, but not the other.
    """
    return (status.st_mode, status.st_nlink, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def stat_beneath(folder: int, name: str) -> os.stat_result:
    """The state of what has this name in the folder. Raises OSError, LinkMet for a link."""
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        raise LinkMet(name)
    return status


def _open(name: str, flags: int, folder: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in LINK_ERRORS:
            stat_beneath(folder, name)
        raise
