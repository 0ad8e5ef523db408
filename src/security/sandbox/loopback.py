"""A network for commands that has a loopback alone: what a command serves there is reached by later commands.

It is a network namespace of the kernel. Nothing of the machine is in it, and no program outside is, so a server in it
is seen by no web page and no other program. Sources: setns(2), unshare(2), user_namespaces(7), netdevice(7),
ioctl_ns(2).
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import weakref
from contextlib import suppress
from pathlib import Path

CLONE_NEWUSER, CLONE_NEWNET, NS_GET_USERNS = 0x10000000, 0x40000000, 0xB701  # sched.h, nsfs.h
SIOCSIFFLAGS, IFF_UP = 0x8914, 1  # sockios.h, if.h
INTERFACE = struct.Struct("16sh22x")  # struct ifreq: a name and flags
SHELL = "/bin/sh"
TRIAL_TIMEOUT_S = 10.0

libc = ctypes.CDLL(None, use_errno=True)


class Loopback:
    """The network of a process, for as long as this object lives. Raises OSError."""

    def __init__(self, pid: int) -> None:
        self._spaces: list[tuple[int, int]] = []
        network = self._keep(os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC))
        owner = self._keep(fcntl.ioctl(network, NS_GET_USERNS))
        if not os.path.samestat(os.fstat(owner), Path("/proc/self/ns/user").stat()):
            self._spaces.append((owner, CLONE_NEWUSER))  # its rights are needed to enter the network
        self._spaces.append((network, CLONE_NEWNET))

    def _keep(self, fd: int) -> int:
        weakref.finalize(self, os.close, fd)
        return fd

    def enter(self) -> None:  # pragma: no cover - runs in the child, between fork and exec
        for fd, kind in self._spaces:
            if libc.setns(fd, kind):
                raise OSError(ctypes.get_errno(), "setns")


def make_loopback() -> Loopback:
    """A new network, up. Raises OSError and subprocess.SubprocessError where the system gives none.

    Root gets a network namespace alone: in a user namespace it would lose the files of other users. A user gets a user
    namespace too, in which the user's id and group are themselves.
    """
    user, group = os.geteuid(), os.getegid()

    def isolate() -> None:  # pragma: no cover - runs in the child, between fork and exec
        if libc.unshare(CLONE_NEWNET if user == 0 else CLONE_NEWUSER | CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "unshare")
        if user != 0:
            _write("/proc/self/setgroups", "deny")  # else the kernel refuses the next but one
            _write("/proc/self/uid_map", f"{user} {user} 1")
            _write("/proc/self/gid_map", f"{group} {group} 1")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
            fcntl.ioctl(any_socket, SIOCSIFFLAGS, INTERFACE.pack(b"lo", IFF_UP))

    pipe = subprocess.PIPE
    with subprocess.Popen([SHELL, "-c", "read _"], stdin=pipe, stdout=pipe, preexec_fn=isolate) as process:  # noqa: S603
        loopback = Loopback(process.pid)
    # Some systems give a namespace that cannot be entered.
    subprocess.run([SHELL, "-c", ":"], preexec_fn=loopback.enter, timeout=TRIAL_TIMEOUT_S, check=True)  # noqa: S603
    return loopback


def find_loopback() -> Loopback | None:
    """As make_loopback, and None where the system gives none."""
    with suppress(OSError, subprocess.SubprocessError):
        return make_loopback()
    return None


def _write(name: str, text: str) -> None:  # pragma: no cover - runs in the child, between fork and exec
    fd = os.open(name, os.O_WRONLY)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
