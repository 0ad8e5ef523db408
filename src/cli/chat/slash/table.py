"""The table of slash commands. A line with a slash never goes to the model, even if the command is unknown."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from ....security.text.sanitize import sanitize
from ..state import Command, State
from .control import STEER
from .history import HISTORY
from .info import ABOUT

HELP_WIDTH = 26  # columns for a command and its argument


def run_command(state: State, line: str, quiet: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
    """Run the command in `line`, or suggest the nearest one. Raises BotError."""
    name, _, argument = line.partition(" ")
    if command := find(name):
        with nullcontext() if command.opens_editor else quiet():
            command.run(state, argument.strip())
        return
    near = nearest(name)
    state.screen.say(f"There is no command {sanitize(name)}. " + (f"Did you mean {near}?" if near else "Try /help."))


def find(name: str) -> Command | None:
    """The command with this name or alias, ignoring case."""
    return _BY_NAME.get(name.lower())


def nearest(name: str) -> str:
    """The most similar known name; empty if there is none."""
    import difflib  # only for a mistake

    near = difflib.get_close_matches(name.lower(), _BY_NAME, n=1)
    return near[0] if near else ""


def help_lines() -> list[str]:
    return [
        f"  {command.usage:{HELP_WIDTH}} {command.help}"
        + (f" (also {', '.join(command.aliases)})" * bool(command.aliases))
        for command in COMMANDS
    ]


def _help(state: State, _: str) -> None:
    keys = [f"  {key:{HELP_WIDTH}} {what}" for key, what in KEYS.items()]
    state.screen.say("\n".join([*help_lines(), "", *keys]))


KEYS = {
    "@PATH": "add the content of a file to your message",
    "!COMMAND": "run a command yourself; the model sees its output",
    '\\ at the end, or """': "write several lines (also Alt-Enter)",
    "Ctrl-C, Ctrl-D": "stop the answer; leave",
}

COMMANDS: tuple[Command, ...] = (Command("/help", "show this list", _help, aliases=("/?",)), *STEER, *HISTORY, *ABOUT)

_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
