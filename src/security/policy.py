"""May this call run? Decided in one place, before anything runs: allow, ask or deny, why, and by which rule.

In this order: what is protected, or what a rule denies, is denied; a rule that asks, asks; a rule that allows,
allows; else the profile decides. What merely repeats what the model was given asks even where it would be allowed.
No yes to a question, `--yes` included, comes before a denial, since what is denied is never asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from ..messages import ToolCall
from . import places
from .rules import Action, Rule

Risk = Literal["low", "high"]
WRITERS = ("write", "edit")  # the tools that change the file their `path` names
PROFILES: Mapping[str, str] = {
    "read-only": "reading is free, everything else is denied",
    "ask": "reading is free, everything else asks",
    "workspace": "reading and writing inside the workspace are free, everything else asks",
    "full": "everything is free",
}
PLAIN = re.compile(r"[A-Za-z0-9_./:,=@%+-]+(?: +[A-Za-z0-9_./:,=@%+-]+)*", re.ASCII)


class Decision(NamedTuple):
    """`rule` names what decided: a rule as it is written in the settings, a setting, or a principle of ours."""

    action: Action
    reason: str
    rule: str


@dataclass(frozen=True)
class Policy:
    """What may run. `path` is the PATH that commands are looked up in; `protected` files no tool may write."""

    workspace: Path
    profile: str = "ask"
    rules: tuple[Rule, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    protected: tuple[Path, ...] = ()
    path: str = ""

    def decide(self, call: ToolCall, risk: Risk) -> Decision:
        """Whether a call may run. `risk` is its tool's: whatever is not "low" is high."""
        decision = self._decide(call, risk)
        if call.echo and decision.action == "allow":  # it may be a file's words, not the model's wish
            return Decision("ask", "it repeats what stood in a message or a tool result", "echo")
        return decision

    def always(self, call: ToolCall) -> Rule | None:
        """The rule that lets this call run without asking and as little else as can be; None: there is none.

        A command's rule names the command's own words and no more; a file tool's the one file; any other tool's
        the tool.
        """
        rule = _narrowest(call, self.workspace)
        return rule if rule and self.plus(rule).decide(call, "high").action == "allow" else None

    def plus(self, rule: Rule) -> Policy:
        """With one rule more."""
        return replace(self, rules=(*self.rules, rule))

    def _decide(self, call: ToolCall, risk: Risk) -> Decision:
        path = call.arguments.get("path")
        why = call.name in WRITERS and isinstance(path, str) and places.protected(path, self.workspace, self.protected)
        if why:
            return Decision("deny", why, "protected")
        for action in ("deny", "ask", "allow"):
            for rule in self._speaking(action, call):
                return Decision(rule.action, f"a rule says {rule.action}", str(rule))
        if call.name == "exec" and (entry := self._allowed(call.arguments.get("command"))):
            return Decision("allow", "its first words are allowed", f"security.allowed_commands: {entry}")
        return self._by_profile(call, risk)

    def _speaking(self, action: str, call: ToolCall) -> Iterator[Rule]:
        for rule in self.rules:
            if rule.action == action and rule.names(call.name):
                if rule.command:
                    if _begins(call.arguments.get("command"), rule):
                        yield rule
                elif rule.path:
                    if self._covers(rule, call.arguments.get("path")):
                        yield rule
                else:
                    yield rule

    def _covers(self, rule: Rule, path: object) -> bool:
        where = places.inside(path, self.workspace) if isinstance(path, str) else None
        return where is not None and rule.covers(where)

    def _allowed(self, command: object) -> str:
        return next((each for each in self.allowed_commands if _begins(command, Rule("exec", "allow", each))), "")

    def _by_profile(self, call: ToolCall, risk: Risk) -> Decision:
        rule = f"security.profile: {self.profile}"
        reason = PROFILES[self.profile]
        if risk == "low":
            return Decision("allow", f"{call.name} changes nothing", rule)
        if self.profile == "full":
            return Decision("allow", reason, rule)
        if (
            self.profile == "workspace"
            and call.name in WRITERS
            and self._covers(Rule("", "allow"), call.arguments.get("path"))
        ):
            return Decision("allow", reason, rule)
        return Decision("deny" if self.profile == "read-only" else "ask", reason, rule)


def _begins(command: object, rule: Rule) -> bool:
    if not isinstance(command, str) or not PLAIN.fullmatch(command):
        return False
    words = tuple(command.split())
    return words == rule.words if rule.exact else bool(rule.words) and words[: len(rule.words)] == rule.words


def _narrowest(call: ToolCall, workspace: Path) -> Rule | None:
    if call.name == "exec":
        command = call.arguments.get("command")
        return Rule("exec", "allow", command, exact=True) if isinstance(command, str) and command.strip() else None
    path = call.arguments.get("path")
    if isinstance(path, str):
        where = places.inside(path, workspace)
        return Rule(call.name, "allow", path=_literally(where)) if where else None
    return Rule(call.name, "allow")


def _literally(path: str) -> str:
    """The pattern that means this path, from the workspace, and no other."""
    return "/" + re.sub(r"([\\*?\[\]! ])", r"\\\1", path)
