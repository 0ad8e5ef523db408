"""The table of slash commands. A line with a slash never goes to the model, even if the command is unknown."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ....security.text.sanitize import sanitize
from ..state import ChatIO, SlashCommand, State
from .control import CONTROL_COMMANDS
from .history import HISTORY_COMMANDS
from .info import INFO_COMMANDS

HELP_COLUMNS = 26  # of a command and its argument
MIN_LIKENESS = 0.7  # of a name that is suggested, as difflib measures it; 1: equal


def run_command(state: State, line: str, io: ChatIO | None = None) -> None:
    """Run the command in `line`, or suggest the nearest one. Raises BotError."""
    io = io or ChatIO()
    name, _, argument = line.partition(" ")
    if command := find_command(name):
        with _enter(command, io):
            command.run(state, argument.strip())
        return
    if left_out := state.factory.trust_memory.find_untrusted_command(name[1:]):
        state.screen.say(f"{sanitize(name)} is in {left_out} of this folder, which you do not trust yet: see /trust.")
        return
    near = suggest_command(name)
    state.screen.say(f"There is no command {sanitize(name)}. " + (f"Did you mean {near}?" if near else "Try /help."))


def _enter(command: SlashCommand, io: ChatIO) -> AbstractContextManager[object]:
    """What the chat does while a command runs."""
    if command.takes_terminal:
        return io.suspend()
    return io.turn() if command.asks_model else nullcontext()


def run_command_at_question(state: State, line: str) -> None:
    """Run a command while a call waits for its approval, unless it would change the conversation."""
    command = find_command(line.partition(" ")[0])
    if command is None or command.name in AT_QUESTION:
        run_command(state, line)
    else:
        state.screen.say(f"  {sanitize(command.name)} has to wait until the question is answered.")


def find_command(name: str) -> SlashCommand | None:
    """The command with this name or alias, in any case."""
    return _BY_NAME.get(name.lower())


def suggest_command(name: str) -> str:
    """The most similar known name; empty if there is none."""
    import difflib  # only for a mistake

    near = difflib.get_close_matches(name.lower(), _BY_NAME, n=1, cutoff=MIN_LIKENESS)
    return near[0] if near else ""


def format_help() -> list[str]:
    return [
        f"  {command.usage:{HELP_COLUMNS}} {command.help}"
        + (f" (also {', '.join(command.aliases)})" * bool(command.aliases))
        for command in COMMANDS
    ]


def _show_help(state: State, _: str) -> None:
    keys = [f"  {key:{HELP_COLUMNS}} {what}" for key, what in HELP_KEYS.items()]
    state.screen.say("\n".join([*format_help(), "", *keys]))


HELP_KEYS = {
    "Shift-Tab": "switch to the next mode: what may run without asking",
    "Ctrl-B": "send the command that runs to the background",
    "@PATH": "add the content of a file to your message",
    "!COMMAND": "run a command yourself; the model sees its output",
    '\\ at the end, or """': "write several lines (also Alt-Enter)",
    "Ctrl-C, Ctrl-D": "stop the answer; leave",
}

COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("/help", "show this list", _show_help, aliases=("/?",)),
    *CONTROL_COMMANDS,
    *HISTORY_COMMANDS,
    *INFO_COMMANDS,
)

AT_QUESTION = {"/help", "/jobs", "/mode", "/thinking", "/debug"}
AT_QUESTION |= {command.name for command in INFO_COMMANDS if not command.takes_terminal}
_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
