"""Where a file tool may go: to a regular file inside the workspace or an added folder, and nowhere else.

There are two steps. `resolve` follows links and `..`; the result must lie in one of these folders, else it raises a
clear error. For a call on which the policy has decided, the first step was taken there (`find_target`). Then the file
is opened beneath that folder without following a link (beneath.py): what was decided on is opened, or nothing, whatever
changes between the steps.

POSIX only, since it needs openat(). Paths are not expanded: `$HOME` and `*` are plain names.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from ...beneath import FOLDER, MAX_PATH_CHARS, READ, STEP, find_place, open_beneath, split_place, stat_beneath
from ...errors import ToolError
from ...types.file_names import UNPASSABLE, escape_name
from ...types.messages import ToolCall

Replace = Callable[["Target", bytes, "tuple[Path, ...]"], object]
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
}


class Target(Struct, frozen=True):
    """A path as the model gave it, for messages, and the components below the folder `top` that it leads to.

    None of these is a link. `top` is the workspace or an added folder.
    """

    name: str
    top: Path
    parts: tuple[str, ...]


def resolve(path: str, workspace: Path, added: Sequence[Path] = ()) -> Target:
    """Find where a path leads. Raises ToolError if that is neither inside the workspace nor in an added folder."""
    if len(path) > MAX_PATH_CHARS:
        raise ToolError(f"a path of {len(path):,} characters is too long")
    if not path.strip() or UNPASSABLE.search(path):
        raise ToolError(f"{path!a} is not a path")
    if path == "~" or path.startswith("~/"):
        raise ToolError(f"{escape_name(path)}: ~ is not expanded", "Give a path relative to the workspace.")
    place = find_place(path, workspace, added)
    if place is None:
        raise ToolError(
            f"{escape_name(path)} is outside the workspace", "Only files inside the workspace can be reached."
        )
    return make_target(path, workspace, place, added)


def find_target(path: str, workspace: Path, call: ToolCall | None, added: Sequence[Path] = ()) -> Target:
    """Where the path of a call leads: what the policy decided on, or, where no policy decides, where it leads now."""
    if call and call.real_path is not None and call.arguments.get("path") == path:
        return make_target(path, workspace, call.real_path, added)
    return resolve(path, workspace, added)


def make_target(path: str, workspace: Path, place: str, added: Sequence[Path] = ()) -> Target:
    """The target of a path that leads to this place, see find_place."""
    top, below = split_place(place, workspace, added)
    return Target(escape_name(path or "."), Path(os.path.realpath(top)), Path(below).parts)


def get_place(target: Target, added: Sequence[Path]) -> str:
    """The target relative to the workspace; in an added folder the whole path. See find_place."""
    if target.top in added:
        return str(target.top.joinpath(*target.parts))
    return "/".join(target.parts)


def refuse_protected(target: Target, protected: tuple[Path, ...]) -> None:
    """Raise ToolError for what no tool may write: git's own files, whose hooks are programs, and `protected`.

    Case is ignored, since some file systems ignore it.
    """
    parts = _casefold(target.parts)
    if ".git" in parts:
        raise ToolError(f"{target.name}: git's own files are not written", "Use git through a command.")
    real = _casefold(target.top.parts) + parts
    for path in protected:
        if real[: len(path.parts)] == _casefold(path.parts):
            raise ToolError(f"{target.name} is protected: it holds settings or the state of this program")


def _casefold(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.casefold() for part in parts)


@contextmanager
def open_parent(target: Target, *, create: bool = False) -> Iterator[int]:
    """Give a descriptor of the folder that holds the target; with `create`, make missing folders.

    If the block raises, the folders made are removed again unless they hold something by then. This goes by the
    descriptors they were made with, which stay open until then, since a path may lead elsewhere by now.
    """
    if not target.parts:
        raise ToolError(f"{target.name} is a folder")
    made: list[tuple[str, int]] = []
    with ExitStack() as opened:
        flags, steps = STEP, ["/".join(target.parts[:-1]) or "."]
        if create:  # each for itself
            flags, steps = FOLDER, [*target.parts[:-1]]
        folder = os.open(target.top, flags)
        opened.callback(os.close, folder)
        try:
            for step in steps:
                if create and _make_folder(step, folder):
                    made.append((step, folder))
                folder = open_beneath(folder, step, flags)
                opened.callback(os.close, folder)
            yield folder
        except BaseException:
            for name, parent in reversed(made):
                with suppress(OSError):
                    os.rmdir(name, dir_fd=parent)
            raise


def _make_folder(name: str, folder: int) -> bool:
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        return False
    return True


def open_folder(target: Target) -> int:
    """Open the target if it is a folder. Raises OSError."""
    top = os.open(target.top, STEP)
    try:
        return open_beneath(top, "/".join(target.parts) or ".", FOLDER)
    finally:
        os.close(top)


def stat_file(target: Target, folder: int) -> os.stat_result:
    """The state of a regular file. Raises ToolError for a device, a pipe or a folder, and FileNotFoundError."""
    state = stat_beneath(folder, target.parts[-1])
    _refuse_special(target, state)
    return state


def find_writable(target: Target, folder: int) -> os.stat_result | None:
    """The state of a regular file that may be written; None if there is none. Raises ToolError for another one."""
    try:
        state = stat_file(target, folder)
    except FileNotFoundError:
        return None
    if not os.access(target.parts[-1], os.W_OK, dir_fd=folder):
        raise ToolError(f"{target.name} is read-only")
    return state


def open_to_read(target: Target) -> int:
    """Open a regular file. Its kind is checked before, since opening some devices has an effect."""
    with open_parent(target) as folder:
        stat_file(target, folder)
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
        raise ToolError(f"{target.name} is {KINDS.get(kind, 'no file')}")


def replace(target: Target, data: bytes, protected: tuple[Path, ...], expected: os.stat_result | None = None) -> bool:
    """Replace or create a file in one step; True if it is new.

    `expected` is the state of the file that `data` was made from. Raises ToolError if it has been changed since.

    The data goes to a temporary file beside it, which is then renamed: a reader sees the old content or the new one,
    another hard link keeps the old one, and a crash loses neither. If that fails, the temporary file is removed. The
    permissions stay, except for set-user-ID and set-group-ID.
    """
    refuse_protected(target, protected)
    with open_parent(target, create=True) as folder:
        name = target.parts[-1]
        old = find_writable(target, folder)  # renaming does not check that
        temporary = f".vllm-bot-{os.urandom(8).hex()}.tmp"
        try:
            _write_whole(temporary, data, folder, old, name)
            if expected:  # right before the renaming: a change between the two is not noticed
                now = stat_file(target, folder)
                if (now.st_ino, now.st_mtime_ns, now.st_size) != (
                    expected.st_ino,
                    expected.st_mtime_ns,
                    expected.st_size,
                ):
                    raise ToolError(f"{target.name} was changed meanwhile, and not by this edit", "Read it again.")
            os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary, dir_fd=folder)
            raise
        os.fsync(folder)
    return old is None


def put_back(
    target: Target, content: bytes | None, mode: int, protected: tuple[Path, ...], write: Replace = replace
) -> None:
    """Make the target a file, link or folder as its mode says, with this content; remove it if it has neither.

    `write` puts the content into a file.
    `mode`: 0 is a file that keeps its mode. What is of another kind is removed first, a folder only if it is empty.
    Raises OSError, and ToolError for what no tool may write.
    """
    refuse_protected(target, protected)
    name, kind = target.parts[-1], stat.S_IFMT(mode)
    if content is not None:
        kind = kind or stat.S_IFREG
    with open_parent(target, create=bool(kind)) as folder:
        with suppress(FileNotFoundError):
            _clear_place(name, folder, kind)
        if kind == stat.S_IFLNK:
            os.symlink(content or b"", name, dir_fd=folder)
        elif kind == stat.S_IFDIR:
            _make_folder(name, folder)
    if kind == stat.S_IFREG:
        write(target, content or b"", protected)
    if mode and kind != stat.S_IFLNK:
        _set_mode(target, mode)


def _clear_place(name: str, folder: int, kind: int) -> None:
    """Remove what is of another kind, and a link, which cannot be changed. Raises OSError."""
    was = stat.S_IFMT(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    if was == stat.S_IFDIR and kind != was:
        os.rmdir(name, dir_fd=folder)
    elif was != kind or kind == stat.S_IFLNK:
        os.unlink(name, dir_fd=folder)


def _set_mode(target: Target, mode: int) -> None:
    with open_parent(target) as folder:
        descriptor = open_beneath(folder, target.parts[-1], READ)
    try:
        os.fchmod(descriptor, stat.S_IMODE(mode) & 0o1777)
    finally:
        os.close(descriptor)


def _write_whole(temporary: str, data: bytes, folder: int, old: os.stat_result | None, name: str) -> None:
    descriptor = os.open(temporary, CREATE, 0o600 if old else 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        if old:
            with suppress(PermissionError):  # only root can give a file away; the content matters more
                os.fchown(descriptor, old.st_uid, old.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & 0o1777)
            _keep_attributes(descriptor, name, folder)
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def _keep_attributes(descriptor: int, name: str, folder: int) -> None:
    """Copy access lists and other attributes; without its list, a file's group would get the rights of its mask.

    Capabilities are left out, as set-user-ID is.
    """
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError), os.fdopen(os.open(name, READ, dir_fd=folder), "rb") as old:
        for each in os.listxattr(old.fileno()):
            if each != "security.capability":
                with suppress(OSError):
                    os.setxattr(descriptor, each, os.getxattr(old.fileno(), each))
