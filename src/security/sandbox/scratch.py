"""Folders for temporary files, each locked by the programs that use it: after kill -9, the next start removes it."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from .running_files import walk

SANDBOX_PREFIX = "vllm-bot-sandbox-"
BATCH_PREFIX = "vllm-bot-tasks-"  # a new name: batches of an older version, which hold no lock, may still run
SOCKETS_PREFIX = "botmp-"  # short: a socket's path has at most 107 bytes
PREFIXES = SANDBOX_PREFIX, BATCH_PREFIX, SOCKETS_PREFIX


def hold_folder(folder: Path) -> int:
    """Make the folder if there is none, and keep it until the descriptor is closed or this program ends.

    Raises OSError, also for a folder of another user.
    """
    while True:
        with suppress(FileExistsError):  # Path.mkdir looks at it again, when another program may have removed it
            os.mkdir(folder, 0o700)  # noqa: PTH102
        with suppress(FileNotFoundError):  # another program removed it before it was locked
            descriptor = _open_own(folder)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            with suppress(FileNotFoundError):  # or meanwhile, and perhaps another one has its name
                if os.path.samestat(os.fstat(descriptor), folder.lstat()):
                    return descriptor
            os.close(descriptor)


def remove_tree(folder: Path) -> None:
    """Remove all that can be removed, also below folders that a command, or we, have closed to us."""
    for _ in walk(folder, os.R_OK | os.W_OK | os.X_OK):
        pass
    shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned(temporary: Path) -> None:
    """Remove the folders of this user in `temporary` that no program holds."""
    with os.scandir(temporary) as entries:  # there may be thousands
        names = [entry.name for entry in entries if entry.name.startswith(PREFIXES)]
    for folder in (temporary / name for name in names):
        with suppress(OSError):  # it is another user's, or just gone
            descriptor = _open_own(folder)
            with suppress(BlockingIOError):  # it is held
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            os.close(descriptor)


def is_abandoned(folder: Path) -> bool:
    """Whether no program holds the folder, or it is gone; False for one of another user."""
    try:
        descriptor = _open_own(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(descriptor)


def _open_own(folder: Path) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    if os.fstat(descriptor).st_uid != os.geteuid():
        os.close(descriptor)
        raise PermissionError(f"{folder} is another user's")
    return descriptor
