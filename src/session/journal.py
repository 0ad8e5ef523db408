"""The journal's file: one JSON object a line, appended and never rewritten.

    {"type":"user","n":12,"message":{"type":"user","text":"hi"}}

`type` and `n`, the number of the record, come first in every line, so that a reader knows what a line is before
parsing it. A record is written before the step it describes, so that a kill cannot lose it; `sync` protects against
a power cut.

If it cannot be written (a full disk, a read-only home), the journal ends, but not the conversation.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from msgspec import Struct

from ..errors import BotError
from ..types.lazy_pattern import LazyPattern
from ..types.messages import JSON

VERSION = 1
MAX_PROBLEMS = 20  # that are reported
HEAD_BYTES = 1000  # of a result, which contain the name of its tool
_WRITE_FLAGS = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
PROVIDERS_OWN = ("signature", "redacted_thinking", "thoughtSignature")  # in the metadata of thoughts and calls
_BASE64 = LazyPattern(r"[A-Za-z0-9+/]+={0,2}")
_SECRET_NAME = LazyPattern(r"pass|pwd|secret|key|token|auth|cookie", re.IGNORECASE)  # a part of every name of a secret
_ENDS_VALUE = LazyPattern(r"[\"'\\\r\n]")  # where a value ends for who looks for secrets in JSON
_OPTION = LazyPattern(r"--[\w-]{1,100}")
_ENDS_WORD = LazyPattern(r"[\s\"'\\|&;]")  # where a word ends for who looks for secrets in a command line
_PADDING = "------"  # a word of a command line is a secret however short it is
_decode = json.JSONDecoder().raw_decode
Redact = Callable[[str], str]


class Record(Struct, eq=False):
    """One line of a journal: its kind, its number, and its other fields.

    A `line` that was read is parsed when its fields are first needed; `problems` gets a sentence if that fails.
    """

    kind: str
    number: int
    known_fields: Mapping[str, Any] | None = None
    line: bytes = b""
    problems: list[str] = []

    @property
    def fields(self) -> Mapping[str, Any]:
        if self.known_fields is None:
            self.known_fields = self._parse()
        return self.known_fields

    def may_name(self, tool: str) -> bool:
        """Whether this may be a result of the tool, without parsing it."""
        return not self.line or tool.encode() in self.line[:HEAD_BYTES]

    def _parse(self) -> dict[str, Any]:
        try:
            text = self.line.decode()
            value, end = _decode(text)
            if end != len(text):
                value = json.loads(text)  # blanks at the end, or an error
        except (ValueError, RecursionError) as error:
            add_problem(self.problems, f"record {self.number} could not be read and was skipped: {error}")
            return {}
        return {name: held for name, held in value.items() if name not in ("type", "n")}


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
        self._file = -1
        if old:
            self._open(0)

    def write(self, record: Record, *, clean: bool = False) -> None:
        """Append a record. `clean`: its secrets have been removed already."""
        if self._file < 0 and not self.broken:
            self._open(os.O_CREAT | os.O_EXCL)
        if self.broken:
            return
        fields = dict(record.fields)
        try:
            if not clean:
                fields = redact_value(fields, self.redact)
            line = encode_json({"type": record.kind, "n": record.number, **fields})
        except (ValueError, RecursionError, TypeError) as error:  # not JSON; no tool should give such a value
            self.broken = f"a {record.kind} cannot be written as JSON: {error}"
            return
        self._append(line + b"\n")

    def end_line(self) -> None:
        """End the last line of an old journal."""
        if self._file >= 0:
            self._append(b"\n")

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
                make_private_folder(self.path.parent)
            self._file = open_regular(self.path, _WRITE_FLAGS | flags)
            if flags:
                _sync_folder(self.path.parent)
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


class NoJournal(Journal):
    """Of a conversation that is not saved: nothing is written, and no content of a file is kept."""

    def __init__(self) -> None:
        super().__init__(Path())
        self.broken = "it is not saved"


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a file that is no FIFO, device or folder; it waits for none of them. Raises OSError."""
    flags |= getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return descriptor


def add_problem(problems: list[str], text: str) -> None:
    if len(problems) < MAX_PROBLEMS:
        problems.append(text)


def encode_json(value: JSON) -> bytes:
    """Compact JSON; escaped if UTF-8 cannot encode it."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()


def make_storable(text: str) -> str:
    """The text as UTF-8 can encode it; the bytes of a path may be invalid."""
    return text.encode(errors="replace").decode()


def redact_value(value: Any, redact: Redact) -> Any:
    """The value with every string in it redacted, but for base64 that must stay as it is: see _list_opaque."""
    if redact is str:
        return value
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, (list, tuple)):
        return _redact_list(value, redact)
    if isinstance(value, Mapping):
        opaque = _list_opaque(value)
        cleaned = {key: _redact_named(key, each, redact) for key, each in value.items() if key not in opaque}
        return {redact(key): cleaned.get(key, each) for key, each in value.items()}
    return value


def _redact_list(values: Sequence[Any], redact: Redact) -> list[Any]:
    """The values may be the words of a command line: the one behind an option such as `--token` is a secret."""
    cleaned = [redact_value(each, redact) for each in values]
    for place, (option, word) in enumerate(pairwise(cleaned), 1):
        if not (isinstance(option, str) and isinstance(word, str) and word and _OPTION.fullmatch(option)):
            continue
        line = f"{option} {_ENDS_WORD.sub('-', word)}{_PADDING}"
        marked = redact(line)
        if marked != line:
            cleaned[place] = marked.removeprefix(f"{option} ")
    return cleaned


def _redact_named(name: str, value: Any, redact: Redact) -> Any:
    """What stands under a name, which may be that of a secret, as in `"password": "..."`."""
    cleaned = redact_value(value, redact)
    if not isinstance(cleaned, str) or not _SECRET_NAME.search(name):
        return cleaned
    lead, end = f'"{name}": "', '"'
    pair = f"{lead}{_ENDS_VALUE.sub('-', cleaned)}{end}"
    marked = redact(pair)
    return cleaned if marked == pair else marked.removeprefix(lead).removesuffix(end)


def _list_opaque(value: Mapping[str, JSON]) -> Sequence[str]:
    """The keys whose values are base64: the data of an image or sound, and what a provider wants back unchanged.

    Base64 may look like a key by chance, and one changed character spoils it.
    """
    keys = ["data"] if value.get("type") in ("image", "audio") else PROVIDERS_OWN
    return [key for key in keys if isinstance(text := value.get(key), str) and _BASE64.fullmatch(text)]


def make_private_folder(folder: Path) -> None:
    """Make a folder that only the user can read. Raises OSError."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)


def _sync_folder(folder: Path) -> None:
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

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # a system, or a file system, without locks
        pass
    return True
