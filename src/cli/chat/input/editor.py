"""Editing a text in the user's editor."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from ....errors import ConfigError

EDITORS = ("nano", "vim", "vi")


def edit_text(text: str, name: str = "message.md") -> str:
    """Let the user edit a text with VISUAL, EDITOR or a common editor. Raises ConfigError."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or next(filter(shutil.which, EDITORS), "")
    if not command:
        raise ConfigError("No editor found.", "Set EDITOR, e.g. EDITOR=nano.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(command), str(file)], check=False)  # noqa: S603 - the user's editor
        except (OSError, ValueError) as error:
            raise ConfigError(f"The editor could not be started: {error}", "Set EDITOR to another one.") from error
        if done.returncode:
            raise ConfigError(f"The editor ended with exit code {done.returncode}, so its text was not used.")
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
