"""End what made itself a new session, where there is no process namespace that ends it.

This process adopts orphans (PR_SET_CHILD_SUBREAPER), so that all a command started stays below it, and a
process in the sandbox is known by its seccomp filter, which nobody gets rid of and no other child of ours
has. Facts of a process: proc(5).
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

PROC = Path("/proc")
FILTERED = "2"  # SECCOMP_MODE_FILTER
ROUNDS = 50  # of looking again
IN_BACKGROUND = "what it left running in the background was ended"
PAUSE = 0.01  # seconds between looks at what was killed


def end_namespace(info: int) -> None:
    """Wait until a process namespace is dead, of which bwrap's --info-fd told; `info` is closed.

    Its first process is killed when bwrap ends, and is gone only after all the others.
    """
    with os.fdopen(info, "rb") as pipe:
        told = pipe.read()
    try:
        first = os.pidfd_open(json.loads(told)["child-pid"])
    except (ValueError, KeyError, TypeError, OSError):  # bwrap failed before it started anything, or it is gone
        return
    try:
        if not select.select([first], [], [], ROUNDS * PAUSE)[0]:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
            select.select([first], [], [], ROUNDS * PAUSE)
    finally:
        os.close(first)


def can_look() -> bool:
    """Whether the kernel lists a process's children (CONFIG_PROC_CHILDREN)."""
    return (PROC / "self" / "task" / str(os.getpid()) / "children").exists()


def end_orphans() -> tuple[bool, bool]:
    """Whether anything was alive, and whether anything still is.

    All are stopped before any is killed, so that none can start another meanwhile.
    """
    stopped: set[int] = set()
    for _ in range(ROUNDS):
        alive = set(_confined())
        if alive <= stopped:
            break
        for pid in alive - stopped:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= alive
    for pid in stopped:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    for _ in range(ROUNDS):
        if not set(_confined()):
            return bool(stopped), False
        time.sleep(PAUSE)
    return bool(stopped), True


def _confined() -> Iterator[int]:
    """Living processes below this one that have a seccomp filter; those of them that ended are reaped."""
    looked: set[int] = set()
    above = [os.getpid()]
    while above:
        for pid in _children(above.pop()):
            facts = _facts(pid)
            if pid in looked or facts.get("Seccomp") != FILTERED:
                continue
            looked.add(pid)
            above.append(pid)
            if facts["State"][0] in "ZX":
                _reap(pid)
            else:
                yield pid


def _children(pid: int) -> Iterator[int]:
    for each in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):  # it has ended meanwhile
            yield from map(int, each.read_text().split())


def _facts(pid: int) -> dict[str, str]:
    try:
        status = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
