"""What the user always allowed, by workspace: rules in one small JSON file in the state folder, never in the workspace.

A file that cannot be read holds no rules: then it is asked again.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

FILE = "allowed.json"


class Allowed:
    """Of one workspace. `folder` is made when there is something to keep."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._file = folder / FILE
        self._workspace = str(workspace)

    def rules(self) -> list[dict[str, Any]]:
        """Entries of the shape of `security.rules`; only such as allow."""
        entries = self._all().get(self._workspace)
        return [each for each in entries if _allows(each)] if isinstance(entries, list) else []

    def keep(self, rule: dict[str, Any]) -> None:
        """Raises OSError where it cannot be written."""
        known = self.rules()
        if rule not in known:
            self._write({**self._all(), self._workspace: [*known, rule]})

    def forget(self) -> None:
        """Raises OSError."""
        self._write({name: rules for name, rules in self._all().items() if name != self._workspace})

    def _all(self) -> dict[str, Any]:
        try:
            entries = json.loads(self._file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}

    def _write(self, entries: dict[str, Any]) -> None:
        self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=self._file.parent, encoding="utf-8", delete=False) as file:
            json.dump(entries, file, indent=2)
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(self._file)


def _allows(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("action") == "allow"
        and all(isinstance(entry.get(key, ""), str) for key in ("tool", "command", "path"))
        and isinstance(entry.get("exact", False), bool)
        and bool(entry.get("tool"))
        and set(entry) <= {"tool", "action", "command", "path", "exact"}
    )
