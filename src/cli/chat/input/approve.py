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

from msgspec.structs import replace

from ....app.factory import Factory
from ....config import Settings
from ....errors import BotError
from ....security.permissions.approval import (
    DENIED,
    REFUSE_ALL,
    SUBMIT_PLAN,
    Answer,
    Approver,
    AutoApprover,
    CannotRun,
    Request,
    refuse_with,
)
from ....security.text.sanitize import reveal, sanitize
from ....types.messages import JSON
from ...render.colours import NONE, Colours
from ...render.plain import get_size
from ...render.words import fill
from ...render.wrap import wrap_line, wrap_text
from .question import HELP_KEY, MODE_KEY, WIDER_KEYS, draw_note, draw_question, has_rule

EDITED_TEXTS = {  # tool -> what `e` opens
    "write": "content",
    "edit": "newText",
    "exec": "command",
    SUBMIT_PLAN: "plan",
}
NO_COMMANDS = "  Commands with a slash work in a chat only."


def ask_on_stderr(question: str, default: str = "") -> str:
    """Ask on standard error, since input() would prompt on standard output."""
    print(question + fill("[{}] ", reveal(default, on_one_line=True)), end="", file=sys.stderr, flush=True)
    return input() or default


class TerminalApprover:
    """An Approver that asks the user. Nothing but a key that is offered, typed after the question, approves.

    `ask` reads a line for a question and a default, like input(); `show` prints lines; `edit` lets the user edit a
    text, given the name of a file for it; `remember` saves a rule for later chats and may raise OSError; `run_command`
    runs a line with a slash; `find_colours` returns those of a diff; `get_size` returns the terminal's
    columns and rows, 0: none.
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
        get_size: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self._ask = ask
        self._print = show or (lambda text: print(text, file=sys.stderr))
        self._find_colours = find_colours
        self._edit = edit
        self._remember = remember
        self._run_command = run_command or (lambda _: self._show(NO_COMMANDS))
        self._get_size = get_size
        self._open: tuple[Request, bool] | None = None  # what is asked about, and whether the user changed it
        self._has_explained = False  # the keys of a call
        self._explains_keys = True  # at the open question
        self._lines = 0  # shown since the question began

    def approve(self, request: Request) -> Answer:
        if request.has_begun:
            self._show("")
        try:
            return self._ask_user(request)
        except EOFError:
            self._show("")
            return DENIED
        finally:
            self._open = None

    def show_again(self) -> None:
        """Show the open question anew, below what has covered it. Another thread than that of `ask` may call it."""
        if self._open is None:
            return
        request, is_changed = self._open
        columns = max(self._get_size()[0] - 1, 0)
        lines = draw_question(
            request,
            columns,
            self._find_colours(),
            is_changed=is_changed,
            explains_keys=self._explains_keys,
        )
        self._lines = 0
        self._show_above_key(lines)

    def find_answer_for(self, mode: str) -> str:
        """The key that answers the open question if its call runs without asking in this mode; "" if there is none."""
        if self._open is None or self._open[0].mode != mode:
            return ""
        return MODE_KEY

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
        self._print(wrap_text(text, self._get_size()[0] - 1))

    def _show_above_key(self, lines: list[str]) -> None:
        """Show the last lines above the key that answers, and how many of the question's lines are hidden by then."""
        columns, rows = self._get_size()
        self._lines += len(lines)
        note = draw_note(self._lines, max(columns - 1, 0), rows)
        self._lines += len(note)
        self._print("\n".join([*lines, *note]))

    def _ask_user(self, request: Request, *, is_changed: bool = False) -> Answer:
        self._open = request, is_changed
        self._explains_keys = not self._has_explained
        self.show_again()
        question = "  Accept the plan? [y/N] "
        if request.call.name != SUBMIT_PLAN:
            self._has_explained, question = True, "  Run it? [y/N] "
        while True:
            discard_typed_ahead()
            typed = self._ask(question, "").strip()
            if typed.lower() in ("e", "edit"):
                return self._change_arguments(request, is_changed=is_changed)
            if typed == HELP_KEY:
                self._explains_keys = True
                self.show_again()
                continue
            if answer := self._read_answer(typed, request, is_changed=is_changed):
                return answer
            if typed.startswith("/"):
                self._run_command(typed)
                self.show_again()
            else:
                why = f"  {sanitize(typed)!r} is not one of the answers. To tell the model, begin with n or a colon."
                self._lines += 1  # the question with that answer
                self._show_above_key(wrap_line(why, self._get_size()[0] - 1))

    def _read_answer(self, typed: str, request: Request, *, is_changed: bool) -> Answer | None:
        """The answer of a key or with words for the model; None if it is neither."""
        word = typed.lower()
        if allowed := _find_permission(word, request):
            return replace(allowed, arguments=request.call.arguments if is_changed else None)
        if word in ("", "n", "no"):
            return DENIED
        if has_rule(request, is_changed=is_changed):
            if word in ("c", "chat"):
                return Answer(True, for_chat=True)
            if word in ("a", "always") and request.can_save:
                self._save_rule(request.rule)
                return Answer(True, always=True)
        if feedback := _read_feedback(typed):
            return refuse_with(feedback)
        return None

    def _save_rule(self, rule: str) -> None:
        """Save the rule for later chats; the agent keeps it for this one."""
        try:
            if self._remember:
                self._remember(json.loads(rule))
        except (OSError, ValueError) as error:
            self._show(f"  It could not be saved, so it holds for this chat only: {error}")

    def _change_arguments(self, request: Request, *, is_changed: bool) -> Answer:
        """Let the user change the arguments, show the call again and ask again."""
        try:
            new = self._read_arguments(request)
        except (ValueError, BotError) as error:
            self._show(f"  {reveal(str(error), on_one_line=True)}")
            new = request.call.arguments
        if new == request.call.arguments:
            self._show("  Nothing was changed.")
            return self._ask_user(request, is_changed=is_changed)
        try:
            revised = request.revise(replace(request.call, arguments=new))
        except CannotRun as error:
            self._show(f"  It cannot run like that: {reveal(error.message, on_one_line=True)}")
            return self._ask_user(request, is_changed=is_changed)
        return self._ask_user(revised, is_changed=True)

    def _read_arguments(self, request: Request) -> Mapping[str, JSON]:
        """The arguments as the user edits them: the text of a write, an edit or a command itself, else JSON.

        Raises ValueError if they are no JSON object, or BotError.
        """
        arguments, name = request.call.arguments, EDITED_TEXTS.get(request.call.name, "")
        text = arguments.get(name)
        if isinstance(text, str):
            return {**arguments, name: self._edit_text(request, text)}
        if self._edit:
            edited = self._edit(json.dumps(arguments, indent=2, ensure_ascii=False), "arguments.json")
        else:
            edited = self._ask("  Change it to: ", json.dumps(arguments, ensure_ascii=False))
        try:
            new = json.loads(edited)
        except ValueError as error:
            raise ValueError(f"That is not valid JSON: {error}") from error
        if not isinstance(new, dict):
            raise ValueError("That is not a JSON object.")
        return new

    def _edit_text(self, request: Request, text: str) -> str:
        is_command = request.call.name == "exec"
        if self._edit is None or (is_command and reveal(text, on_one_line=True) == text):
            return self._ask("  Change it to: ", text)
        names = {"exec": "command.sh", SUBMIT_PLAN: "plan.md"}
        file = names.get(request.call.name) or str(request.call.arguments.get("path", "")).rpartition("/")[2]
        ends = text[len(text.rstrip("\n")) :]  # which the editor's text comes without
        return self._edit(text, file or "text") + ends


