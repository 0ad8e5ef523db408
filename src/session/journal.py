"""The journal's file: one JSON object a line, appended and never rewritten.

    {"type":"user","n":12,"message":{"type":"user","text":"hi"}}

`type` and `n`, the number of the record, come first in every line, so that a reader knows what a line is before
parsing it. A record is written before the step it describes, so that a kill cannot lose it; `sync` protects against
a power cut.

If it cannot be written (a full disk, a read-only home), the journal ends, but not the conversation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ..errors import BotError
from ..types.messages import JSON

VERSION = 1
APPEND = os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)
Redact = Callable[[str], str]


class Locked(BotError):
    """Another program has the journal open."""


class Journal:
    """Appends to the file at `path`, which is made when the first record is written.

    An `old` journal is locked at once, so that it does not change while it is read. `redact` removes secrets from
    every string. Raises Locked if another program has it open, and nothing else: `broken` says what went wrong.
    """

    def __init__(self, path: Path, redact: Redact = str, *, old: bool = False) -> None:
        self.path = path
        self.broken = ""
        self.redact = redact
        self._next = 0
        self._file = -1
        if old:
            self._open(0)

    @property
    def next(self) -> int:
        """The number of the next record."""
        return self._next

    def go_on(self, number: int, *, unended: bool) -> None:
        """Continue an old journal at record `number`; `unended`: its last line has no line end."""
        self._next = number
        if unended and self._file >= 0:
            self._append(b"\n")

    def write(self, kind: str, fields: Mapping[str, JSON], *, clean: bool = False) -> int:
        """Append a record and return its number. `clean`: secrets have been removed already."""
        number, self._next = self._next, self._next + 1
        if self._file < 0 and not self.broken:
            self._open(os.O_CREAT | os.O_EXCL)
        if not self.broken:
            head = f'{{"type":"{kind}","n":{number}'
            try:
                body = encoded(dict(fields) if clean else redacted(dict(fields), self.redact))
            except (ValueError, RecursionError, TypeError) as error:  # not JSON; no tool should give such a value
                self.broken = f"a {kind} cannot be written as JSON: {error}"
                return number
            self._append(head.encode() + (b"," + body[1:] if body != b"{}" else b"}") + b"\n")
        return number

    def sync(self) -> None:
        """Sync to the disk."""
        if self._file >= 0 and not self.broken:
            try:
                os.fsync(self._file)
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        if self._file >= 0:
            self.sync()
            os.close(self._file)
            self._file = -1

    def _open(self, flags: int) -> None:
        try:
            if flags:
                private_folder(self.path.parent)
            self._file = os.open(self.path, APPEND | flags, 0o600)
            if flags:
                sync_folder(self.path.parent)
        except OSError as error:
            self._fail(error)
            return
        if not _lock(self._file):
            os.close(self._file)
            self._file = -1
            raise Locked(
                f"The session {self.path.stem} is open elsewhere.",
                "Close it there first, or start a new one.",
            )

    def _append(self, line: bytes) -> None:
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError as error:
            self._fail(error)

    def _fail(self, error: OSError) -> None:
        self.broken = f"{self.path}: {error.strerror or error}"


def encoded(value: JSON) -> bytes:
    """Compact JSON; escaped if UTF-8 cannot encode it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def storable(text: str) -> str:
    """The text as UTF-8 can encode it; the bytes of a path need not be valid."""
    return text.encode(errors="replace").decode()


def redacted(value: JSON, redact: Redact) -> JSON:
    """The value with every string in it redacted."""
    if redact is str:
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [redacted(each, redact) for each in value]
    if isinstance(value, dict):
        return {redact(key): redacted(each, redact) for key, each in value.items()}
    return value


def private_folder(folder: Path) -> None:
    """Make a folder that only the user can read. Raises OSError."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def sync_folder(folder: Path) -> None:
    """Sync the folder, so that a new file's name is on the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(descriptor: int) -> bool:
    """Lock the file. True on success, and on systems without such locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
