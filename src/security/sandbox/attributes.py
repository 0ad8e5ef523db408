"""Changes the mode, owner and times of files for a command in a sandbox, only where the command may write.

Landlock knows nothing of these, and a seccomp filter does not see which file a call means. So the filter reports such
a call to this program (SECCOMP_RET_USER_NOTIF), which opens the file itself, looks where it is, and carries out the
change on what it has opened: the command cannot exchange the path in between. Where this program cannot listen, since
a container does, each such call fails. Sources: seccomp_unotify(2), openat2(2) on O_PATH, proc(5).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import re
import select
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Literal

from msgspec import Struct

from .seccomp import CHMOD, FCHMOD, FCHMODAT, FCHMODAT2, NO_CALL, SETGID, SETUID

SECCOMP, SET_MODE_FILTER, NEW_LISTENER = (317, 277), 1, 1 << 3
RECEIVE, SEND, CHECK_ID = 0xC0502100, 0xC0182101, 0x40082102  # ioctls of a listener
NOTIFICATION, RESPONSE = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
AT_FDCWD, NO_FOLLOW, EMPTY_PATH = -100, 0x100, 0x1000
OPENAT2, OPEN_HOW, NO_MAGIC_LINKS = ctypes.c_long(437), struct.Struct("=3Q"), 0x02
OWN_LINK = re.compile(rb"/proc/(?:self|thread-self)/(cwd|root|fd/[0-9]+)(|/.*)", re.DOTALL)
MAX_PATH_BYTES = 4096

libc = ctypes.CDLL(None, use_errno=True)
log = logging.getLogger(__name__)


Kind = Literal["mode", "owner", "times"]


class AttributeCall(Struct, frozen=True):
    """A system call. `numbers`: on x86_64 and aarch64. Of its arguments, -1 for none, the places of the folder, of the
    path (without one, the folder is the file), of the value and of the flags. `unit`: of fractions of a second, in ns;
    0 where the times are whole seconds.
    """

    numbers: tuple[int, int]
    kind: Kind
    folder: int
    path: int
    value: int
    flags: int = -1
    unit: int = 1
    follows_link: bool = True


CALLS = (
    AttributeCall(CHMOD, "mode", -1, 0, 1),
    AttributeCall(FCHMOD, "mode", 0, -1, 1),
    AttributeCall(FCHMODAT, "mode", 0, 1, 2),
    AttributeCall(FCHMODAT2, "mode", 0, 1, 2, 3),
    AttributeCall((92, NO_CALL), "owner", -1, 0, 1),  # chown
    AttributeCall((93, 55), "owner", 0, -1, 1),  # fchown
    AttributeCall((94, NO_CALL), "owner", -1, 0, 1, follows_link=False),  # lchown
    AttributeCall((260, 54), "owner", 0, 1, 2, 4),  # fchownat
    AttributeCall((132, NO_CALL), "times", -1, 0, 1, unit=0),  # utime
    AttributeCall((235, NO_CALL), "times", -1, 0, 1, unit=1000),  # utimes
    AttributeCall((261, NO_CALL), "times", 0, 1, 2, unit=1000),  # futimesat
    AttributeCall((280, 88), "times", 0, 1, 2, 3),  # utimensat
)


def list_numbers(column: int) -> list[int]:
    """The numbers of the calls on a machine: see MACHINES in seccomp.py."""
    return [call.numbers[column] for call in CALLS if call.numbers[column] != NO_CALL]


class AttributeBroker:
    """For one command. `send_listener` is for the child, once it has the filter; call `close` when it has ended."""

    def __init__(self, writable: Sequence[Path], column: int) -> None:
        self._writable = [Path(os.path.realpath(each)) for each in writable]
        self._calls = {call.numbers[column]: call for call in CALLS}
        self._socket, self._child_socket = socket.socketpair()
        self._thread = Thread(target=self._serve, daemon=True, name="attributes")
        self._thread.start()

    def send_listener(self, fd: int) -> None:  # pragma: no cover - runs in the child, between fork and exec
        self._child_socket.sendmsg([b"l"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", fd))])

    def close(self) -> None:
        self._child_socket.shutdown(socket.SHUT_RDWR)  # the thread wakes up
        self._thread.join()
        self._child_socket.close()
        self._socket.close()

    def _serve(self) -> None:
        data, passed, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(4))
        if not data:
            return
        (listener,) = struct.unpack("i", passed[0][2][:4])
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._socket, select.POLLIN)
        try:
            while poll.poll() == [(listener, select.POLLIN)]:
                with suppress(OSError):  # the caller has just ended
                    self._answer(listener)
        finally:
            os.close(listener)

    def _answer(self, listener: int) -> None:
        received = fcntl.ioctl(listener, RECEIVE, bytes(NOTIFICATION.size))
        id_, pid, _, number, _, _, *arguments = NOTIFICATION.unpack(received)
        code = 0
        try:
            call = self._calls[number]
            fd, times = open_file(pid, call, arguments)
            try:
                fcntl.ioctl(listener, CHECK_ID, id_.to_bytes(8, "little"))  # it was the caller's memory that was read
                _change(fd, call.kind, arguments[call.value : call.value + 2], times, self._writable)
            finally:
                os.close(fd)
        except OSError as error:
            code = error.errno or errno.EPERM
            if code == errno.EIO:  # of its memory
                code = errno.EFAULT
        except (struct.error, OverflowError):  # no memory has that address
            code = errno.EFAULT
        except Exception:  # the calls after this one are answered, too
            log.debug("a change of a file's attributes failed", exc_info=True)
            code = errno.EPERM
        fcntl.ioctl(listener, SEND, RESPONSE.pack(id_, 0, -code, 0))


def open_file(pid: int, call: AttributeCall, arguments: Sequence[int]) -> tuple[int, bytes | None]:
    """The file that a call of a process means, opened so that it stays the same, and the times that it sets.

    Raises OSError; OverflowError, struct.error where no memory has an address.
    """
    flags, folder, how = 0, AT_FDCWD, os.O_PATH | os.O_CLOEXEC
    if call.flags >= 0:
        flags = arguments[call.flags]
    if call.folder >= 0:
        folder = ctypes.c_int(arguments[call.folder]).value
    path, times = _read_memory(pid, call, arguments, folder)
    if path == b"" and not flags & EMPTY_PATH:
        raise FileNotFoundError(errno.ENOENT, "an empty path")
    if path and (not call.follows_link or flags & NO_FOLLOW):
        how |= os.O_NOFOLLOW
    return _open_path(pid, folder, path or b"", how), times


def _read_memory(
    pid: int, call: AttributeCall, arguments: Sequence[int], folder: int
) -> tuple[bytes | None, bytes | None]:
    """The path that a call of a process has, and the times that it sets; None for one that it does not have."""
    path = times = None
    has_path = call.path >= 0
    if has_path and call.kind == "times" and folder != AT_FDCWD:
        has_path = arguments[call.path] != 0
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        if has_path:
            path = _read_path(memory.fileno(), arguments[call.path])
        if call.kind == "times" and arguments[call.value]:
            times = _read_times(memory.fileno(), arguments[call.value], call.unit)
    return path, times


def _open_path(pid: int, folder: int, path: bytes, flags: int) -> int:
    """Open a path of a process, relative to a folder that it has open; the folder itself if the path is empty.

    To the kernel, /proc/self on the way is this program. So links to what a process has open are refused, as in
    /dev/fd/3. Only one that the path begins with is followed: that of the caller.
    """
    place = f"fd/{folder}"
    if folder == AT_FDCWD:
        place = "cwd"
    if path.startswith(b"/"):
        place = "root"
    if own := OWN_LINK.fullmatch(path):
        place, path = os.fsdecode(own[1]), own[2].replace(b"/", b"./", 1)
    place = f"/proc/{pid}/{place}"
    if not path:
        return os.open(place, flags)
    start, how = os.open(place, os.O_PATH | os.O_CLOEXEC), OPEN_HOW.pack(flags, 0, NO_MAGIC_LINKS)
    try:
        fd = int(libc.syscall(OPENAT2, start, path, how, ctypes.c_size_t(len(how))))
        code = ctypes.get_errno()
    finally:
        os.close(start)
    if fd < 0:
        if code == errno.ELOOP:
            code = errno.EACCES
        raise OSError(code, "refused")
    return fd


def _change(fd: int, kind: Kind, values: Sequence[int], times: bytes | None, writable: Sequence[Path]) -> None:
    """Raises OSError, also if the file is not in one of these folders."""
    file = Path(f"/proc/self/fd/{fd}")
    if not any(file.readlink().is_relative_to(each) for each in writable):
        raise PermissionError(errno.EPERM, "out of the folders that the command may write")
    if kind == "mode":
        refused_bits = SETUID
        if not file.is_dir():
            refused_bits |= SETGID
        if values[0] & refused_bits:
            raise PermissionError(errno.EPERM, "set-user-ID or set-group-ID")
        file.chmod(values[0] & 0o7777)
    elif kind == "owner":
        if libc.fchownat(fd, b"", *map(ctypes.c_uint, values), EMPTY_PATH):
            raise OSError(ctypes.get_errno(), "refused")
    elif libc.utimensat(fd, b"", times, EMPTY_PATH):
        raise OSError(ctypes.get_errno(), "refused")


def _read_path(memory: int, address: int) -> bytes:
    path, end, _ = os.pread(memory, MAX_PATH_BYTES, address).partition(b"\0")
    if not end:
        raise OSError(errno.ENAMETOOLONG, "a path without an end")
    return path


def _read_times(memory: int, address: int, unit: int) -> bytes:
    """Two struct timespec: of the last access and of the last change."""
    if not unit:
        return struct.pack(
            "=4q", *(part for each in struct.unpack("=2q", os.pread(memory, 16, address)) for part in (each, 0))
        )
    seconds, fraction, later_seconds, later_fraction = struct.unpack("=4q", os.pread(memory, 32, address))
    return struct.pack("=4q", seconds, fraction * unit, later_seconds, later_fraction * unit)
