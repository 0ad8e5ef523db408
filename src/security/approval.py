"""May this call run? Allow, ask, or deny, with the reason; and who is asked.

`decide` is pure and looks at nothing but the call: reading is free, everything else asks, but for the
commands that the user's `allowed_commands` name. A command is compared word by word only if it is plain
words, and plain is a list of harmless characters, not a list of dangerous ones: whatever a shell gives a
meaning to (quotes, expansions, globs, separators, redirects, any blank but the space) asks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol

from ..messages import JSON, ToolCall

PLAIN = re.compile(r"[A-Za-z0-9_./:,=@%+-]+(?: +[A-Za-z0-9_./:,=@%+-]+)*", re.ASCII)


class Decision(NamedTuple):
    action: Literal["allow", "ask", "deny"]
    reason: str


def decide(risk: Literal["low", "high"], call: ToolCall, allowed_commands: Sequence[str] = ()) -> Decision:
    """Whether a call may run. `risk` is its tool's: "low" runs unasked, whatever else is said asks."""
    if call.echo:  # it may be a file's words, not the model's wish
        return Decision("ask", "it repeats what stood in a message or a tool result")
    if risk == "low":
        return Decision("allow", f"{call.name} changes nothing")
    if call.name == "exec":
        return _command(call.arguments.get("command"), allowed_commands)
    return Decision("ask", f"{call.name} changes files")


def _command(command: object, allowed_commands: Sequence[str]) -> Decision:
    if not isinstance(command, str) or not PLAIN.fullmatch(command):
        return Decision("ask", "the command is more than plain words")
    words = command.split(" ")
    for entry in allowed_commands:
        named = entry.split()
        if named and [word for word in words if word][: len(named)] == named:
            return Decision("allow", f"allowed_commands holds {entry!r}")
    return Decision("ask", "the command is not in allowed_commands")


class Request(NamedTuple):
    """What is asked: the call, why it does not run unasked, and what helps to decide."""

    call: ToolCall
    reason: str
    preview: str = ""  # a unified diff of what would change; empty: nothing to show
    rule: str = ""  # the rule that "always" would write; empty: there is none for this call
    reviews: tuple[str, ...] = ()  # what each reviewing model said, a line each


class Answer(NamedTuple):
    """`message`: with no, why not, or what to do instead, for the model; `arguments`: what the user made of them."""

    allowed: bool
    message: str = ""
    always: bool = False
    arguments: Mapping[str, JSON] | None = None


class Approver(Protocol):
    """Whoever answers when a decision is to ask."""

    def approve(self, request: Request) -> Answer: ...


class Same(NamedTuple):
    """The same answer to everything."""

    answer: Answer

    def approve(self, request: Request) -> Answer:  # noqa: ARG002 - it asks nobody
        return self.answer


APPROVE_ALL = Same(Answer(True))
REFUSE_ALL = Same(Answer(False, "nobody is there to be asked; start with --yes to let such calls run"))
