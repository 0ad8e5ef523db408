"""Decides whether a call may run, before it runs: allow, ask or deny, with the reason and the rule.

The first of these decides: a protected file and a path out of reach deny; then a rule that denies, one that asks, one
that allows; then the profile. A call that repeats text that the model was given, or that was guessed, asks instead of
being allowed. A denied call is never asked about, so `--yes` cannot allow it; a guessed call is asked about with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NamedTuple

from ...types.messages import ToolCall
from ..shell import deny
from ..shell.allow import AllowedCommand, JudgeContext, judge_line, list_narrow_rules, make_entry
from ..shell.scanner import split_words
from ..shell.workspace import Workspace, explain_protection
from .rules import Action, Rule

Risk = Literal["low", "high"]
WRITE_TOOLS = ("write", "edit")  # the tools that change the file their `path` names
OUTWARD_GLOB = re.compile(r"^(?:\./)?[/~]|(?:^|[/{},])\.\.(?:[/{},]|$)")
FILE_TOOLS = ("read", *WRITE_TOOLS, "glob", "grep")  # the tools that reach only the workspace
REASONS = {"write": "write changes files", "edit": "edit changes files", "exec": "no rule allows the command"}
RULE_REASONS: Mapping[Action, str] = {  # in the order in which they decide
    "deny": "a rule denies it, or something it may turn out to be",
    "ask": "a rule asks about it",
    "allow": "a rule allows it",
}
PROFILES: Mapping[str, str] = {
    "read-only": "reading is allowed, everything else is denied",
    "ask": "reading is allowed, everything else asks",
    "workspace": "reading and writing in the workspace are allowed, everything else asks",
    "full": "everything is allowed",
}
GUESSED = "its text could be read in more than one way, so the call had to be guessed"
LOSSY_REPAIRS = frozenset({"quotes inside a string", "unquoted text"})  # repairs that may lose a part of an argument


class Decision(NamedTuple):
    """`rule`: what decided, which is a rule as in the settings, a setting, or a built-in check such as "protected"."""

    action: Action
    reason: str
    rule: str


@dataclass(frozen=True)
class Policy:
    """What may run. `path`: the PATH of commands; `protected`: files that no tool may write."""

    workspace: Path
    profile: str = "ask"
    rules: tuple[Rule, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    protected: tuple[Path, ...] = ()
    path: str = "/usr/bin:/bin"

    def decide(self, call: ToolCall, risk: Risk) -> Decision:
        """Whether a call may run. `risk` is that of its tool."""
        decision = self._decide(call, risk)
        if call.guessed and risk != "low" and decision.action != "deny":
            return Decision("ask", GUESSED, "guessed")
        if call.echo and decision.action == "allow":  # it may come from a file, not from the model's intention
            return Decision("ask", "it merely repeats text from a message or a tool result", "echo")
        if (
            LOSSY_REPAIRS.intersection(call.repaired)
            and decision.action == "allow"
            and risk != "low"
            and self.profile != "full"
        ):
            return Decision("ask", "its quoting is ambiguous, so its arguments had to be guessed", "repaired")
        return decision

    def find_always_rule(self, call: ToolCall) -> Rule | None:
        """The narrowest rule that lets this call run without asking, or None.

        It names a command that only reads; any other line as it stands; the one file of a file tool; any other tool.
        """
        for rule in _list_narrow_rules(call, self.workspace):
            if self.with_rule(rule).decide(call, "high").action == "allow":
                return rule
        return None

    def with_rule(self, rule: Rule) -> Policy:
        return replace(self, rules=(*self.rules, rule))

    def _decide(self, call: ToolCall, risk: Risk) -> Decision:
        for why, check in ((self._explain_protection(call), "protected"), (self._explain_reach(call), "workspace")):
            if why:
                return Decision("deny", why, check)
        for action, reason in RULE_REASONS.items():
            for rule in self._list_matching(action, call):
                return Decision(action, reason, str(rule))
        if call.name == "exec":
            return self._decide_command(call, risk)
        return self._decide_by_profile(call, risk, "")

    def _explain_protection(self, call: ToolCall) -> str:
        paths: Iterable[object] = ()
        if call.name in WRITE_TOOLS:
            paths = (call.arguments.get("path"),)
        elif call.name == "exec" and isinstance(line := call.arguments.get("command"), str) and ">" in line:
            paths = deny.list_written_files(line)
        found = (explain_protection(path, self.workspace, self.protected) for path in paths if isinstance(path, str))
        return next(filter(None, found), "")

    def _explain_reach(self, call: ToolCall) -> str:
        """Why a file tool cannot reach its path, or ""."""
        if call.name not in FILE_TOOLS:
            return ""
        path, pattern = call.arguments.get("path"), call.arguments.get("pattern")
        if call.name == "glob" and isinstance(pattern, str) and OUTWARD_GLOB.search(pattern):
            return f"the pattern {pattern} leads outside; give one relative to the folder searched"
        if not isinstance(path, str):
            return ""
        if path == "~" or path.startswith("~/"):
            return f"{path}: ~ is not expanded; give a path relative to the workspace"
        if Workspace(self.workspace).relative_or_none(path) is None:
            return f"{path} is outside the workspace; only files inside it can be reached"
        return ""

    def _list_matching(self, action: Action, call: ToolCall) -> Iterator[Rule]:
        """The rules of an action that match a call, except those that allow commands, which are judged together."""
        for rule in self.rules:
            if rule.action != action or not rule.matches_tool(call.name):
                continue
            if rule.command:
                line = call.arguments.get("command")
                if action != "allow" and isinstance(line, str) and deny.can_run(line, split_words(rule.command)):
                    yield rule
            elif not rule.path or self._matches_path(rule, call.arguments.get("path")):
                yield rule

    def _matches_path(self, rule: Rule, path: object) -> bool:
        relative = Workspace(self.workspace).relative_or_none(path) if isinstance(path, str) else None
        return relative is not None and rule.matches_path(relative)

    def _decide_command(self, call: ToolCall, risk: Risk) -> Decision:
        entries = [
            *(make_entry(rule) for rule in self.rules if rule.action == "allow" and rule.command),
            *(
                AllowedCommand(split_words(each), f"security.allowed_commands: {each}")
                for each in self.allowed_commands
            ),
        ]
        if not entries:
            return self._decide_by_profile(call, risk, "")
        hidden = [rule for rule in self.rules if rule.action == "deny" and rule.path and rule.matches_tool("read")]
        context = JudgeContext(
            Workspace(self.workspace),
            self.path,
            lambda path: any(rule.matches_path(path) for rule in hidden),
            lambda path: explain_protection(path, self.workspace, self.protected),
        )
        verdict = judge_line(call.arguments.get("command"), entries, context)
        if verdict.is_allowed:
            return Decision("allow", verdict.reason, verdict.label)
        return self._decide_by_profile(call, risk, verdict.reason)

    def _decide_by_profile(self, call: ToolCall, risk: Risk, why: str) -> Decision:
        """`why`: the reason that the rules do not allow it, if known."""
        rule = f"security.profile: {self.profile}"
        if risk == "low":
            return Decision("allow", f"{call.name} changes nothing", rule)
        is_free = self.profile == "full" or (
            self.profile == "workspace"
            and call.name in WRITE_TOOLS
            and self._matches_path(Rule(call.name, "allow"), call.arguments.get("path"))
        )
        if is_free:
            return Decision("allow", PROFILES[self.profile], rule)
        why = why or REASONS.get(call.name, f"{call.name} is of high risk")
        if self.profile == "read-only":
            return Decision("deny", f"{why}; with this profile {PROFILES[self.profile]}", rule)
        return Decision("ask", why, rule)


def _list_narrow_rules(call: ToolCall, workspace: Path) -> list[Rule]:
    if call.name == "exec":
        return list_narrow_rules(call.arguments.get("command"))
    path = call.arguments.get("path")
    if isinstance(path, str):
        relative = Workspace(workspace).relative_or_none(path)
        return [Rule(call.name, "allow", path=_escape_pattern(relative))] if relative else []
    return [Rule(call.name, "allow")]


def _escape_pattern(path: str) -> str:
    """The pattern that matches this path of the workspace, and no other."""
    return "/" + re.sub(r"([\\*?\[\]! ])", r"\\\1", path)
