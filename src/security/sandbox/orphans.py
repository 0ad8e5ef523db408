"""End the processes that a command left running, also those in a session of their own.

Under bubblewrap the process namespace ends them. Under Landlock this process adopts orphans
(PR_SET_CHILD_SUBREAPER), so that all that a command started stays below it; a process of the sandbox is recognized by
its seccomp filter, which it cannot remove and which no other child of ours has. Source for /proc: proc(5).
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
MAX_ROUNDS = 50  # of stopping processes that start others
BACKGROUND_NOTE = "what it left running in the background was ended"
PAUSE_S = 0.01  # between two looks at killed processes
END_TIMEOUT_S = 5.0  # after the kill; on an idle machine a process ends within 10 ms


def end_namespace(info_fd: int) -> None:
    """Wait until a process namespace has ended, and close `info_fd`, to which bwrap's --info-fd wrote.

    The kernel kills the namespace's first process when bwrap ends; that process ends after all the others.
    """
    with os.fdopen(info_fd, "rb") as pipe:
        info = pipe.read()
    try:
        first = os.pidfd_open(json.loads(info)["child-pid"])
    except (ValueError, KeyError, TypeError, OSError):  # bwrap failed before it started anything, or it has ended
        return
    try:
        if not select.select([first], [], [], END_TIMEOUT_S)[0]:
            with suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(first, signal.SIGKILL)
            select.select([first], [], [], END_TIMEOUT_S)
    finally:
        os.close(first)


def can_list_children() -> bool:
    """Whether the kernel lists a process's children (CONFIG_PROC_CHILDREN)."""
    return (PROC / "self" / "task" / str(os.getpid()) / "children").exists()


def end_orphans() -> tuple[bool, bool]:
    """Kill the processes that are left. Returns whether there were any, and whether any is still alive.

    All are stopped before the first is killed, so that none can start another in between.
    """
    stopped: set[int] = set()
    for _ in range(MAX_ROUNDS):
        alive = set(_list_confined())
        if alive <= stopped:
            break
        for pid in alive - stopped:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGSTOP)
        stopped |= alive
    for pid in stopped:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_TIMEOUT_S
    while set(_list_confined()):
        if time.monotonic() > deadline:
            return bool(stopped), True
        time.sleep(PAUSE_S)
    return bool(stopped), False


def _list_confined() -> Iterator[int]:
    """Living processes below this one that have a seccomp filter; ended ones are reaped."""
    seen: set[int] = set()
    parents = [os.getpid()]
    while parents:
        for pid in _list_children(parents.pop()):
            status = _read_status(pid)
            if pid in seen or status.get("Seccomp") != FILTERED:
                continue
            seen.add(pid)
            parents.append(pid)
            if status["State"][0] in "ZX":
                _reap(pid)
            else:
                yield pid


def _list_children(pid: int) -> Iterator[int]:
    for each in (PROC / str(pid) / "task").glob("*/children"):
        with suppress(OSError):  # it has just ended
            yield from map(int, each.read_text().split())


def _read_status(pid: int) -> dict[str, str]:
    try:
        status = (PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return {}
    return dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)


def _reap(pid: int) -> None:
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
