"""May this call run? Decided in one place, before anything runs: allow, ask or deny, why, and by which rule.

In this order: what is protected, what no file tool can reach, and what a rule denies, is denied; a rule that asks,
asks; a rule that allows, allows; else the profile decides. What merely repeats what the model was given asks even
where it would be allowed. No yes to a question, `--yes` included, comes before a denial, since what is denied is
never asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from ...types.messages import ToolCall
from ..shell import deny
from ..shell.allow import Entry, entry_of, judge, narrowest
from ..shell.harmless import View
from ..shell.parse import words_of
from ..shell.workspace import Ground, protected
from .rules import Action, Rule

Risk = Literal["low", "high"]
WRITERS = ("write", "edit")  # the tools that change the file their `path` names
CLIMBS = re.compile(r"^(?:\./)?[/~]|(?:^|[/{},])\.\.(?:[/{},]|$)")  # a pattern of the glob tool
FILE_TOOLS = ("read", *WRITERS, "glob", "grep")  # the tools whose `path` leads nowhere but into the workspace
REASONS = {"write": "write changes files", "edit": "edit changes files", "exec": "no rule allows the command"}
PROFILES: Mapping[str, str] = {
    "read-only": "reading is allowed, everything else is denied",
    "ask": "reading is allowed, everything else asks",
    "workspace": "reading and writing in the workspace are allowed, everything else asks",
    "full": "everything is allowed",
}
GUESSED = frozenset({"quotes inside a string", "unquoted text"})  # repairs by which an argument may have lost a part


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
    path: str = "/usr/bin:/bin"

    def decide(self, call: ToolCall, risk: Risk) -> Decision:
        """Whether a call may run. `risk` is its tool's: whatever is not "low" is high."""
        decision = self._decide(call, risk)
        if call.echo and decision.action == "allow":  # it may be a file's words, not the model's wish
            return Decision("ask", "it merely repeats text from a message or a tool result", "echo")
        if (
            GUESSED.intersection(call.repaired)
            and decision.action == "allow"
            and risk != "low"
            and self.profile != "full"
        ):
            return Decision("ask", "its quoting is ambiguous, so its arguments had to be guessed", "repaired")
        return decision

    def find_always_rule(self, call: ToolCall) -> Rule | None:
        """The rule that lets this call run without asking and as little else as can be; None: there is none.

        For a command that is known to read only it names the command; for any other, the line as it stands; for a
        file tool the one file; for any other tool the tool.
        """
        for rule in _narrowest(call, self.workspace):
            if self.with_rule(rule).decide(call, "high").action == "allow":
                return rule
        return None

    def with_rule(self, rule: Rule) -> Policy:
        """With one rule more."""
        return replace(self, rules=(*self.rules, rule))

    def _decide(self, call: ToolCall, risk: Risk) -> Decision:
        for why, principle in ((self._protected(call), "protected"), (self._unreachable(call), "workspace")):
            if why:
                return Decision("deny", why, principle)
        for rule in self._speaking("deny", call):
            return Decision("deny", "a rule denies it, or something it may turn out to be", str(rule))
        for rule in self._speaking("ask", call):
            return Decision("ask", "a rule asks about it", str(rule))
        for rule in self._speaking("allow", call):
            return Decision("allow", "a rule allows it", str(rule))
        if call.name == "exec":
            return self._command(call, risk)
        return self._by_profile(call, risk, "")

    def _protected(self, call: ToolCall) -> str:
        paths: Iterable[object] = ()
        if call.name in WRITERS:
            paths = (call.arguments.get("path"),)
        elif call.name == "exec" and isinstance(line := call.arguments.get("command"), str) and ">" in line:
            paths = deny.written(line)
        found = (protected(path, self.workspace, self.protected) for path in paths if isinstance(path, str))
        return next(filter(None, found), "")

    def _unreachable(self, call: ToolCall) -> str:
        """Why a file tool could not do it whoever allowed it, or ""."""
        if call.name not in FILE_TOOLS:
            return ""
        path, pattern = call.arguments.get("path"), call.arguments.get("pattern")
        if call.name == "glob" and isinstance(pattern, str) and CLIMBS.search(pattern):
            return f"the pattern {pattern} leads outside; give one relative to the folder searched"
        if not isinstance(path, str):
            return ""
        if path == "~" or path.startswith("~/"):
            return f"{path}: ~ is not expanded; give a path relative to the workspace"
        if Ground(self.workspace).where(path) is None:
            return f"{path} is outside the workspace; only files inside it can be reached"
        return ""

    def _speaking(self, action: Action, call: ToolCall) -> Iterator[Rule]:
        """The rules of an action that speak of a call, but for those that allow commands: these are judged as one."""
        for rule in self.rules:
            if rule.action != action or not rule.names(call.name):
                continue
            if rule.command:
                line = call.arguments.get("command")
                if action != "allow" and isinstance(line, str) and deny.could_be(line, words_of(rule.command)):
                    yield rule
            elif not rule.path or self._covers(rule, call.arguments.get("path")):
                yield rule

    def _covers(self, rule: Rule, path: object) -> bool:
        where = Ground(self.workspace).where(path) if isinstance(path, str) else None
        return where is not None and rule.covers(where)

    def _command(self, call: ToolCall, risk: Risk) -> Decision:
        entries = [
            *(entry_of(rule) for rule in self.rules if rule.action == "allow" and rule.command),
            *(Entry(words_of(each), f"security.allowed_commands: {each}") for each in self.allowed_commands),
        ]
        if not entries:
            return self._by_profile(call, risk, "")
        hidden = [rule for rule in self.rules if rule.action == "deny" and rule.path and rule.names("read")]
        view = View(
            Ground(self.workspace),
            self.path,
            lambda where: any(each.covers(where) for each in hidden),
            lambda where: protected(where, self.workspace, self.protected),
        )
        verdict = judge(call.arguments.get("command"), entries, view)
        if verdict.allowed:
            return Decision("allow", verdict.why, verdict.label)
        return self._by_profile(call, risk, verdict.why)

    def _by_profile(self, call: ToolCall, risk: Risk, why: str) -> Decision:
        """`why`: what keeps the rules from allowing it, where that is known."""
        rule = f"security.profile: {self.profile}"
        if risk == "low":
            return Decision("allow", f"{call.name} changes nothing", rule)
        is_free = self.profile == "full" or (
            self.profile == "workspace"
            and call.name in WRITERS
            and self._covers(Rule(call.name, "allow"), call.arguments.get("path"))
        )
        if is_free:
            return Decision("allow", PROFILES[self.profile], rule)
        why = why or REASONS.get(call.name, f"{call.name} is of high risk")
        if self.profile == "read-only":
            return Decision("deny", f"{why}; with this profile {PROFILES[self.profile]}", rule)
        return Decision("ask", why, rule)


def _narrowest(call: ToolCall, workspace: Path) -> list[Rule]:
    if call.name == "exec":
        return narrowest(call.arguments.get("command"))
    path = call.arguments.get("path")
    if isinstance(path, str):
        where = Ground(workspace).where(path)
        return [Rule(call.name, "allow", path=_literally(where))] if where else []
    return [Rule(call.name, "allow")]


def _literally(path: str) -> str:
    """The pattern that means this path, from the workspace, and no other."""
    return "/" + re.sub(r"([\\*?\[\]! ])", r"\\\1", path)
