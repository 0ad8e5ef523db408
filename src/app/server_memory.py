"""What was learned about each server and model, in a JSON file in the state folder.

An entry is valid only for the server version it was learned from: another version may accept what this one refused.
"""

from __future__ import annotations

from pathlib import Path

from ..model import CallPath
from . import state_file

FILE = "servers.json"


class Learnt:
    """`folder`: the state folder."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def recall(self, server: str, model: str, version: str) -> CallPath | None:
        entry = state_file.read(self._file).get(_key(server, model))
        if not isinstance(entry, dict) or entry.get("version") != version:
            return None
        try:
            return CallPath.from_dict(entry["path"])
        except (KeyError, TypeError, ValueError):
            return None

    def keep(self, server: str, model: str, version: str, path: CallPath) -> None:
        """Raises OSError where it cannot be written."""
        known = state_file.read(self._file)
        entries = known | {_key(server, model): {"version": version, "path": path.to_dict()}}
        if entries != known:
            state_file.write(self._file, entries)

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)


def _key(server: str, model: str) -> str:
    return f"{server} {model}"
