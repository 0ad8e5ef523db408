"""The user's own programs: !command, whose output is shown and passed to the model, and the editor."""

from __future__ import annotations

import codecs
import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ....errors import ConfigError
from ....security.text.sanitize import Sanitizer
from ....types.special_tokens import neutralize_with_note
from ..state import State

GRACE = 1.0  # seconds for an interrupted command to end by itself
EDITORS = ("nano", "vim", "vi")
MOST_SHOWN_TO_MODEL = 30_000  # characters; the middle is cut out
NOTE = "I ran this command:\n$ {command}\n{output}\n[{ending}]"


def run_own(state: State, command: str) -> None:
    """Run a command as the user, in the workspace. Ctrl-C ends the command, not the chat."""
    if not command:
        state.screen.say("  Type !command to run a command; the model sees its output with your next message")
        return
    try:
        process = subprocess.Popen(  # noqa: S602 - a shell is what the user asks for, and nobody else is
            command, shell=True, cwd=state.settings.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except OSError as error:
        state.screen.say(f"  The command could not be started: {error.strerror}")
        return
    kept: list[str] = []
    with process:
        try:
            for line in _lines(process):
                kept.append(line)
                state.screen.put(line)
        except KeyboardInterrupt:
            _end(process)
    ending = _ending(process.returncode)
    state.notes.append(
        neutralize_with_note(NOTE.format(command=command, output=_bounded("\n".join(kept)), ending=ending))
    )
    state.screen.say(f"  [{ending}; the model sees this with your next message]")


def _ending(code: int) -> str:
    names = {-each.value: each.name for each in signal.Signals}
    return f"exit code {code}" if code >= 0 else f"ended by {names.get(code, f'signal {-code}')}"


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C reaches the command as well; if that does not end it, terminate it."""
    with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
        process.wait(GRACE)
    process.terminate()
    if process.stdout:
        process.stdout.close()


def _lines(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Output lines as they arrive, sanitized."""
    assert process.stdout is not None  # noqa: S101 - it was started with a pipe
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    plain, pending = Sanitizer().feed, ""
    while data := os.read(process.stdout.fileno(), 65536):
        *lines, pending = (pending + plain(decode(data))).split("\n")
        yield from lines
    if pending:
        yield pending


def _bounded(text: str) -> str:
    cut = len(text) - MOST_SHOWN_TO_MODEL
    if cut <= 0:
        return text
    half = MOST_SHOWN_TO_MODEL // 2
    return f"{text[:half]}\n[... {cut:,} characters cut out of the middle ...]\n{text[-half:]}"


def edited(text: str, name: str = "message.md") -> str:
    """The text after the user edited it with VISUAL, EDITOR, or a usual editor. Raises ConfigError."""
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or next(filter(shutil.which, EDITORS), "")
    if not command:
        raise ConfigError("No editor found.", "Set EDITOR, e.g. EDITOR=nano.")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / name
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(command), str(file)], check=False)  # noqa: S603 - the user's own
        except (OSError, ValueError) as error:
            raise ConfigError(f"The editor could not be started: {error}", "Set EDITOR to another one.") from error
        if done.returncode:
            raise ConfigError(f"The editor ended with exit code {done.returncode}, so its text was not used.")
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
