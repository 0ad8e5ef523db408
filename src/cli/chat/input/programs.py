"""The user's own programs: `!command`, whose output is shown and given to the model, the editor and the pager."""

from __future__ import annotations

import codecs
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from ....errors import ConfigError, ToolError
from ....security.text.sanitize import Sanitizer
from ....tools.process.output import Output
from ....tools.process.run import run_live
from ....types.special_tokens import neutralize
from ..state import State

EDITORS = ("nano", "vim", "vi")
PAGER = "less"
LESS = "-FRX"  # ends after a text that fits on the screen, shows colours, and leaves the text there
LEFT = (0, -signal.SIGPIPE)  # how a pager ends that did not fail
OTHER_PAGER = "Set PAGER to another one, or to cat."
SHELL = "/bin/sh"
MAX_MODEL_CHARS = 30_000  # of an output; the middle of a longer one is cut
NOTE = "I ran this command:\n$ {command}\n{output}\n[{ending}]"


def run_user_command(state: State, command: str) -> None:
    """Run a command as the user, in the workspace and outside the sandbox. Ctrl-C ends the command, not the chat."""
    if not command:
        state.screen.say("  Type !command to run a command; the model sees its output with your next message")
        return
    is_waiting = False
    with suppress(ValueError):  # an open quotation mark, which the shell will tell of
        is_waiting = "&" in shlex.shlex(command, punctuation_chars=True)
    if is_waiting:
        state.screen.say("  Shown until what runs in the background ends; Ctrl-C ends it.")
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    sanitise, output, pending = Sanitizer().feed, Output(MAX_MODEL_CHARS), ""

    def show(data: bytes) -> None:
        nonlocal pending
        text = sanitise(decoder.decode(data))
        output.feed(text.encode())
        *lines, pending = (pending + text).split("\n")
        if lines:
            state.screen.put("\n".join(lines))

    try:
        code = run_live([SHELL, "-c", command], state.settings.root, os.environ, show)
    except ToolError as error:
        state.screen.say(f"  {error.message[0].upper()}{error.message[1:]}")
        return
    if pending:
        state.screen.put(pending)
    if code == -signal.SIGINT:
        state.screen.put("")  # the terminal shows ^C
    ending = _describe_ending(code)
    output_text = output.text().removesuffix("\n")
    state.notes.append(neutralize(NOTE.format(command=command, output=output_text, ending=ending)))
    state.screen.say(f"  [{ending}; the model sees this with your next message]")


def _describe_ending(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    names = {-each.value: each.name for each in signal.Signals}
    return f"ended by {names.get(code, f'signal {-code}')}"


def edit_text(text: str, name: str = "message.md") -> str:
    """Let the user edit a text with VISUAL, EDITOR or a common editor. Raises ConfigError."""
    named = (os.environ.get(variable, "").strip() for variable in ("VISUAL", "EDITOR"))
    command = next(filter(None, named), "") or next(filter(shutil.which, EDITORS), "")
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


def show_in_pager(text: str) -> bool:
    """Show a text with PAGER or less until the user leaves it. Returns whether there is one.

    Raises ConfigError if it fails. One that ends after Ctrl-C, with any code, or as its output is closed was left.
    """
    command = os.environ.get("PAGER", PAGER).strip()
    if not command or (command == PAGER and not shutil.which(PAGER)):
        return False
    options = f"-R {os.environ['LESS']}" if "LESS" in os.environ else LESS
    interrupts: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))  # it is the pager's key
    try:
        data = text.encode(errors="replace")
        done = subprocess.run(shlex.split(command), input=data, env={**os.environ, "LESS": options}, check=False)  # noqa: S603 - the user's pager
    except (OSError, ValueError) as error:
        raise ConfigError(f"The pager could not be started: {error}", OTHER_PAGER) from error
    finally:
        signal.signal(signal.SIGINT, before)
    if done.returncode not in LEFT and not interrupts:
        raise ConfigError(f"The pager failed ({_describe_ending(done.returncode)}).", OTHER_PAGER)
    return True
