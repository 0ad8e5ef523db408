"""A sandbox by Landlock and seccomp: rules of the kernel on files and TCP, and a filter on system calls.

It needs no rights and no program. The system calls go through ctypes; all that the child calls between fork and exec
is prepared before the fork. Sources: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h, whose
three system calls have the same numbers on every machine.
"""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...types.sandbox import Access, Launch
from .attributes import NEW_LISTENER, SECCOMP, SET_MODE_FILTER, AttributeBroker
from .base import SandboxBase, find_home
from .limits import ResourceLimits
from .loopback import Loopback, make_loopback
from .view import SYSTEM, SandboxView, list_system_files

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
TOOLCHAIN_HOMES = {  # where toolchains look for themselves, since HOME leads elsewhere
    "CARGO_HOME": ".cargo", "NVM_DIR": ".nvm", "PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup", "VOLTA_HOME": ".volta",
}  # fmt: skip

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
PR_CAPBSET_DROP, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 24, 22, 38
SECCOMP_MODE_FILTER = 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
MAKE_CHAR, MAKE_BLOCK, IOCTL_DEV = 1 << 6, 1 << 11, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
FILES_ONLY = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV  # the other rights are for folders
FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the ABI they came with
TCP = 0b11  # bind and connect: ABI 4
SCOPES, SIGNALS = 0b11, 0b10  # abstract sockets and signals: ABI 6
KEPT_CAPABILITIES = {0, 1, 2, 3, 4, 6, 7}  # of root: on files of other users, and on its own user
LAST_CAPABILITY = 63
NO_FD = -1

libc = ctypes.CDLL(None, use_errno=True)
_syscall, _prctl = libc.syscall, libc.prctl
_syscall.restype = ctypes.c_long
ZERO, ONE = ctypes.c_ulong(0), ctypes.c_ulong(1)


class LandlockSandbox(SandboxBase):
    """`abi` is the version of Landlock, `column` that of the machine in the tables of system calls.

    `loopback` is the network of commands with the access `write`; None where the system gives none. The other accesses
    have one each: else a command could change, through a server with more access, what it may not.
    """

    kind = "landlock"

    def __init__(
        self,
        abi: int,
        column: int,
        view: SandboxView,
        limits: ResourceLimits,
        filters: Mapping[Access, bytes],
        loopback: Loopback | None = None,
    ) -> None:
        super().__init__(view, limits, filters)
        self._column = column
        self._loopbacks: dict[Access, Loopback] = {}
        if loopback:
            self._loopbacks["write"] = loopback
        self.has_loopback = loopback is not None
        self.is_enforcing = abi >= 3  # before, a command could empty a file that it may only read
        self._abi = abi
        about = f"Landlock and seccomp: commands use the workspace and the system, no home, {view.network_note}"
        if not (view.network or self.has_loopback):
            about += ", not even its own"
        if abi < 6:
            about += "; this kernel is too old to keep signals from your other processes"
        self.description = about

    def confine(
        self,
        argv: Sequence[str],
        cwd: Path,  # noqa: ARG002
        environment: Mapping[str, str],
        access: Access,
        protected: Sequence[Path],  # noqa: ARG002 - put back afterwards
    ) -> Launch:
        has_network = self.view.has_network(access)
        home, temporary = find_home(self.scratch, access), self.scratch / "tmp"
        system = (*map(Path, (*SYSTEM, "/proc")), *list_system_files(has_network=has_network))
        readable = [*system, *self.view.readable, self.settings]
        if access == "read":
            readable, writable = [*readable, *self.view.tops], [temporary, home, self.cache]
        else:
            writable = [*self.view.tops, temporary, home]
        toolchains: dict[str, str] = {}
        for name, folder in TOOLCHAIN_HOMES.items():
            if self.view.home and (self.view.home / folder).is_dir():
                toolchains[name] = str(self.view.home / folder)
        loopback = None if has_network else self._find_loopback(access)
        fd = create_ruleset(readable, writable, self._abi, network=has_network or loopback is not None)
        scope_fd = _make_ruleset(0, 0, SIGNALS, self._abi) if self._abi >= 6 else NO_FD
        broker = AttributeBroker(writable, self._column)
        confine = Confinement(fd, self.filters[access], SECCOMP[self._column], broker, root=os.geteuid() == 0)
        set_limits = self.limits.make_setter()

        def before_exec() -> None:  # pragma: no cover - runs in the child, between fork and exec
            set_limits()
            if loopback:
                loopback.enter()
            confine()

        def scope_signals() -> None:  # pragma: no cover - runs in the child, between fork and exec
            restrict(ctypes.c_int(scope_fd))

        def settle() -> None:
            for each in (fd, scope_fd):
                if each != NO_FD:
                    os.close(each)
            broker.close()

        return Launch(
            argv,
            {**toolchains, **self.complete_environment(environment, str(home), str(temporary), access)},
            before_exec,
            settle=settle,
            scope_signals=scope_signals if scope_fd != NO_FD else None,
            max_tasks=self.limits.max_tasks,
        )

    def _find_loopback(self, access: Access) -> Loopback | None:
        """Raises OSError if the system gives none any more."""
        if self.has_loopback and access not in self._loopbacks:
            try:
                self._loopbacks[access] = make_loopback()
            except subprocess.SubprocessError as error:
                raise OSError(f"a network for the command: {error}") from error
        return self._loopbacks.get(access)