def _find_permission(word: str, request: Request) -> Answer | None:
    """What a key allows without a rule."""
    if word in ("y", "yes"):
        return Answer(True)
    if word == MODE_KEY and request.mode:
        return Answer(True, mode=request.mode)
    for grant, (key, _) in WIDER_KEYS.items():
        if word == key and grant in request.wider:
            return Answer(True, access=grant)
    return None


def find_turn_limit(approver: Approver, settings: Settings) -> tuple[int | None, Callable[[int], bool]]:
    """For AgentLoop.set_turn_limit: in a chat only a limit that was set holds, and the user is asked at it."""
    limit = settings.agent.max_tool_turns if "agent.max_tool_turns" in settings.places else None
    if isinstance(approver, AutoApprover):
        approver = approver.other
    if isinstance(approver, TerminalApprover):
        return limit, approver.may_go_on
    return limit, lambda _turns: False


def _read_feedback(typed: str) -> str:
    """`use git stash` of `n use git stash`, `no, use git stash` and `: use git stash`; "" for any other answer."""
    if typed.startswith(":"):
        return typed[1:].strip()
    first, _, rest = typed.partition(" ")
    if first.lower().rstrip(",.:;") not in ("n", "no"):
        return ""
    return rest.strip()


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
    show: Callable[[str], None] | None = None,
) -> Approver:
    """`yes` approves every call that does not need a person. The user decides about the others.

    Without a terminal these are refused. `run_command`, `ask` and `show` are those of a TerminalApprover.
    """
    user: Approver = REFUSE_ALL
    if sys.stdin and sys.stdin.isatty() and sys.stderr.isatty():
        user = TerminalApprover(
            ask,
            show,
            edit=edit_in_editor,
            remember=Factory(settings).rule_memory.save,
            run_command=run_command,
            get_size=lambda: get_size(sys.stderr),
        )
    return AutoApprover(user) if yes else user


def edit_in_editor(text: str, name: str) -> str:
    """Raises ConfigError."""
    from .programs import edit_text  # start-up is measured

    return edit_text(text, name)
