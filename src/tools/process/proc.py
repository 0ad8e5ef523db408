"""The processes of this machine, from Linux's /proc. Elsewhere there are none to be found. Source: proc(5)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from ...errors import ToolError
from ...machine import count_tasks
from ...types.process import StartedProcess

PROC = Path("/proc")
MAX_COMMAND_CHARS = 200
DEAD = "ZX"  # states: without an init, dead ones stay
SCAN_S = 1.0  # seconds between counts of a command's processes, which look at each process of the machine


class ProcessStatus(Struct, frozen=True):
    """`start`: in ticks since the machine started."""

    pid: int
    state: str
    parent: int
    group: int
    session: int
    threads: int
    start: int


def list_processes() -> Iterator[ProcessStatus]:
    for folder in PROC.glob("[0-9]*"):
        if folder.name.isdecimal():
            with suppress(OSError):  # it has just ended
                yield _read_status(int(folder.name))


def _read_status(pid: int) -> ProcessStatus:
    state, *numbers = (PROC / f"{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    parent, group, session = map(int, numbers[:3])
    return ProcessStatus(pid, state, parent, group, session, int(numbers[16]), int(numbers[18]))


def list_descendants(pid: int) -> list[ProcessStatus]:
    """The living processes that a process has started, and those that these have."""
    living = [each for each in list_processes() if each.state not in DEAD]
    pids, count = {pid}, 0
    while len(pids) != count:
        count = len(pids)
        pids |= {each.pid for each in living if each.parent in pids}
    return [each for each in living if each.pid in pids - {pid}]


class TaskLimit:
    """How many processes and threads a process of ours may start: the kernel does not hold root to its own limit."""

    def __init__(self, pid: int, max_tasks: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._pid = pid
        self._max_tasks = max_tasks
        self._clock = clock
        self._before = count_tasks()
        self._next_scan = clock() + SCAN_S

    def check(self) -> None:
        """Raises ToolError if there are more.

        They are counted at once where the machine has many more than before, and else now and then: the end of other
        processes can hide those of this one.
        """
        if not self._max_tasks:
            return
        has_grown = count_tasks() - self._before > self._max_tasks // 2
        if not has_grown and self._clock() < self._next_scan:
            return
        self._next_scan = self._clock() + SCAN_S
        if sum(each.threads for each in list_descendants(self._pid)) > self._max_tasks:
            raise ToolError(f"it started more than {self._max_tasks:,} processes, and was killed")


def identify(pid: int, argv: Sequence[str]) -> StartedProcess:
    """A process of ours that has just been started, as the leader of a session."""
    start = ""
    with suppress(OSError):
        start = f"{_find_namespace()} {_read_status(pid).start}"
    return StartedProcess(pid, start, shorten_command(argv))


def shorten_command(argv: Sequence[str]) -> str:
    """The first characters of a command line, without the shell that runs it."""
    return (argv[-1] if "-c" in argv[1:2] else " ".join(argv))[:MAX_COMMAND_CHARS]


def find_living(processes: Iterable[StartedProcess]) -> dict[StartedProcess, list[int]]:
    """Of the processes those that live, or whose session does, each with the numbers of what lives."""
    sessions = {each.pid: each for each in processes if each.start.partition(" ")[0] == _find_namespace() != ""}
    living: dict[StartedProcess, list[int]] = {}
    if not sessions:
        return living
    for each in list_processes():
        leader = sessions.get(each.session)
        # The number of a session is not used again while a process is in it, so an older process cannot be in it.
        if leader and each.state not in DEAD and each.start >= int(leader.start.partition(" ")[2]):
            living.setdefault(leader, []).append(each.pid)
    return living


@lru_cache(1)
def _find_namespace() -> str:
    """A word for this run of the machine and the container that this is; "" if it is not known."""
    with suppress(OSError):
        return f"{(PROC / 'sys/kernel/random/boot_id').read_text().strip()}/{(PROC / 'self/ns/pid').readlink()}"
    return ""


def find_program(name: str, search_path: str, folders: Sequence[Path]) -> str:
    """The first such program of a PATH; "" if there is none. One inside these folders is not the user's own."""
    from shutil import which  # start-up is measured

    tops = [os.path.realpath(each) for each in folders]
    paths = (os.path.realpath(each) for folder in search_path.split(os.pathsep) if (each := which(name, path=folder)))
    return next((each for each in paths if not any(Path(each).is_relative_to(top) for top in tops)), "")
