"""Where read, write and edit find the text of a file: on the disk, or with an editor that has it in a buffer.

Which file a path means, its kind, and whether it may be written are questions to the disk in both cases (paths.py).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from . import paths


class OldFile(NamedTuple):
    """A file before it is changed: its bytes, and its state on the disk when they were read."""

    data: bytes
    status: os.stat_result


class TextFiles(Protocol):
    """Reads and writes files of the workspace. Both functions raise OSError, and ToolError with what is wrong."""

    def open(self, target: paths.Target) -> tuple[BinaryIO, os.stat_result]:
        """The bytes of a regular file, and its state on the disk."""
        ...

    def replace(
        self, target: paths.Target, data: bytes, protected: tuple[Path, ...], old: OldFile | None = None
    ) -> None:
        """Replace or create a file. `old`: what `data` was made from; if the file has changed since, it stays."""
        ...


class DiskFiles:
    """The files as they are on the disk."""

    def open(self, target: paths.Target) -> tuple[BinaryIO, os.stat_result]:
        file = os.fdopen(paths.open_to_read(target), "rb")
        return file, os.fstat(file.fileno())

    def replace(
        self, target: paths.Target, data: bytes, protected: tuple[Path, ...], old: OldFile | None = None
    ) -> None:
        paths.replace(target, data, protected, old and old.status)


DISK = DiskFiles()
