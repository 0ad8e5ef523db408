"""The chat: a prompt, the answer as it streams, a line for each tool call, and a few commands."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from .. import __version__
from ..config import Settings
from ..errors import BotError, ConfigError
from ..messages import Notice, UserMessage
from . import start
from .debug import Debug
from .render import Screen, plain

if TYPE_CHECKING:  # loaded behind the prompt
    pass

PROMPT = "> "
LEAVING = "Ctrl-D or /exit leaves; Ctrl-C stops an answer."


class Chat:
    """One conversation at the terminal. `bot` makes what answers, once, when the first question is asked.

    `read` gives the next line for a prompt, and raises EOFError or KeyboardInterrupt, as input() does.
    """

    def __init__(
        self,
        settings: Settings,
        screen: Screen,
        debug: Debug,
        bot: Callable[[], start.Bot],
        read: Callable[[str], str] = input,
    ) -> None:
        self._settings = settings
        self._read = read
        self._screen = screen
        self._debug = debug
        self._make_bot = bot
        self._bot: start.Bot | None = None
        self._conversation = start.opening(settings)
        self._left = False

    def run(self) -> int:
        """Until the user leaves; the exit code."""
        while not self._left:
            try:
                line = self._read(PROMPT).strip()
            except EOFError:
                self._screen.say("")
                return 0
            except KeyboardInterrupt:
                self._screen.say(f"\n{LEAVING}")
                continue
            if line.startswith("/"):
                self._command(line)
            elif line:
                self._answer(line)
        return 0

    def _answer(self, question: str) -> None:
        asked = UserMessage(question)
        self._conversation.append(asked)
        try:
            self._draw_answer()
        except KeyboardInterrupt:
            self._screen.say("(stopped)")
        except BotError as error:
            self._screen.draw(Notice(str(error)))
            self._debug.traceback()
        if self._bot and (unkept := self._bot.keep()):
            self._screen.draw(Notice(unkept))
        if self._conversation[-1] is asked:  # nothing was said to it: it can be asked again
            self._conversation.pop()

    def _draw_answer(self) -> None:
        bot = self._ready()
        events = bot.agent.run(self._conversation)
        try:
            for event in events:
                self._debug.trace(event)
                self._screen.draw(event)
        finally:
            events.close()  # an interrupt while drawing ends the turn here and now, not when memory is tidied

    def _ready(self) -> start.Bot:
        self._bot = self._bot or self._make_bot()
        return self._bot

    def _command(self, line: str) -> None:
        name, _, argument = line.partition(" ")
        name = name.lower()
        if command := _COMMANDS.get(name):
            command.run(self, argument.strip())
            return
        import difflib  # only for a mistake

        near = difflib.get_close_matches(name, _COMMANDS, n=1)
        self._screen.say(
            f"There is no command {plain(name)}. " + (f"Did you mean {near[0]}?" if near else "Try /help.")
        )

    def help(self, _: str) -> None:
        for name, command in _COMMANDS.items():
            self._screen.say(f"  {name:8} {command.help}")
        self._screen.say(f"  {LEAVING}")

    def tools(self, _: str) -> None:
        for tool in start.tools(self._settings):
            self._screen.say(f"  {tool.signature}\n      {tool.definition.description}")

    def reset(self, _: str) -> None:
        self._conversation = start.opening(self._settings)
        self._screen.say("The conversation starts anew.")

    def path(self, mode: str) -> None:
        """Show the call path and why it is in use, or take another."""
        from ..model import MODES

        path = self._ready().model.path
        if chosen := next((each for each in MODES if each == mode), None):
            path.choose(chosen)
        elif mode:
            self._screen.say(f"There is no path {plain(mode)}. It is one of {', '.join(MODES)}.")
            return
        self._screen.say(f"  {path.mode}: {path.why}")

    def leave(self, _: str) -> None:
        self._left = True


class Command(NamedTuple):
    help: str
    run: Callable[[Chat, str], None]


_COMMANDS = {
    "/help": Command("this list", Chat.help),
    "/tools": Command("what the model can call", Chat.tools),
    "/path": Command("how tools are called, and why; /path native, template or text changes it", Chat.path),
    "/reset": Command("forget the conversation and start anew", Chat.reset),
    "/exit": Command("leave", Chat.leave),
}


def open_chat(settings: Settings, debug: Debug, *, yes: bool, relearn: bool) -> int:
    """Raises BotError where no model is configured and the server cannot be asked for one."""
    screen = Screen(sys.stdout, sys.stderr, thoughts=True, styled=_styled())
    start.warn(settings, screen)
    model_name = settings.vllm.model or start.served_model(settings, screen, _choose)
    print(_banner(settings, model_name, yes=yes))
    threading.Thread(target=_load_rooms, daemon=True).start()
    _edit_lines()
    approver = start.approver(yes)
    return Chat(settings, screen, debug, lambda: start.bot(settings, model_name, approver, relearn=relearn)).run()


def _banner(settings: Settings, model_name: str, *, yes: bool) -> str:
    path = "native calls, text as fallback" if settings.vllm.enable_function_calling else "calls in the text only"
    asking = "write, edit and exec run without asking" if yes else "write, edit and exec ask first"
    rows = {
        "server": settings.vllm.base_url,
        "model": model_name,
        "tools": f"{path}; {asking}",
        "workspace": str(settings.root),
    }
    lines = [f"  {name:10} {plain(value)}" for name, value in rows.items()]
    return "\n".join([f"vLLM Bot {__version__}", *lines, "  /help for commands, Ctrl-D to leave"])


def _choose(names: list[str]) -> str:
    """Which of several models, asked at the terminal."""
    for number, name in enumerate(names, 1):
        print(f"  {number}  {plain(name)}")
    while True:
        try:
            answer = input("Which model? ").strip()
        except EOFError:
            print()
            raise ConfigError("No model was chosen.", "Name one with --model, or set vllm.model.") from None
        if answer in names:
            return answer
        if answer.isdecimal() and 1 <= int(answer) <= len(names):
            return names[int(answer) - 1]


def _load_rooms() -> None:
    """requests and all that needs it, while the user reads the banner and types."""
    from .. import agent, model  # noqa: F401


def _edit_lines() -> None:
    """Arrow keys and history for input(), where there is readline."""
    with contextlib.suppress(ImportError):
        import readline

        if os.environ.get("TERM") != "dumb":  # it would show the escape that asks for it
            readline.parse_and_bind("set enable-bracketed-paste on")  # lines pasted together are one question


def _styled() -> bool:
    return sys.stderr.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
