"""The kernel's own means, by ctypes: what is called between fork and exec is made ready before.

Landlock: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h; its three system calls
have the same numbers on every machine. Needs no rights and no program.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 24, 22, 36, 38
SECCOMP_MODE_FILTER = 2
SIGKILL = 9

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
MAKE_CHAR, MAKE_BLOCK, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the others are a folder's
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the ABI they came with
TCP = 0b11  # bind and connect: ABI 4
SCOPES = 0b11  # abstract sockets and signals: ABI 6
ROOTS_OWN = {0, 1, 2, 3, 4, 6, 7}  # capabilities on files of others and on its own user: what root works with
LAST_CAPABILITY = 63

libc = ctypes.CDLL(None, use_errno=True)
_syscall, _prctl = libc.syscall, libc.prctl
_syscall.restype = ctypes.c_long


class Filter(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; 0: none, or switched off."""
    return max(0, int(_syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


class Rules(NamedTuple):
    """What may be done to files below each path; where there is none, nothing is allowed."""

    readable: Iterable[Path]
    writable: Iterable[Path]
    devices: Iterable[Path] = ()  # read and written, but not made


def ruleset(rules: Rules, abi: int, *, network: bool) -> int:
    """A file descriptor of a Landlock ruleset. Raises OSError."""
    handled = FILE_RIGHTS[max(each for each in FILE_RIGHTS if each <= abi)]
    fields = (handled, 0 if network or abi < 4 else TCP, SCOPES if abi >= 6 else 0)
    attributes = struct.pack("=QQQ", *fields)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    fd = int(_syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)))
    if fd < 0:
        raise _failed("landlock_create_ruleset")
    for paths, rights in (
        (rules.readable, READ),
        (rules.writable, handled & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)),
        (rules.devices, READ_FILE | WRITE_FILE),
    ):
        for path in paths:
            with suppress(FileNotFoundError, PermissionError):
                _allow(fd, path, rights & handled)
    return fd


def _allow(ruleset_fd: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            rights &= OF_FILES
        attributes = struct.pack("=Qi", rights, place)
        if _syscall(ADD_RULE, ctypes.c_int(ruleset_fd), ctypes.c_int(1), attributes, ctypes.c_uint(0)):
            raise _failed("landlock_add_rule")
    finally:
        os.close(place)


class Confinement:
    """Called in the child between fork and exec: from then on the rules hold, for it and all it starts."""

    def __init__(self, ruleset_fd: int, filter_program: bytes, *, root: bool) -> None:
        self._ruleset = ctypes.c_int(ruleset_fd)
        self._filter = Filter(len(filter_program) // 8, filter_program)
        self._address = ctypes.byref(self._filter)
        self._dropped = [each for each in range(LAST_CAPABILITY) if root and each not in ROOTS_OWN]
        self._zero = ctypes.c_ulong(0)
        self._one = ctypes.c_ulong(1)

    def __call__(self) -> None:
        for each in self._dropped:
            _prctl(PR_CAPBSET_DROP, ctypes.c_ulong(each), self._zero, self._zero, self._zero)  # fails past the last
        if (
            _prctl(PR_SET_NO_NEW_PRIVS, self._one, self._zero, self._zero, self._zero)
            or _syscall(RESTRICT_SELF, self._ruleset, ctypes.c_uint(0))
            or _prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), self._address, self._zero, self._zero)
        ):
            raise _failed("the sandbox")


def die_with_parent() -> None:
    """To be called in a child: it is killed when the thread that started it ends."""
    _prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(SIGKILL), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def adopt_orphans() -> None:
    """Make whatever is orphaned below this process its child, so that it can be found."""
    zero = ctypes.c_ulong(0)
    _prctl(PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1), zero, zero, zero)


def _failed(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
