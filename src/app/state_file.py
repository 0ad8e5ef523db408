"""Small JSON files in the state folder. One that cannot be read counts as empty."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any


def read(file: Path) -> dict[str, Any]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def write(file: Path, entries: dict[str, Any]) -> None:
    """Write atomically, making the folder if need be. Raises OSError."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as new:
        json.dump(entries, new, indent=2)
        new.flush()
        os.fsync(new.fileno())
    Path(new.name).replace(file)
