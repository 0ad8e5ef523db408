"""Copying to the clipboard, with a program of the system or else through the terminal (OSC 52)."""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import sys

CODE = re.compile(r"^(```+|~~~+)[^\n]*\n(.*?)^\1", re.MULTILINE | re.DOTALL)
PROGRAMS = (  # command, and the variable that must be set for it to work
    (("pbcopy",), ""),
    (("wl-copy",), "WAYLAND_DISPLAY"),
    (("xclip", "-selection", "clipboard"), "DISPLAY"),
    (("xsel", "--clipboard", "--input"), "DISPLAY"),
    (("clip.exe",), "WSL_DISTRO_NAME"),
)
PATIENCE = 5  # seconds


def copied(text: str) -> str:
    """Copy the text; returns how it was done, in words."""
    for command, variable in PROGRAMS:
        if (not variable or os.environ.get(variable)) and shutil.which(command[0]):
            try:
                subprocess.run(command, input=text.encode(), check=True, timeout=PATIENCE, stdout=subprocess.DEVNULL)  # noqa: S603
            except (OSError, subprocess.SubprocessError):
                continue
            return f"with {command[0]}"
    sys.stdout.write(f"\x1b]52;c;{base64.b64encode(text.encode()).decode()}\x07")
    sys.stdout.flush()
    return "through the terminal, if it allows that"


def last_code(text: str) -> str:
    """The last code block in a Markdown text; empty if there is none."""
    blocks = CODE.findall(text)
    return str(blocks[-1][1]) if blocks else ""
