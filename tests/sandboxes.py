"""Programs in a process of their own whose commands run in a certain kind of sandbox, whatever this machine has."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from src.security.sandbox.choose import make_sandbox
from src.security.sandbox.landlock import PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, SockFprog
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.seccomp import ALLOW, EQUAL, FAIL, LOAD, MACHINES, NUMBER, REFUSED, RETURN
from src.security.sandbox.view import SandboxView, complete_view
from tests.security.sandbox.conftest import PATH, WITHOUT_LOOPBACK, explain_unusable

BROKEN_BWRAP = "#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n"


class Machine(NamedTuple):
    """A PATH, what the process calls before its program starts, and whether its commands have a loopback."""

    path: str
    before: Callable[[], None]
    has_loopback: bool


def make_machine(kind: str, folder: Path) -> Machine:
    """Where programs use that kind; `folder` is for programs that stand in for others."""
    if kind == "bubblewrap":
        return Machine(os.environ["PATH"], lambda: None, has_loopback=True)
    (folder / "bwrap").write_text(BROKEN_BWRAP)
    (folder / "bwrap").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    if kind == WITHOUT_LOOPBACK:
        return Machine(path, refuse_namespaces, has_loopback=False)
    return Machine(path, lambda: None, has_loopback=_has_landlock_loopback())


@cache
def _has_landlock_loopback() -> bool:
    """Whether this system gives namespaces to this user."""
    if explain_unusable("landlock"):
        return False
    with TemporaryDirectory() as folder:
        view = complete_view(SandboxView(Path(folder)), {"PATH": PATH})
        return make_sandbox("landlock", view, ResourceLimits(), {"PATH": PATH}).has_loopback


def refuse_namespaces() -> None:
    """Make this process, and all that it starts, one for which unshare(2) fails, as in many containers."""
    number = REFUSED["unshare"][MACHINES[platform.machine()].column]
    steps = [(LOAD, 0, 0, NUMBER), (EQUAL, 0, 1, number), (RETURN, 0, 0, FAIL | errno.EPERM), (RETURN, 0, 0, ALLOW)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = SockFprog(len(steps), code)
    zero, prctl = ctypes.c_ulong(0), ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_NO_NEW_PRIVS, ctypes.c_ulong(1), zero, zero, zero) or prctl(
        PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), ctypes.byref(program), zero, zero
    ):
        raise OSError(ctypes.get_errno(), "no filter")
