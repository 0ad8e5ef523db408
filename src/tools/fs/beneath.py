"""Opening what lies below a folder, following nothing on the way: by openat2(2) in one step, else by many.

Linux has openat2 since 5.6; Python has no name for it, so it is called by its number through ctypes. With
RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS the kernel itself refuses a path that leaves the folder or meets a
link, at whatever moment it was put there. Where it is missing, or a container's filter forbids it, each
component is opened from the one before it with O_NOFOLLOW, which refuses the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

OPENAT2 = 437  # on every architecture
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
RESOLVE = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ATTEMPTS = 10  # EAGAIN: something was renamed while the kernel looked

Open = Callable[[int, str, int], int]  # folder, path below it, flags -> descriptor; raises OSError


def open_beneath(folder: int, path: str, flags: int) -> int:
    """A descriptor of what is at `path` below `folder`. Raises OSError, also for a link and for what leads out."""
    return _way()(folder, path, flags)


def by_kernel(folder: int, path: str, flags: int) -> int:
    """In one step. Raises OSError, with ENOSYS where the kernel cannot."""
    import ctypes  # start-up is measured

    how = (ctypes.c_uint64 * 3)(flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0, RESOLVE)  # struct open_how
    encoded = os.fsencode(path)
    number = 0
    for _ in range(ATTEMPTS):
        descriptor: int = _libc().syscall(OPENAT2, folder, encoded, ctypes.byref(how), ctypes.sizeof(how))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != 11:  # EAGAIN
            break
    raise OSError(number, os.strerror(number), path)


def by_steps(folder: int, path: str, flags: int) -> int:
    """The same, one component after the other."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts or path.startswith("/"):
        raise OSError(18, os.strerror(18), path)  # EXDEV, as the kernel says
    if path.rpartition("/")[2] in ("", "."):
        flags |= os.O_DIRECTORY
    if not parts:
        return os.open(path and ".", flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    here = folder
    try:
        for part in parts[:-1]:
            below = os.open(part, FOLDER, dir_fd=here)
            if here != folder:
                os.close(here)
            here = below
        return os.open(parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=here)
    finally:
        if here != folder:
            os.close(here)


@cache
def _way() -> Open:
    """The kernel's, where it has one and may be asked: tried once."""
    root = os.open("/", FOLDER)
    try:
        os.close(by_kernel(root, ".", FOLDER))
    except (OSError, AttributeError):  # the latter: a system whose C library has no syscall()
        return by_steps
    finally:
        os.close(root)
    return by_kernel


@cache
def _libc() -> Any:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    return libc
