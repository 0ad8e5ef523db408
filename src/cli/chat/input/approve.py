"""Ask the user at the terminal whether a call may run. The call is shown in full.

One letter answers, and a line with a slash runs a command of the chat. Feedback for the model follows `n` or `:`; any
other words ask again, since they may be meant as a yes.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ....app.factory import Factory
from ....config import Settings
from ....errors import BotError
from ....security.permissions.approval import REFUSE_ALL, SUBMIT_PLAN, Answer, Approver, AutoApprover, Request
from ....security.permissions.rules import RULE_KEYS
from ....security.text.sanitize import reveal, sanitize
from ....types.file_names import escape_name
from ....types.messages import JSON
from ....types.sandbox import Grant
from ...render.colours import NONE, Colours
from ...render.diff import draw_preview
from ...render.plain import REPLY_MARK, get_columns
from ...render.wrap import wrap_text

DENIED = Answer(False, "the user said no. Ask what to do instead, or go on without it.")
REPLY_DENIAL = f"the user did not let it run, {REPLY_MARK}{{said}}"
MAX_SHORT_LINES = 20  # the beginning of a longer request may be off the screen
EDITED_TEXTS = {  # tool -> what `e` opens
    "write": "content",
    "edit": "newText",
    "exec": "command",
    SUBMIT_PLAN: "plan",
}
ACCESS_LABELS: Mapping[Grant, str] = {
    "read": "read: changes nothing, no network",
    "write": "write: may change the workspace, no network",
    "network": "network: may change the workspace and use the network",
}
WIDER_KEYS: Mapping[Grant, tuple[str, str]] = {
    "network": ("w", "once, with the network"),
    "outside": ("o", "once, outside the sandbox"),
}
PLAN_KEYS = """\
  y: accept it, and go on in mode edits; e: edit it first; n: no
  n or a colon, and words: send it back, and say what to change"""
NO_COMMANDS = "  Commands with a slash work in a chat only."


def ask_on_stderr(question: str, default: str = "") -> str:
    """Ask on standard error, since input() would prompt on standard output."""
    before = f"{question}[{default}] " if default else question
    print(before, end="", file=sys.stderr, flush=True)
    return input() or default


class TerminalApprover:
    """An Approver that asks the user. Nothing but a key that is offered, typed after the question, approves.

    `ask` reads a line for a question and a default, like input(); `show` prints lines; `edit` lets the user edit a
    text, given the name of a file for it; `remember` saves a rule for later chats and may raise OSError; `run_command`
    runs a line with a slash; `find_colours` returns those of a diff; `get_width` is the terminal's columns, 0: none.
    """

    def __init__(
        self,
        ask: Callable[[str, str], str] = ask_on_stderr,
        show: Callable[[str], None] | None = None,
        *,
        find_colours: Callable[[], Colours] = lambda: NONE,
        edit: Callable[[str, str], str] | None = None,
        remember: Callable[[dict[str, Any]], None] | None = None,
        run_command: Callable[[str], None] | None = None,
        get_width: Callable[[], int] = lambda: 0,
    ) -> None:
        self._ask = ask
        self._print = show or (lambda text: print(text, file=sys.stderr))
        self._find_colours = find_colours
        self._edit = edit
        self._remember = remember
        self._run_command = run_command or (lambda _: self._show(NO_COMMANDS))
        self._get_width = get_width

    def approve(self, request: Request) -> Answer:
        if request.has_begun:
            self._show("")
        self._show_request(request)
        try:
            return self._ask_user(request)
        except EOFError:
            self._show("")
            return DENIED

    def may_go_on(self, turns: int) -> bool:
        """Ask whether the model may go on after so many turns with calls; Enter is a yes."""
        self._show(f"  The model has called tools for {turns} turns (agent.max_tool_turns).")
        while True:
            discard_typed_ahead()
            try:
                word = self._ask("  Go on? [Y/n] ", "").strip().lower()
            except EOFError:
                self._show("")
                return False
            if word in ("", "y", "yes", "n", "no"):
                return word[:1] != "n"
            self._show("  Answer y or n; at n the model sums up what it has found.")

    def _show(self, text: str) -> None:
        columns = self._get_width()
        self._print(wrap_text(text, columns - 1) if columns > 1 else text)

    def _show_request(self, request: Request, *, changed: bool = False) -> None:
        name = reveal(request.call.name, on_one_line=True)
        if request.call.name == SUBMIT_PLAN:
            self._show(_format_plan(request, changed=changed))
            return
        head = f"{name} as you changed it:" if changed else f"{name} wants to run ({reveal(request.reason)}):"
        lines = [head, *(line for item in _select_arguments(request) for line in _format_argument(*item))]
        if request.access:
            lines.append(f"  access: {ACCESS_LABELS[request.access]}")
        if request.preview:
            lines += ["", *draw_preview(request.preview, self._find_colours())]
        lines += [f"reviewed: {sanitize(review)}" for review in request.reviews]
        if len(lines) > MAX_SHORT_LINES:
            lines.append(f"({len(lines)} lines: scroll up to see them all)")
        self._show("\n".join(f"  {line}" for line in lines))
        if request.advice:
            self._show(f"  {request.advice}")

    def _ask_user(self, request: Request, *, changed: bool = False) -> Answer:
        has_rule = bool(request.rule) and not changed
        wider = {key: (grant, about) for grant, (key, about) in WIDER_KEYS.items() if grant in request.wider}
        keys = _format_keys(has_rule=has_rule, rule=request.rule, wider=[f"{k}: {v[1]}" for k, v in wider.items()])
        is_plan = request.call.name == SUBMIT_PLAN
        self._show(PLAN_KEYS if is_plan else keys)
        while True:
            discard_typed_ahead()
            said = self._ask("  Accept the plan? [y/N] " if is_plan else "  Run it? [y/N] ", "").strip()
            word = said.lower()
            arguments = request.call.arguments if changed else None
            if word in ("y", "yes"):
                return Answer(True, arguments=arguments)
            if word in wider:
                return Answer(True, arguments=arguments, access=wider[word][0])
            if word in ("", "n", "no"):
                return DENIED
            if has_rule and word in ("c", "chat", "a", "always"):
                if word in ("a", "always"):
                    self._save_rule(request.rule)
                return Answer(True, always=word[0] == "a", for_chat=word[0] == "c")
            if word in ("e", "edit"):
                return self._change_arguments(request, changed=changed)
            if feedback := _read_feedback(said):
                return Answer(False, REPLY_DENIAL.format(said=feedback))
            if said.startswith("/"):
                self._run_command(said)
            else:
                self._show(
                    f"  {sanitize(said)!r} is not one of the answers. To tell the model, begin with n or a colon."
                )

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
        """The arguments as the user edits them: the text of a write, an edit or a command itself, else JSON.

        Raises ValueError if they are no JSON object, or BotError.
        """
        arguments, name = request.call.arguments, EDITED_TEXTS.get(request.call.name, "")
        text = arguments.get(name)
        if isinstance(text, str):
            return {**arguments, name: self._edit_text(request, text)}
        before = json.dumps(arguments, indent=2 if self._edit else None, ensure_ascii=False)
        edited = self._edit(before, "arguments.json") if self._edit else self._ask("  Change it to: ", before)
        try:
            new = json.loads(edited)
        except ValueError as error:
            raise ValueError(f"That is not valid JSON: {error}") from error
        if not isinstance(new, dict):
            raise ValueError("That is not a JSON object.")
        return new

    def _edit_text(self, request: Request, text: str) -> str:
        is_command = request.call.name == "exec"
        if self._edit is None or (is_command and "\n" not in text):
            return self._ask("  Change it to: ", text)
        names = {"exec": "command.sh", SUBMIT_PLAN: "plan.md"}
        file = names.get(request.call.name) or str(request.call.arguments.get("path", "")).rpartition("/")[2]
        ends = text[len(text.rstrip("\n")) :]  # which the editor's text comes without
        return self._edit(text, file or "text") + ends


def find_turn_limit(approver: Approver, settings: Settings) -> tuple[int | None, Callable[[int], bool]]:
    """For AgentLoop.set_turn_limit: in a chat only a limit that was set holds, and the user is asked at it."""
    limit = settings.agent.max_tool_turns if "agent.max_tool_turns" in settings.places else None
    person = approver.other if isinstance(approver, AutoApprover) else approver
    return limit, person.may_go_on if isinstance(person, TerminalApprover) else lambda _turns: False


def _read_feedback(said: str) -> str:
    """`use git stash` of `n use git stash`, `no, use git stash` and `: use git stash`; "" if it is none."""
    if said.startswith(":"):
        return said[1:].strip()
    first, _, rest = said.partition(" ")
    return rest.strip() if first.lower().rstrip(",.:;") in ("n", "no") else ""


def _format_keys(*, has_rule: bool, rule: str, wider: list[str]) -> str:
    lines = [f"  y: once{', c: in this chat' if has_rule else ''}, n: no, e: change it first"]
    lines += [f"  a: always; this adds the rule {_format_rule(rule)}"] if has_rule else []
    lines += ["  " + "; ".join(wider)] if wider else []
    return "\n".join([*lines, "  n or a colon, and words: tell the model what to do instead"])


def _format_plan(request: Request, *, changed: bool) -> str:
    plan = request.call.arguments.get("plan")
    head = "  The plan as you changed it:" if changed else "  The plan:"
    return "\n".join([head, "", *(f"  {reveal(line)}" for line in str(plan).strip().split("\n")), ""])


def _select_arguments(request: Request) -> list[tuple[str, JSON]]:
    """The arguments that the diff does not show."""
    arguments = request.call.arguments.items()
    in_diff = {"content", "oldText", "newText"} if request.preview else {"access"} if request.access else set()
    return [(name, value) for name, value in arguments if name not in in_diff]


def _format_rule(rule: str) -> str:
    """A rule in the form that --allow takes, if it has one."""
    try:
        entry = json.loads(rule)
    except ValueError:
        entry = None
    if not isinstance(entry, dict) or not {"tool"} <= entry.keys() <= RULE_KEYS.keys():
        return reveal(rule)
    what = entry.get("command") or entry.get("path")
    short = f"{entry['tool']}:{what}" if what else str(entry["tool"])
    notes = ["this exact command"] if entry.get("exact") else []
    notes += [f"access={entry['access']}"] if "access" in entry else []
    return reveal(short) + (f" ({', '.join(notes)})" if notes else "")


def _format_argument(name: str, value: JSON) -> list[str]:
    if name == "path" and isinstance(value, str):
        return [f"  path: {escape_name(value)}"]
    label = reveal(name, on_one_line=True)
    text = reveal(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    if "\n" not in text:
        return [f"  {label}: {text}"]
    return [f"  {label}:", *(f"  | {line}" for line in text.split("\n"))]


def discard_typed_ahead() -> None:
    """Discard what was typed before the question."""
    try:
        import termios
    except ImportError:  # Windows
        return
    with contextlib.suppress(termios.error, ValueError, OSError):  # no terminal
        termios.tcflush(sys.stdin, termios.TCIFLUSH)


def choose_approver(
    yes: bool,
    settings: Settings,
    run_command: Callable[[str], None] | None = None,
    ask: Callable[[str, str], str] = ask_on_stderr,
) -> Approver:
    """`yes` approves every call that does not need a person. The user decides about the others.

    Without a terminal these are refused. `run_command` and `ask` are those of a TerminalApprover.
    """
    user: Approver = REFUSE_ALL
    if sys.stdin and sys.stdin.isatty() and sys.stderr.isatty():
        user = TerminalApprover(
            ask,
            edit=edit_in_editor,
            remember=Factory(settings).rule_memory.save,
            run_command=run_command,
            get_width=lambda: get_columns(sys.stderr),
        )
    return AutoApprover(user) if yes else user


def edit_in_editor(text: str, name: str) -> str:
    """Raises ConfigError."""
    from .programs import edit_text  # start-up is measured

    return edit_text(text, name)
