"""Where a file tool may go: to a regular file inside the workspace, and nowhere else.

Two steps. First the path is resolved, links and `..` and all, and must lead into the workspace; this says
where it goes and gives a clear error. Then it is opened from the workspace's own descriptor, following
nothing: the resolved path holds no link, so one that is met was put there meanwhile, and
is refused. Whatever changes between the steps, nothing outside is ever opened.

POSIX only: it needs openat() and its kin. Paths are never expanded: `$HOME` and `*` are plain names.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...errors import ToolError

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
STEP = FOLDER | getattr(os, "O_PATH", 0)  # to pass through a folder one need not be allowed to list it
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
LONGEST = 4096  # characters of a path; the cost of resolving one grows with the square of its length
UNPASSABLE = re.compile("[\0\ud800-\udfff]")  # no system takes a NUL, and a lone surrogate is no character
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads nowhere",
}


class Target(NamedTuple):
    """A path as the model gave it, and where it leads: components below the workspace, none of them a link."""

    given: str
    workspace: Path
    parts: tuple[str, ...]


def resolve(path: str, workspace: Path) -> Target:
    """Where a path leads; ToolError if that is not inside the workspace."""
    if len(path) > LONGEST:
        raise ToolError(f"a path of {len(path):,} characters is too long")
    if not path.strip() or UNPASSABLE.search(path):
        raise ToolError(f"{path!a} is not a path")
    if path == "~" or path.startswith("~/"):
        raise ToolError(f"{path}: ~ is not expanded", "Give a path relative to the workspace.")
    root, real = (Path(os.path.realpath(each)) for each in (workspace, workspace / path))
    if not real.is_relative_to(root):
        raise ToolError(f"{path} is outside the workspace", "Only files inside the workspace can be reached.")
    return Target(path, root, real.relative_to(root).parts)


def writable(target: Target, protected: tuple[Path, ...]) -> None:
    """ToolError for what no tool may write: git's own files, whose hooks run as code, and what `protected` names.

    Case is folded, since some file systems do.
    """
    parts = _folded(target.parts)
    if ".git" in parts:
        raise ToolError(f"{target.given}: git's own files are not written", "Use git through a command.")
    real = _folded(target.workspace.parts) + parts
    for path in protected:
        if real[: len(path.parts)] == _folded(path.parts):
            raise ToolError(f"{target.given} is protected: it holds settings or the state of this program")


def _folded(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)


@contextmanager
def parent_of(target: Target, *, create: bool = False) -> Iterator[int]:
    """A descriptor of the folder that holds the target; with `create`, missing folders are made.

    Those made are removed again if what they were made for fails, unless somebody uses them by then. They are
    reached by the descriptors they were made with, which stay open for that: no path could be trusted.
    """
    if not target.parts:
        raise ToolError(f"{target.given} is a folder")
    with ExitStack() as opened, ExitStack() as made:
        folder = os.open(target.workspace, FOLDER)
        opened.callback(os.close, folder)
        for step in target.parts[:-1] if create else ["/".join(target.parts[:-1]) or "."]:
            if create and _make(step, folder):
                made.callback(_unmake, step, folder)
            folder = open_beneath(folder, step, FOLDER)
            opened.callback(os.close, folder)
        yield folder
        made.pop_all()


def _make(name: str, folder: int) -> bool:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def _unmake(name: str, folder: int) -> None:
    with suppress(OSError):
        os.rmdir(name, dir_fd=folder)


def state_of(target: Target, folder: int) -> os.stat_result:
    """The state of the regular file there; ToolError for a device, a pipe, a folder. FileNotFoundError passes."""
    state = os.stat(target.parts[-1], dir_fd=folder, follow_symlinks=False)
    _refuse_special(target, state)
    return state


def open_to_read(target: Target) -> int:
    """A descriptor of the target's content; looked at before it is opened, since opening some devices acts."""
    with parent_of(target) as folder:
        state_of(target, folder)
        descriptor = os.open(target.parts[-1], READ, dir_fd=folder)
    try:
        _refuse_special(target, os.fstat(descriptor))
    except ToolError:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_special(target: Target, state: os.stat_result) -> None:
    kind = stat.S_IFMT(state.st_mode)
    if kind != stat.S_IFREG:
        raise ToolError(f"{target.given} is {KINDS.get(kind, 'no file')}")


def replace(target: Target, data: bytes, protected: tuple[Path, ...], seen: os.stat_result | None = None) -> bool:
    """Put `data` there in one step, and say whether the file is new.

    `seen` is the state of the file that `data` was made from: ToolError where somebody changed it since.

    It is written whole beside its place and renamed, so that a reader sees the old or the new, a hard link
    elsewhere keeps the old, and a crash loses neither. The permissions stay, less set-user-ID and its kin.
    """
    writable(target, protected)
    with parent_of(target, create=True) as folder:
        name = target.parts[-1]
        try:
            old = state_of(target, folder)
        except FileNotFoundError:
            old = None
        if old and not os.access(name, os.W_OK, dir_fd=folder):
            raise ToolError(f"{target.given} is read-only")  # which a rename would not ask
        temporary = f".vllm-bot-{os.urandom(8).hex()}.tmp"
        try:
            _write_whole(temporary, data, folder, old, name)
            if seen:
                _refuse_changed(target, seen, folder)
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)
    return old is None


def remove(target: Target) -> None:
    """Remove the regular file there. Raises OSError, and ToolError for what is no regular file."""
    with parent_of(target) as folder:
        state_of(target, folder)
        os.unlink(target.parts[-1], dir_fd=folder)


def _refuse_changed(target: Target, seen: os.stat_result, folder: int) -> None:
    """As late as can be: what happens between this look and the renaming is not seen."""
    now = state_of(target, folder)
    if (now.st_ino, now.st_mtime_ns, now.st_size) != (seen.st_ino, seen.st_mtime_ns, seen.st_size):
        raise ToolError(f"{target.given} was changed meanwhile, and not by this edit", "Read it again.")


def _write_whole(temporary: str, data: bytes, folder: int, old: os.stat_result | None, name: str) -> None:
    descriptor = os.open(temporary, CREATE, 0o600 if old else 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        if old:
            _keep_owner_and_mode(descriptor, old)
            _keep_attributes(descriptor, name, folder)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _keep_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    with suppress(PermissionError):  # only root can give a file away; the content matters more
        os.fchown(descriptor, old.st_uid, old.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o1777)


def _keep_attributes(descriptor: int, name: str, folder: int) -> None:
    """Access lists and the like, where the system has any: without its list a file's group would get its mask's rights.

    What gives a program rights is left out, as set-user-ID is.
    """
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError), os.fdopen(os.open(name, READ, dir_fd=folder), "rb") as old:
        for each in os.listxattr(old.fileno()):
            if each != "security.capability":
                with suppress(OSError):
                    os.setxattr(descriptor, each, os.getxattr(old.fileno(), each))


def open_beneath(folder: int, path: str, flags: int) -> int:
    """Open `path`, which is relative to the descriptor `folder`, without following a link, and return its descriptor.

    Each component is opened from the one before it, with O_NOFOLLOW. Raises OSError, also for a link, and for a path
    that is absolute or has a component "..".
    """
    *above, name = [part for part in path.split("/") if part not in ("", ".")] or ["."]
    if path.startswith("/") or ".." in (*above, name):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = folder
    try:
        for part in above:
            below = os.open(part, STEP, dir_fd=here)
            if here != folder:
                os.close(here)
            here = below
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    finally:
        if here != folder:
            os.close(here)
