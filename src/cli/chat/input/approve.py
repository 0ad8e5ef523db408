"""Ask the user at the terminal whether a call may run. The call is shown in full.

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
from ....security.permissions.approval import REFUSE_ALL, Answer, Approver, AutoApprover, Request
from ....security.text.sanitize import reveal, sanitize
from ....types.messages import JSON
from ...render.diff import draw_preview

DENIED = Answer(False, "the user said no. Ask what to do instead, or go on without it.")
REPLY_DENIAL = "the user did not let it run, and said: {said}"
MAX_SHORT_LINES = 20  # the beginning of a longer request may be off the screen


def ask_on_stderr(question: str, default: str = "") -> str:
    """Ask on standard error, since input() would prompt on standard output."""
    before = f"{question}[{default}] " if default else question
    print(before, end="", file=sys.stderr, flush=True)
    return input() or default


class TerminalApprover:
    """An Approver that asks the user. Only y or yes, typed after the question, approves.

    `ask` reads a line for a question and a default, like input(); `show` prints lines; `pause` is entered around
    the whole exchange; `edit` lets the user edit a text; `remember` saves a rule for later chats and may raise OSError.
    """

    def __init__(
        self,
        ask: Callable[[str, str], str] = ask_on_stderr,
        show: Callable[[str], None] | None = None,
        *,
        coloured: bool = False,
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
        edit: Callable[[str], str] | None = None,
        remember: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self._ask = ask
        self._show = show or (lambda text: print(text, file=sys.stderr))
        self._coloured = coloured
        self._pause = pause
        self._edit = edit
        self._remember = remember

    def approve(self, request: Request) -> Answer:
        with self._pause():
            self._show_request(request)
            try:
                return self._ask_user(request)
            except EOFError:
                self._show("")
                return DENIED

    def _show_request(self, request: Request, *, changed: bool = False) -> None:
        name = reveal(request.call.name)
        head = f"{name} as you changed it:" if changed else f"{name} wants to run ({reveal(request.reason)}):"
        lines = [head, *(line for item in _select_arguments(request) for line in _format_argument(*item))]
        if request.preview:
            lines += ["", *draw_preview(request.preview, coloured=self._coloured)]
        lines += [f"reviewed: {sanitize(review)}" for review in request.reviews]
        if len(lines) > MAX_SHORT_LINES:
            lines.append(f"({len(lines)} lines: scroll up to see them all)")
        self._show("\n".join(f"  {line}" for line in lines))

    def _ask_user(self, request: Request, *, changed: bool = False) -> Answer:
        always = bool(request.rule) and not changed
        if always:
            self._show(f"  a: run it, and always allow {_format_rule(request.rule)}")
        self._show("  y: run it   n: don't   e: change it first   or type what to do instead")
        while True:
            discard_typed_ahead()
            said = self._ask("  Run it? [y/N] ", "").strip()
            word = said.lower()
            if word in ("y", "yes"):
                return Answer(True, arguments=request.call.arguments if changed else None)
            if word in ("", "n", "no"):
                return DENIED
            if word in ("a", "always") and always:
                self._save_rule(request.rule)
                return Answer(True, always=True)
            if word in ("e", "edit"):
                return self._change_arguments(request, changed=changed)
            if len(said) > 1:
                return Answer(False, REPLY_DENIAL.format(said=said))
            self._show(f"  {sanitize(said)} is not one of the answers.")

    def _save_rule(self, rule: str) -> None:
        """Save the rule for later chats; the agent keeps it for this one."""
        try:
            if self._remember:
                self._remember(json.loads(rule))
        except (OSError, ValueError) as error:
            self._show(f"  It could not be saved, so it holds for this chat only: {error}")

    def _change_arguments(self, request: Request, *, changed: bool) -> Answer:
        """Let the user change the arguments, show the call again and ask again."""
        try:
            new = self._read_arguments(request)
        except (ValueError, BotError) as error:
            self._show(f"  {sanitize(str(error))}")
            new = request.call.arguments
        if new == request.call.arguments:
            self._show("  Nothing was changed.")
            return self._ask_user(request, changed=changed)
        from dataclasses import replace

        revised = request.revise(replace(request.call, arguments=new))
        if isinstance(revised, str):
            self._show(f"  It cannot run like that: {sanitize(revised)}")
            return self._ask_user(request, changed=changed)
        self._show_request(revised, changed=True)
        return self._ask_user(revised, changed=True)

    def _read_arguments(self, request: Request) -> Mapping[str, JSON]:
        """The arguments as the user edits them. Raises ValueError if they are no JSON object, or BotError."""
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


def _select_arguments(request: Request) -> list[tuple[str, JSON]]:
    """The arguments that the diff does not show."""
    arguments = request.call.arguments.items()
    in_diff = {"content", "oldText", "newText"} if request.preview else set()
    return [(name, value) for name, value in arguments if name not in in_diff]


def _format_rule(rule: str) -> str:
    """A rule in the form that --allow takes, if it has one."""
    try:
        entry = json.loads(rule)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not {"tool"} <= entry.keys() <= {"tool", "action", "command", "path", "exact"}:
        return reveal(rule)
    what = entry.get("command") or entry.get("path")
    short = f"{entry['tool']}:{what}" if what else str(entry["tool"])
    return reveal(short) + (" (this exact command)" if entry.get("exact") else "")


def _format_argument(name: str, value: JSON) -> list[str]:
    text = reveal(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if "\n" not in text:
        return [f"  {reveal(name)}: {text}"]
    return [f"  {reveal(name)}:", *(f"  | {line}" for line in text.split("\n"))]


def discard_typed_ahead() -> None:
    """Discard what was typed before the question."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error, ValueError, OSError):  # no terminal
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def choose_approver(yes: bool, settings: Settings) -> Approver:
    """`yes` approves every call that was not guessed. The user decides about the others.

    Without a terminal these are refused.
    """
    is_terminal = sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()
    user = TerminalApprover(remember=Factory(settings).rule_memory.save) if is_terminal else REFUSE_ALL
    return AutoApprover(user) if yes else user
