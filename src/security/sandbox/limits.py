"""Limits on memory, processes and the size of files. They hold with and without a sandbox."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from ...machine import count_tasks

BYTES_PER_MB = 1_000_000
BASH = Path("/bin/bash")


class ResourceLimits(Struct, frozen=True):
    """`memory_mb` (heap, stack and private maps) and `file_mb` for each process; `processes` in all."""

    memory_mb: int = 8192
    processes: int = 1024
    file_mb: int = 4096

    @property
    def max_tasks(self) -> int:
        """For Launch: the kernel exempts root from RLIMIT_NPROC."""
        return self.processes if os.geteuid() == 0 else 0

    def build_prefix(self, left_fd: int) -> list[str]:
        """The words before a command that run it under the limits, alone in a process namespace.

        bash writes a byte to `left_fd` if a process is left when the command has ended. Another shell writes none, as
        it could not close `left_fd` for the command.
        """
        script = (
            "ulimit -c 0; "
            f"ulimit -d {self.memory_mb * BYTES_PER_MB // 1024}; "  # KB
            f"ulimit -f {self.file_mb * BYTES_PER_MB // self._block_bytes}; "
            f"ulimit -u {self.processes} 2>/dev/null || ulimit -p {self.processes}; "  # bash's letter, and dash's
        )
        if not BASH.exists():
            return ["/bin/sh", "-c", script + 'exec "$@"', "sh"]
        count = "set -- /proc/[0-9]*; [ $# -le 2 ]"  # the namespace's own first process, and this shell
        tell = f"{count} || {{ sleep 0.05; {count} || echo >&{left_fd}; }}"
        look = f'"$@" {left_fd}>&-; ended=$?; {tell}; exit $ended'
        return [str(BASH), "-c", script + look, "bash"]

    @property
    def _block_bytes(self) -> int:
        """The unit of `ulimit -f`."""
        return 1024 if BASH.exists() else 512

    def make_setter(self) -> Callable[[], None]:
        """A function that sets the limits in a child, whose user may run other processes as well."""
        import resource

        wanted = (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_DATA, self.memory_mb * BYTES_PER_MB),
            (resource.RLIMIT_FSIZE, self.file_mb * BYTES_PER_MB),
            (resource.RLIMIT_NPROC, self.processes + count_tasks()),  # it counts all those of the user
        )
        values: list[tuple[int, int]] = []
        for which, value in wanted:
            hard = resource.getrlimit(which)[1]  # -1: no limit
            values.append((which, min(each for each in (value, hard) if each >= 0)))
        setrlimit = resource.setrlimit

        def set_limits() -> None:  # pragma: no cover - runs in the child, between fork and exec
            for which, value in values:
                setrlimit(which, (value, value))

        return set_limits
