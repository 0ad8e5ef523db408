"""What was learnt of each server and model, kept between runs: one small JSON file in the user's state folder.

An entry counts only for the version of the server it was learnt from: another version may take what this
one refused. A file that cannot be read is as good as none; one that cannot be written costs a refusal a run.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from ..model import CallPath

FILE = "servers.json"


class Learnt:
    """`folder` is made when there is something to keep."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    def recall(self, server: str, model: str, version: str) -> CallPath | None:
        entry = self._entries().get(_key(server, model))
        if not isinstance(entry, dict) or entry.get("version") != version:
            return None
        try:
            return CallPath.from_dict(entry["path"])
        except (KeyError, TypeError, ValueError):
            return None

    def keep(self, server: str, model: str, version: str, path: CallPath) -> None:
        """Raises OSError where it cannot be written."""
        known = self._entries()
        entries = known | {_key(server, model): {"version": version, "path": path.to_dict()}}
        if entries == known:
            return
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._file.parent, encoding="utf-8", delete=False) as file:
            json.dump(entries, file, indent=2)
        Path(file.name).replace(self._file)

    def forget(self) -> None:
        self._file.unlink(missing_ok=True)

    def _entries(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}


def _key(server: str, model: str) -> str:
    return f"{server} {model}"
