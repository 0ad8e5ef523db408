"""Asking the user at the terminal whether a call may run. The call is shown in full.

y runs it, n does not, a runs it and saves a rule, e lets the user change it first, and anything else goes to the
model instead of a result.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from ....app.factory import Factory
from ....config import Settings
from ....errors import BotError
from ....security.permissions.approval import APPROVE_ALL, REFUSE_ALL, Answer, Approver, Request
from ....security.text.sanitize import reveal, sanitize
from ....types.messages import JSON

INDENT = "    "
YES = Answer(True)
NO = Answer(False, "the user said no. Ask what to do instead, or go on without it.")
INSTEAD = "the user did not let it run, and said: {said}"
COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}  # of diff lines, by their first character
TALL = 20  # lines, above which the beginning may be off the screen


def ask_plainly(question: str, default: str = "") -> str:
    """Ask on standard error, since input() would prompt on standard output."""
    before = f"{question}[{default}] " if default else question
    print(before, end="", file=sys.stderr, flush=True)
    return input() or default


class AtTerminal:
    """An Approver that asks. Only y or yes, typed after the question, is a yes.

    `ask` reads a line for a question and a default, like input(); `show` prints lines; `paused` is entered around it
    all; `edit` lets the user edit a text; `remember` saves a rule for later chats and may raise OSError.
    """

    def __init__(
        self,
        ask: Callable[[str, str], str] = ask_plainly,
        show: Callable[[str], None] | None = None,
        *,
        coloured: bool = False,
        paused: Callable[[], AbstractContextManager[None]] = nullcontext,
        edit: Callable[[str], str] | None = None,
        remember: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._ask = ask
        self._show = show or (lambda text: print(text, file=sys.stderr))
        self._coloured = coloured
        self._paused = paused
        self._edit = edit
        self._remember = remember

    def approve(self, request: Request) -> Answer:
        with self._paused():
            self._show_whole(request)
            try:
                return self._answer(request)
            except EOFError:
                self._show("")
                return NO

    def _show_whole(self, request: Request, *, changed: bool = False) -> None:
        name = reveal(request.call.name)
        head = f"{name} as you changed it:" if changed else f"{name} wants to run ({reveal(request.reason)}):"
        lines = [head, *(line for item in _arguments(request) for line in _shown(*item))]
        if request.preview:
            lines += ["", *(self._diff_line(line) for line in request.preview.rstrip("\n").split("\n"))]
        lines += [f"reviewed: {sanitize(review)}" for review in request.reviews]
        if len(lines) > TALL:
            lines.append(f"({len(lines)} lines: scroll up to see them all)")
        self._show("\n".join(f"  {line}" for line in lines))

    def _diff_line(self, line: str) -> str:
        text = f"  {reveal(line)}"
        colour = COLOURS.get(line[:1]) if self._coloured else None
        return f"{colour}{text}\x1b[0m" if colour else text

    def _answer(self, request: Request, *, changed: bool = False) -> Answer:
        always = bool(request.rule) and not changed
        if always:
            self._show(f"  a: run it, and always allow {_in_short(request.rule)}")
        self._show("  y: run it   n: don't   e: change it first   or type what to do instead")
        while True:
            forget_typed_ahead()
            said = self._ask("  Run it? [y/N] ", "").strip()
            word = said.lower()
            if word in ("y", "yes"):
                return Answer(True, arguments=request.call.arguments if changed else None)
            if word in ("", "n", "no"):
                return NO
            if word in ("a", "always") and always:
                self._keep(request.rule)
                return Answer(True, always=True)
            if word in ("e", "edit"):
                return self._changed(request, changed=changed)
            if len(said) > 1:
                return Answer(False, INSTEAD.format(said=said))
            self._show(f"  {sanitize(said)} is not one of the answers.")

    def _keep(self, rule: str) -> None:
        """Save the rule for later chats; the agent keeps it for this one."""
        try:
            if self._remember:
                self._remember(json.loads(rule))
        except (OSError, ValueError) as error:
            self._show(f"  It could not be saved, so it holds for this chat only: {error}")

    def _changed(self, request: Request, *, changed: bool) -> Answer:
        """Let the user change the arguments, show the call again and ask again."""
        try:
            new = self._new_arguments(request)
        except (ValueError, BotError) as error:
            self._show(f"  {sanitize(str(error))}")
            new = request.call.arguments
        if new == request.call.arguments:
            self._show("  Nothing was changed.")
            return self._answer(request, changed=changed)
        from dataclasses import replace

        revised = request.revise(replace(request.call, arguments=new))
        if isinstance(revised, str):
            self._show(f"  It cannot run like that: {sanitize(revised)}")
            return self._answer(request, changed=changed)
        self._show_whole(revised, changed=True)
        return self._answer(revised, changed=True)

    def _new_arguments(self, request: Request) -> Mapping[str, JSON]:
        """What the user makes of them. Raises ValueError if it is no JSON object, BotError without an editor."""
        arguments = request.call.arguments
        command = arguments.get("command")
        if request.call.name == "exec" and isinstance(command, str) and "\n" not in command:
            return {**arguments, "command": self._ask("  Change it to: ", command)}
        if self._edit:
            text = self._edit(json.dumps(arguments, indent=2, ensure_ascii=False))
        else:
            text = self._ask("  Change it to: ", json.dumps(arguments, ensure_ascii=False))
        try:
            new = json.loads(text)
        except ValueError as error:
            raise ValueError(f"That is not valid JSON: {error}") from error
        if not isinstance(new, dict):
            raise ValueError("That is not a JSON object.")
        return new


def _arguments(request: Request) -> list[tuple[str, JSON]]:
    """The arguments to show, without those that the diff shows."""
    arguments = request.call.arguments.items()
    in_diff = {"content", "oldText", "newText"} if request.preview else set()
    return [(name, value) for name, value in arguments if name not in in_diff]


def _in_short(rule: str) -> str:
    """A rule in the form that --allow takes."""
    try:
        entry = json.loads(rule)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not {"tool"} <= entry.keys() <= {"tool", "action", "command", "path", "exact"}:
        return reveal(rule)
    what = entry.get("command") or entry.get("path")
    short = f"{entry['tool']}:{what}" if what else str(entry["tool"])
    return reveal(short) + (" (this exact command)" if entry.get("exact") else "")


def _shown(name: str, value: JSON) -> list[str]:
    text = reveal(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if "\n" not in text:
        return [f"  {reveal(name)}: {text}"]
    return [f"  {reveal(name)}:", *(f"  | {line}" for line in text.split("\n"))]


def forget_typed_ahead() -> None:
    """Discard what was typed before the question."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error, ValueError, OSError):  # no terminal: nothing was typed
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def choose_approver(yes: bool, settings: Settings) -> Approver:
    """`yes` approves every call; else the user decides, if there is a terminal."""
    if yes:
        return APPROVE_ALL
    is_terminal = sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()
    return AtTerminal(remember=Factory(settings).saved_rules.save) if is_terminal else REFUSE_ALL
