"""`!command`: the user's own commands, whose output is shown and given to the model."""

from __future__ import annotations

import codecs
import os
import signal

from ....errors import ToolError
from ....security.text.sanitize import Sanitizer
from ....tools.process.run import Output, run_live
from ....types.special_tokens import neutralize
from ..state import State

SHELL = "/bin/sh"
MAX_MODEL_CHARS = 30_000  # of an output; the middle is cut out
NOTE = "I ran this command:\n$ {command}\n{output}\n[{ending}]"


def run_user_command(state: State, command: str) -> None:
    """Run a command as the user, in the workspace and outside the sandbox. Ctrl-C ends the command, not the chat."""
    if not command:
        state.screen.say("  Type !command to run a command; the model sees its output with your next message")
        return
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
    names = {-each.value: each.name for each in signal.Signals}
    ending = f"exit code {code}" if code >= 0 else f"ended by {names.get(code, f'signal {-code}')}"
    kept = output.text().removesuffix("\n")
    state.notes.append(neutralize(NOTE.format(command=command, output=kept, ending=ending)))
    state.screen.say(f"  [{ending}; the model sees this with your next message]")