class SockFprog(ctypes.Structure):
    """struct sock_fprog: a seccomp filter's length in instructions, and its address."""

    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def get_landlock_abi() -> int:
    """The version of Landlock in this kernel; 0 if there is none, or it is switched off."""
    return max(0, int(_syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))))


def create_ruleset(readable: Iterable[Path], writable: Iterable[Path], abi: int, *, network: bool) -> int:
    """A file descriptor of a Landlock ruleset for files at and below these paths, and DEVICES.

    Paths that do not exist are left out; at any other path nothing is allowed. Raises OSError.
    """
    handled = FILE_RIGHTS[max(each for each in FILE_RIGHTS if each <= abi)]
    fd = _make_ruleset(handled, 0 if network else TCP, SCOPES, abi)
    for paths, rights in (
        (readable, READ),
        (writable, handled & ~(MAKE_CHAR | MAKE_BLOCK | IOCTL_DEV)),
        (map(Path, DEVICES), READ_FILE | WRITE_FILE),
    ):
        for path in paths:
            with suppress(FileNotFoundError, PermissionError):
                _allow(fd, path, rights & handled)
    return fd


def _make_ruleset(files: int, tcp: int, scopes: int, abi: int) -> int:
    """The file descriptor of a ruleset that handles these rights, as far as the kernel knows them. Raises OSError."""
    count = 1 + (abi >= 4) + (abi >= 6)  # which versions know the network, and signals and sockets
    attributes = struct.pack(f"={count}Q", *(files, tcp, scopes)[:count])
    fd = int(_syscall(CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)))
    if fd < 0:
        raise _last_error("landlock_create_ruleset")
    return fd


def restrict(ruleset_fd: ctypes.c_int) -> None:  # pragma: no cover - runs in the child, between fork and exec
    """Apply the rules to this process and all that it starts from now on. Raises OSError."""
    if _prctl(PR_SET_NO_NEW_PRIVS, ONE, ZERO, ZERO, ZERO) or _syscall(RESTRICT_SELF, ruleset_fd, ctypes.c_uint(0)):
        raise _last_error("the sandbox")


def _allow(ruleset_fd: int, path: Path, rights: int) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not path.is_dir():
            rights &= FILES_ONLY
        attributes = struct.pack("=Qi", rights, place)
        if _syscall(ADD_RULE, ctypes.c_int(ruleset_fd), ctypes.c_int(1), attributes, ctypes.c_uint(0)):
            raise _last_error("landlock_add_rule")
    finally:
        os.close(place)


class Confinement:
    """Call it in the child between fork and exec: the rules then hold for the child and all that it starts."""

    def __init__(
        self, ruleset_fd: int, filter_program: bytes, seccomp_call: int, broker: AttributeBroker, *, root: bool
    ) -> None:
        self._ruleset = ctypes.c_int(ruleset_fd)
        self._seccomp_call = seccomp_call
        self._broker = broker
        self._filter = SockFprog(len(filter_program) // 8, filter_program)
        self._address = ctypes.byref(self._filter)
        kept = KEPT_CAPABILITIES if root else ()  # a user has all of them in a user namespace
        self._dropped = [each for each in range(LAST_CAPABILITY) if each not in kept]
        self._set_filter, self._new_listener = ctypes.c_uint(SET_MODE_FILTER), ctypes.c_uint(NEW_LISTENER)

    def __call__(self) -> None:  # pragma: no cover - runs in the child, between fork and exec
        for each in self._dropped:
            _prctl(PR_CAPBSET_DROP, ctypes.c_ulong(each), ZERO, ZERO, ZERO)  # fails past the last
        restrict(self._ruleset)
        listener = _syscall(self._seccomp_call, self._set_filter, self._new_listener, self._address)
        if listener >= 0:
            self._broker.send_listener(listener)
        elif _prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), self._address, ZERO, ZERO):
            raise _last_error("the sandbox")


def _last_error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, f"{what}: {os.strerror(number)}")
