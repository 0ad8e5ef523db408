"""What runs on this machine, as Linux counts it."""

from __future__ import annotations

from pathlib import Path


def count_tasks() -> int:
    """The processes and threads of this machine; 0 where there is no /proc."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return 0
