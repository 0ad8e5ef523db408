"""Reads what `vllm-bot serve --record` has written, line by line. A damaged line is told, and costs no other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Union

from msgspec import Struct

from ..errors import ConfigError, WireError
from ..providers.wire_json import as_dicts, load_json
from ..serve.record.entry import VERSION


class RecordLine(Struct, frozen=True):
    """A call of the API. `place`: FILE:LINE, counted from 1."""

    place: str
    entry: dict[str, Any]

    @property
    def choices(self) -> list[dict[str, Any]]:
        return as_dicts(self.entry.get("choices"))

    @property
    def is_redacted(self) -> bool:
        return bool(self.entry.get("redacted"))


class DamagedLine(Struct, frozen=True):
    place: str
    reason: str


def read_lines(files: Iterable[Path]) -> Iterator[Union[RecordLine, DamagedLine]]:
    """Raises ConfigError for a file that cannot be read."""
    for file in files:
        try:
            with file.open("rb") as lines:
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        yield read_line(line, f"{file}:{number}")
        except OSError as error:
            raise ConfigError(f"The record cannot be read: {file}: {error.strerror}.") from error


def read_line(line: bytes, place: str) -> RecordLine | DamagedLine:
    try:
        entry = load_json(line)
    except WireError:
        return DamagedLine(place, "it is no JSON, maybe because its end is missing")
    if not isinstance(entry, dict) or not isinstance(entry.get("choices"), list):
        return DamagedLine(place, "it is no call of the API")
    if entry.get("version") != VERSION:
        return DamagedLine(place, f"its version is {entry.get('version')!r}, and this program reads {VERSION}")
    return RecordLine(place, entry)
