"""The rules that users save with `always`, by workspace, in a JSON file in the state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import state_file

FILE = "allowed.json"


class Allowed:
    """The rules of one workspace."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._file = folder / FILE
        self._workspace = str(workspace)

    def rules(self) -> list[dict[str, Any]]:
        """Entries as in `security.rules`; only those that allow."""
        entries = state_file.read(self._file).get(self._workspace)
        return [each for each in entries if _allows(each)] if isinstance(entries, list) else []

    def keep(self, rule: dict[str, Any]) -> None:
        """Raises OSError where it cannot be written."""
        known = self.rules()
        if rule not in known:
            state_file.write(self._file, {**state_file.read(self._file), self._workspace: [*known, rule]})

    def forget(self) -> None:
        """Raises OSError."""
        state_file.write(
            self._file, {name: rules for name, rules in state_file.read(self._file).items() if name != self._workspace}
        )


def _allows(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("action") == "allow"
        and all(isinstance(entry.get(key, ""), str) for key in ("tool", "command", "path"))
        and isinstance(entry.get("exact", False), bool)
        and bool(entry.get("tool"))
        and set(entry) <= {"tool", "action", "command", "path", "exact"}
    )
