"""How much a command may take: memory, processes, the size of a file. They hold with and without a sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MB = 1_000_000
BASH = Path("/bin/bash")
TASKS = Path("/proc/loadavg")


class ResourceLimits(NamedTuple):
    """Of each process `memory_mb` (its data: heap, stack, private maps) and `file_mb`; `processes` in all."""

    memory_mb: int = 8192
    processes: int = 1024
    file_mb: int = 4096

    def words(self, left_fd: int) -> list[str]:
        """What stands before a command and runs it under them, alone in a namespace: no others are counted then.

        A byte goes to `left_fd` where something still runs when the command has ended; a shell that is not bash
        cannot close that for the command, and tells nothing.
        """
        script = (
            "ulimit -c 0; "
            f"ulimit -d {self.memory_mb * MB // 1024}; "  # KB
            f"ulimit -f {self.file_mb * MB // self.block}; "
            f"ulimit -u {self.processes} 2>/dev/null || ulimit -p {self.processes}; "  # bash's letter, and dash's
        )
        if not BASH.exists():
            return ["/bin/sh", "-c", script + 'exec "$@"', "sh"]
        count = "set -- /proc/[0-9]*; [ $# -le 2 ]"  # the namespace's own first process, and this shell
        tell = f"{count} || {{ sleep 0.05; {count} || echo >&{left_fd}; }}"
        look = f'"$@" {left_fd}>&-; ended=$?; {tell}; exit $ended'
        return [str(BASH), "-c", script + look, "bash"]

    @property
    def block(self) -> int:
        """What a shell counts the size of a file in, in bytes."""
        return 1024 if BASH.exists() else 512

    def setter(self) -> Callable[[], None]:
        """What sets them in a child, beside all other processes of the user."""
        import resource

        wanted = (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, self.memory_mb * MB),
            (resource.RLIMIT_FSIZE, self.file_mb * MB),
            (resource.RLIMIT_NPROC, self.processes + _tasks()),
        )
        values = [(which, _within(value, resource.getrlimit(which)[1])) for which, value in wanted]
        setrlimit = resource.setrlimit

        def set_limits() -> None:
            for which, value in values:
                setrlimit(which, (value, value))

        return set_limits


def _within(value: int, most: int) -> int:
    return value if most < 0 else min(value, most)  # -1: without a limit


def _tasks() -> int:
    """How many threads and processes there are, of everybody: the kernel counts all of a user's against its limit."""
    try:
        return int(TASKS.read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
