"""A process of this machine, such that it can be recognized later."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct


class StartedProcess(Struct, frozen=True):
    """`start` differs from that of any other process that has had this number: see src/tools/process/proc.py.

    `command`: its first characters. `job`: its number, if it was started in the background.
    """

    pid: int
    start: str
    command: str
    job: int = 0


# Of processes those that live, each with the numbers of all that live of it.
FindLiving = Callable[[Iterable[StartedProcess]], Mapping[StartedProcess, Sequence[int]]]
