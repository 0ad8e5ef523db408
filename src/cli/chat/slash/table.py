"""The table of slash commands. A line with a slash never goes to the model, even if the command is unknown.

A command's module is loaded when the command is first used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from types import ModuleType

from msgspec import Struct

from ....security.text.sanitize import sanitize
from ..state import ChatIO, State

HELP_COLUMNS = 26  # of a command and its argument
MIN_LIKENESS = 0.7  # of a name that is suggested, as difflib measures it; 1: equal
_CHOICES = re.compile(r"\[([a-z]+(?:\|[a-z]+)*)\]")


class SlashCommand(Struct, frozen=True):
    """A slash command. `argument` describes its argument: "[on|off]" is one of these words, or none.

    Its module, beside this one, has run_NAME(state, argument), which may raise BotError, and may have
    complete_NAME(state), which gives the possible values of the argument.
    """

    name: str  # with its slash
    help: str
    module: str
    argument: str = ""
    aliases: tuple[str, ...] = ()
    takes_terminal: bool = False
    asks_model: bool = False

    @property
    def usage(self) -> str:
        return f"{self.name} {self.argument}".strip()

    def run(self, state: State, argument: str) -> None:
        getattr(self._load(), f"run_{self.name[1:]}")(state, argument)

    def complete(self, state: State) -> Iterable[str]:
        if choices := _CHOICES.fullmatch(self.argument):
            return choices[1].split("|")
        values: Iterable[str] = getattr(self._load(), f"complete_{self.name[1:]}", lambda _: ())(state)
        return values

    def _load(self) -> ModuleType:
        return import_module(f".{self.module}", __package__)


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
    """A line for each command, and for each key."""
    lines = [
        f"  {command.usage:{HELP_COLUMNS}} {command.help}"
        + (f" (also {', '.join(command.aliases)})" * bool(command.aliases))
        for command in COMMANDS
    ]
    return [*lines, "", *(f"  {key:{HELP_COLUMNS}} {what}" for key, what in HELP_KEYS.items())]


HELP_KEYS = {
    "Shift-Tab": "switch to the next mode: what may run without asking",
    "Ctrl-B": "send the command that runs to the background",
    "@PATH": "add the content of a file to your message",
    "!COMMAND": "run a command yourself; the model sees its output",
    '\\ at the end, or """': "write several lines (also Alt-Enter)",
    "Ctrl-C, Ctrl-D": "stop the answer; leave",
}

COMMANDS = (
    SlashCommand("/help", "show this list", "info", aliases=("/?",)),
    SlashCommand("/exit", "leave the chat", "control", aliases=("/quit",)),
    SlashCommand("/new", "start a new conversation; this one is kept", "control", aliases=("/reset",)),
    SlashCommand("/clear", "start a new conversation on an empty screen", "control"),
    SlashCommand("/model", "show the model, or switch to another one", "control", "[NAME]"),
    SlashCommand("/path", "show how tools are called, or change it", "control", "[PATH]"),
    SlashCommand("/mode", "show what may run without asking, or change it", "control", "[MODE]"),
    SlashCommand("/trust", "use the skills, commands and checkers of this folder, or do not", "control", "[off]"),
    SlashCommand("/plan", "in mode plan: accept the last answer as the plan, edit it or send it back", "control"),
    SlashCommand(
        "/panel", "ask the models of review.models, and have one sum up", "control", "QUESTION", asks_model=True
    ),
    SlashCommand(
        "/mcp", "show the MCP servers, their tools and errors, or start one again", "control", "[restart NAME]"
    ),
    SlashCommand("/jobs", "list commands in the background, show or end one", "control", "[[end] N]"),
    SlashCommand("/edit", "write the next message in your editor", "control", "[TEXT]", takes_terminal=True),
    SlashCommand("/think", "choose whether and how much the model thinks", "control", "[on|off|low|medium|high]"),
    SlashCommand("/thinking", "choose how the model's thoughts are shown", "control", "[fold|show|hide]"),
    SlashCommand("/debug", "choose what is traced", "control", "[off|on|bodies]"),
    SlashCommand("/undo", "undo the last turn, or the last N, including changes to files", "history", "[N]"),
    SlashCommand("/retry", "undo the last turn and ask the same question again", "history"),
    SlashCommand("/redo", "do again what /undo has undone", "history", "[N]"),
    SlashCommand(
        "/diff", "show what has been changed in files, or in one; 1: in the last turn", "history", "[TURN|FILE]"
    ),
    SlashCommand("/sessions", "list past conversations, or search them", "history", "[WORDS]"),
    SlashCommand("/resume", "continue a past conversation", "history", "[SESSION]"),
    SlashCommand("/rename", "name this conversation", "history", "[NAME]"),
    SlashCommand("/fork", "continue in a copy of this conversation", "history"),
    SlashCommand("/export", "save this conversation as .md, .json or .html", "history", "[FILE]"),
    SlashCommand("/compact", "summarize the older part; HINT says what to keep", "history", "[HINT]", asks_model=True),
    SlashCommand("/init", "have the model write AGENTS.md for this project", "control"),
    SlashCommand("/permissions", "show what runs without asking; forget: reset it", "info", "[forget]"),
    SlashCommand("/todos", "show the model's to-do list", "info"),
    SlashCommand("/skills", "list the skills and commands that you, or a trusted folder, bring", "info"),
    SlashCommand("/doctor", "check the server, the model and the terminal", "info", takes_terminal=True),
    SlashCommand("/copy", "copy the last answer, or the last code block in it", "info", "[code]"),
    SlashCommand("/expand", "show the last call or thought in full; again: the one before", "info"),
    SlashCommand("/models", "list the server's models", "info"),
    SlashCommand("/tools", "list the tools the model can call in this mode", "info"),
    SlashCommand("/status", "show server, model, workspace, context and tokens", "info"),
    SlashCommand("/context", "show how full the context is, and with what", "info"),
    SlashCommand("/tokens", "show the tokens used in this chat", "info"),
    SlashCommand("/config", "show the settings and where each comes from", "info", "[WORD]"),
)

AT_QUESTION = {"/jobs", "/mode", "/thinking", "/debug"}
AT_QUESTION |= {command.name for command in COMMANDS if command.module == "info" and not command.takes_terminal}
_BY_NAME = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
