"""A process of this machine, such that it can be recognized later."""

from __future__ import annotations

from typing import NamedTuple


class StartedProcess(NamedTuple):
    """`start` differs from that of any other process that has had this number: see src/tools/process/proc.py.

    `command`: its first characters. `job`: its number, if it was started in the background.
    """

    pid: int
    start: str
    command: str
    job: int = 0
