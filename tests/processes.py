"""The processes of this machine while others start and end, for tests: from Linux's /proc."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from src.tools.process.proc import list_processes


def read_process_file(pid: int, name: str) -> bytes:
    """A file that /proc has about a process, as `cmdline` or `environ`: empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def find_processes(name: str, words: bytes) -> Iterator[int]:
    """The ids of the processes whose file of that name holds `words`."""
    return (each.pid for each in list_processes() if words in read_process_file(each.pid, name))
