"""Decides whether a call may run, before it runs: allow, ask or deny, with the reason, the rule and the access.

The order is that of docs/security.md, and of the steps of `Policy._decide_resolved`. What a command may do is its
access: it is named by the call and enforced by the sandbox, so the line itself is read only for rules. Where no sandbox
enforces it, every command asks. A denied call is never asked about, so `--yes` cannot allow it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from ...beneath import find_place, split_place
from ...types.file_names import UNPASSABLE, escape_name
from ...types.lazy_pattern import LazyPattern
from ...types.messages import ToolCall
from ...types.sandbox import ACCESSES, Access, Sandbox
from ..sandbox.running_files import is_hook, is_part_of_repository, is_run_by_link, is_running_by_itself
from ..shell.local_requests import find_local_server
from ..shell.match_line import CLEAR, MATCHES, LineMatch, match_line
from ..shell.readable import PROJECT, list_programs
from ..shell.reader import ReadCommand, UnsafeToParse, parse_line, split_words
from ..shell.workspace import explain_protection
from ..shell.written_files import list_written_files
from .approval import PLAN_REASON, SUBMIT_PLAN
from .modes import MODES, includes
from .rules import Action, Rule

Risk = Literal["low", "high"]
WRITE_TOOLS = ("write", "edit")  # the tools that change the file their `path` names
OUTWARD_GLOB = LazyPattern(r"^(?:\./)?[/~]|(?:^|[/{},])\.\.(?:[/{},]|$)")
SHOWING_TOOLS = ("grep", "edit")  # a diff shows the lines around a change, and an error the nearest ones
FILE_TOOLS = ("read", *WRITE_TOOLS, "glob", "grep")  # the tools that reach only the workspace
RULE_REASONS: Mapping[Action, str] = {  # in the order in which they decide
    "deny": "a rule denies it, or something it may turn out to be",
    "ask": "a rule asks about it",
    "allow": "a rule allows it",
}
VERBS: Mapping[Action, str] = {"allow": "is free", "ask": "asks", "deny": "is not possible"}
GUESSED = "its text could be read in more than one way, so the call had to be guessed"
ECHO = "it merely repeats text from a message or a tool result"  # it may come from a file, not from the model
NO_PLAN = "no plan is asked for in mode {mode}. Do the work."
_READERS = "[ cat cd cmp diff egrep fgrep file grep head jq ls rg stat tail test tree type wc which"
READERS = frozenset(_READERS.split())
GIT_READERS = (("git", "grep"), ("git", "diff"))
EXIT_NOT_FOUND = 127
AND = " && "  # between the commands of a rule about each of them
SUBCOMMAND = LazyPattern(r"[a-z][a-z-]*")
_DESTRUCTIVE = (
    "rm|rmdir|unlink|shred|dd|mkfs|find -delete|git clean|git reset --hard|git stash clear|git stash drop"
    "|git branch -D|git branch -d -f|git branch --delete --force|git tag -d|git tag --delete|git update-ref -d"
    "|git push --delete|git push -d|git push --force|git push -f|git push --force-with-lease|git push --mirror"
    "|git push --prune|git reflog expire"
)
DESTRUCTIVE = tuple(tuple(each.split()) for each in _DESTRUCTIVE.split("|"))  # commands whose work cannot be undone
FORCED_REFERENCE = LazyPattern(r"\bpush\b[^;&|]*\s[\"']?(?:\+|:\S)")  # git push origin +main; :main deletes it
LEADING_FOLDERS = LazyPattern(r"(?:/(?:[^\\*?\[/]|\\.)+(?=/|$))+")  # of a pattern, as far as they are names
NO_PATH = LazyPattern(r"[^\w\-./~+]+")  # separates the paths in a word: PATH=a:b, --file=x, @x


class Decision(Struct, frozen=True):
    """`rule`: what decided, which is a rule as in the settings, a setting, or a built-in check such as "protected".

    `access`: what a command may do if it runs; None if it is no command. `needs_person`: `--yes` does not answer it.
    `real_path`: where the call's path leads, see ToolCall; None if it has none, or that is out of the workspace.
    """

    action: Action
    reason: str
    rule: str
    access: Access | None = None
    needs_person: bool = False
    real_path: str | None = None


class Policy(Struct, frozen=True):
    """What may run. `protected`: files that no tool may write; `sandbox`: where commands run, None: without one.

    `added`: folders, resolved, where tools may read and write as in the workspace. A place is a path below the
    workspace, or the whole path in an added folder.
    """

    workspace: Path
    mode: str = "ask"
    rules: tuple[Rule, ...] = ()
    allowed_commands: tuple[str, ...] = ()
    protected: tuple[Path, ...] = ()
    sandbox: Sandbox | None = None
    added: tuple[Path, ...] = ()

    @property
    def is_enforced(self) -> bool:
        """Whether commands are held to their access. The first time, this may try out the sandbox."""
        return self.sandbox is not None and self.sandbox.is_enforcing

    def decide(self, call: ToolCall, risk: Risk, access: Access | None = None) -> Decision:
        """Whether a call may run. `risk` is that of its tool; `access` that of the command which the tool runs.

        Its path is resolved here, once: the decision holds for what it leads to now.
        """
        if call.name == SUBMIT_PLAN:
            return self._decide_plan()
        path = call.arguments.get("path")
        real_path = find_place(path, self.workspace, self.added) if isinstance(path, str) else None
        decision = self._decide_resolved(replace(call, real_path=real_path), risk, access)
        # A person is asked about a call that the model may not have meant, whatever allows it.
        if call.guessed and risk != "low" and decision.action != "deny":
            decision = replace(decision, action="ask", reason=GUESSED, rule="guessed", needs_person=True)
        elif call.echo and decision.action == "allow":
            decision = replace(decision, action="ask", reason=ECHO, rule="echo", needs_person=True)
        return replace(decision, real_path=real_path)

    def _decide_plan(self) -> Decision:
        """A plan is the user's to accept, whatever the rules say."""
        rule = f"security.mode: {self.mode}"
        if self.mode == "plan":
            return Decision("ask", PLAN_REASON, rule, needs_person=True)
        return Decision("deny", NO_PLAN.format(mode=self.mode), rule)

    def _decide_resolved(self, call: ToolCall, risk: Risk, access: Access | None = None) -> Decision:
        """As `decide`, of a call that was meant and whose path was resolved. The first step with an answer gives it."""
        if call.name == "exec":
            access = _get_named_access(call) or "read"
        if why := self._explain_protection(call):
            return Decision("deny", why, "protected")
        if why := self._explain_reach(call):
            return Decision("deny", why, "workspace")
        return (
            self._decide_by_rule("deny", call, access)
            or self._decide_by_rule("ask", call, access)
            or self._decide_command(call)
            or self._decide_by_rule("allow", call, access)
            or self._decide_by_mode(call, risk, access)
        )

    def can_offer(self, tool: str, risk: Risk, access: Access | None = None) -> bool:
        """Whether some call of the tool may run, perhaps after asking."""
        if tool == SUBMIT_PLAN:
            return self.mode == "plan"
        return (
            (risk == "low" and access in (None, "read"))
            or tool == "exec"
            or MODES[self.mode].others != "deny"
            or (access is not None and includes(MODES[self.mode].free_access, access))
            or any(rule.action == "allow" and rule.matches_tool(tool) for rule in self.rules)
        )

    @property
    def widest_access(self) -> Access:
        """The widest access that a command may name."""
        return MODES[self.mode].free_access if MODES[self.mode].others == "deny" else ACCESSES[-1]

    def is_unaffected(self, line: str, exit_code: int) -> bool:
        """Whether a command that failed with access=read would fail with any other.

        All of its programs only read, or the only one does not exist.
        """
        commands, _ = _try_parse(line)
        readers = [each for each in commands if each.name in READERS or each.texts[:2] in GIT_READERS]
        is_writing = any(word.text != "/dev/null" for command in commands for word in command.writes)
        if commands and len(readers) == len(commands) and not is_writing:
            return True
        return exit_code == EXIT_NOT_FOUND and len(commands) == 1

    def find_always_rule(self, call: ToolCall, access: Access | None = None) -> Rule | None:
        """The rule that lets this call, on which it was decided, and those like it run without asking; None if none.

        It names the first words of a simple command such as `git commit`, else the line; the one file of a file tool;
        any other tool. `access`: what the command needs.
        """
        if call.guessed or call.echo:  # a person is asked, whatever allows it
            return None
        for rule in self._list_narrow_rules(call, access):
            if self.with_rule(rule)._decide_resolved(call, "high").action == "allow":
                return rule
        return None

    def can_read(self, call: ToolCall) -> bool:
        """Whether the file of a call, on which it was decided, is one that `read` shows without asking."""
        return self._decide_resolved(replace(call, name="read"), "low").action == "allow"

    def can_be_kept(self, call: ToolCall) -> bool:
        """Whether a rule for a call may be saved for good.

        Not for a command that deletes, or discards commits, nor for a server that may be another one tomorrow.
        """
        line = call.arguments.get("command")
        if not isinstance(line, str):
            return True
        is_destructive = any(match_line(line, words).verdict == "matches" for words in DESTRUCTIVE)
        is_local = bool(find_local_server(_try_parse(line)[0]))
        return not (is_destructive or is_local or FORCED_REFERENCE.search(line))

    def can_show(self, tool: str, path: str) -> bool:
        """Whether the rules let a tool that searches show the file at a place.

        `grep` shows what is in it, so it needs what `read` needs.
        """
        return all(
            rule.action == "allow" or not rule.path or not _speaks_of(rule, tool) or not self._matches(rule, path)
            for rule in self.rules
        )

    def is_unreadable(self, path: str) -> bool:
        """Whether a rule denies reading a place, with / at the end for a folder."""
        return any(self._matches(rule, path) for rule in self._list_hiding())

    @property
    def denies_reading(self) -> bool:
        return bool(self._list_hiding())

    def _list_hiding(self) -> list[Rule]:
        return [rule for rule in self.rules if rule.action == "deny" and rule.path and rule.matches_tool("read")]

    def with_rule(self, rule: Rule) -> Policy:
        return replace(self, rules=(*self.rules, rule))

    def _decide_by_rule(self, action: Action, call: ToolCall, access: Access | None) -> Decision | None:
        """What the first rule with this action that speaks of the call decides.

        A line that no rule can read may be any: one which asks asks about it, one which denies has a person asked.
        """
        doubt = None
        for rule in self.rules:
            if rule.action != action:
                continue
            matched = self._match_call(rule, call)
            if matched.verdict == "matches" or (matched.verdict == "unreadable" and action == "ask"):
                return Decision(action, RULE_REASONS[action], str(rule), access)
            if matched.verdict == "unreadable" and action == "deny" and doubt is None:
                why = f"a rule may deny it, and {matched.reason}"
                doubt = Decision("ask", why, str(rule), access, needs_person=True)
        return doubt

    def _explain_protection(self, call: ToolCall) -> str:
        only_reads = _get_named_access(call) in (None, "read")
        for path in _list_written_files(call):
            if path is not None:
                why = explain_protection(path, self.workspace, self.protected, self.added)
                if why:
                    return why
            elif not (only_reads and self.is_enforced):
                return "it is not known which file it writes, which may be a protected one; give its whole path"
        return ""

    def _explain_reach(self, call: ToolCall) -> str:
        """Why a file tool cannot reach its path, or ""."""
        if call.name not in FILE_TOOLS:
            return ""
        path, pattern = call.arguments.get("path"), call.arguments.get("pattern")
        if call.name == "glob" and isinstance(pattern, str) and OUTWARD_GLOB.search(pattern):
            return f"the pattern {escape_name(pattern)} leads outside; give one relative to the folder searched"
        if not isinstance(path, str):
            return ""
        if UNPASSABLE.search(path):
            return f"{escape_name(path)} is not a path: it contains a NUL or half of a surrogate pair"
        if path == "~" or path.startswith("~/"):
            return f"{escape_name(path)}: ~ is not expanded; give a path relative to the workspace"
        if call.real_path is None:
            return f"{escape_name(path)} is outside the workspace; only files inside it can be reached"
        return ""

    def _match_call(self, rule: Rule, call: ToolCall) -> LineMatch:
        """Whether a rule speaks of a call; of a command that may be unreadable."""
        line = call.arguments.get("command")
        if rule.command and isinstance(line, str) and rule.matches_tool(call.name):
            return match_line(line, split_words(rule.command))
        matches_path = not rule.path or (call.real_path is not None and self._matches(rule, call.real_path))
        is_meant = not rule.command and _speaks_of(rule, call.name) and matches_path
        return MATCHES if is_meant else CLEAR

    def _matches(self, rule: Rule, place: str) -> bool:
        """Whether a rule about a path applies to a place.

        One that denies or asks is read below each added folder, as below the workspace. If it begins with a whole path,
        perhaps through a link, it is about that place, too. One that allows is about the workspace, or, if it begins
        with the whole path of an added folder, about that folder alone.
        """
        top, below = split_place(place, self.workspace, self.added)
        names_added = any(rule.path.startswith(_escape_pattern(str(each))) for each in self.added)
        if rule.action == "allow":
            return names_added == (top != self.workspace) and rule.matches_path(place)
        if top == self.workspace:
            return rule.matches_path(place)
        if rule.matches_path(below) or (names_added and rule.matches_path(place)):
            return True
        resolved = _resolve_pattern(rule.path, top)
        return resolved != "" and replace(rule, path=resolved).matches_path(place)

    def _decide_command(self, call: ToolCall) -> Decision | None:
        """What its line, a rule that allows, or the mode says of a command; None of another call."""
        if call.name != "exec":
            return None
        line, named = call.arguments.get("command"), _get_named_access(call)
        if not isinstance(line, str):
            return Decision("ask", "there is no command", "tools", named)
        commands, unread = _try_parse(line)
        needed = named or "read"
        if why := self._explain_hidden(commands):
            return Decision("ask", why, "read", needed, needs_person=True)
        if decision := self._grant(line, commands, named):
            return decision
        decision = self._decide_by_access(needed)
        if unread and decision.action == "ask" and self._allows_some_commands:
            return replace(decision, reason=f"{decision.reason}; no rule can allow it, as {unread}")
        return decision

    @property
    def _allows_some_commands(self) -> bool:
        return any(rule.command for rule in self.rules if rule.action == "allow")

    def _grant(self, line: str, commands: tuple[ReadCommand, ...], named: Access | None) -> Decision | None:
        # The rules that may grant a command its access, each with what a user calls it.
        rules = [(rule, str(rule)) for rule in self.rules if rule.action == "allow" and rule.matches_tool("exec")]
        for each in self.allowed_commands:
            rules.append((Rule("exec", "allow", each), f"security.allowed_commands: {each}"))
        granted = self._find_granted(line, commands, rules)
        if granted is None:
            return None
        widest = min(granted[0], self.widest_access, key=ACCESSES.index)
        if None in list_written_files(line):  # it may write a protected file, as _explain_protection says
            widest = "read"
        access = named or widest
        if not includes(widest, access):
            return None
        return Decision("allow", RULE_REASONS["allow"], granted[1], access)

    def _find_granted(
        self, line: str, commands: tuple[ReadCommand, ...], rules: Sequence[tuple[Rule, str]]
    ) -> tuple[Access, str] | None:
        """The access that the rules grant to a line, and what grants it.

        Each simple command must begin with the words of a rule; the line gets the least of their accesses. Where
        nothing enforces that, a rule must have the line as it stands.
        """
        grant_of_line = _find_widest(each for each in rules if each[0].is_whole(line))
        if grant_of_line or not self.is_enforced or not commands:
            return grant_of_line
        server = find_local_server(commands)
        if asking := _find_widest(each for each in rules if server and each[0].server == server):
            return asking
        return _find_least(commands, rules)

    def _explain_hidden(self, commands: tuple[ReadCommand, ...]) -> str:
        """Why a command may show a file that a rule denies to `read`, or ""."""
        hidden = self._list_hiding()
        if not hidden or (self.sandbox and self.sandbox.can_hide_files):
            return ""
        if not commands:
            return "it cannot be read whole, and a rule denies reading some files"
        for command in commands:
            for word in (*command.words, *command.reads):
                if word.is_glob:
                    return f"{escape_name(word.text)} may stand for a file that a rule denies reading"
                if piece := self._find_hidden(word.text, hidden):
                    return f"a rule denies reading {escape_name(piece)}"
        return ""

    def _find_hidden(self, word: str, hidden: Sequence[Rule]) -> str:
        """The part of a word that leads to what one of these rules is about; "" if none does."""
        pieces: list[str] = [word, *NO_PATH.split(word)]
        for piece in filter(None, pieces):
            place = find_place(piece, self.workspace, self.added)
            if place is not None and any(self._matches(rule, place) for rule in hidden):
                return piece
        return ""

    def _decide_by_access(self, access: Access) -> Decision:
        mode, rule = MODES[self.mode], f"security.mode: {self.mode}"
        if not includes(mode.free_access, access):
            return Decision(mode.others, f"access={access} {VERBS[mode.others]} in mode {self.mode}", rule, access)
        if self.is_enforced or mode.others == "allow":  # in mode full the user has chosen to do without
            return Decision("allow", f"access={access} {VERBS['allow']} in mode {self.mode}", rule, access)
        reason = "no sandbox holds commands to their access here"
        return Decision("ask", reason, "sandbox", access, needs_person=mode.others == "deny")

    def _decide_by_mode(self, call: ToolCall, risk: Risk, access: Access | None) -> Decision:
        if access and (risk, access) != ("low", "read"):
            return self._decide_by_access(access)
        mode, rule = MODES[self.mode], f"security.mode: {self.mode}"
        if risk == "low":
            return Decision("allow", f"{call.name} changes nothing", rule)
        is_edit = call.name in WRITE_TOOLS
        action, what = mode.others, "is of high risk"
        if is_edit:
            action, what = mode.edits, "changes files"
        path = call.arguments.get("path")
        is_free_edit = is_edit and (action, mode.others) == ("allow", "ask")
        if is_free_edit and isinstance(path, str) and (why := self._explain_running(path, call.real_path or "")):
            return Decision("ask", why, rule)
        return Decision(action, f"{call.name} {what}, which {VERBS[action]} in mode {self.mode}", rule)

    def _explain_running(self, path: str, real: str) -> str:
        """Why a file may run something by itself later, or ""."""
        tops = (self.workspace, *self.added)
        top, below = split_place(real, self.workspace, self.added)
        lexical = [os.path.relpath(self.workspace / path, each) for each in tops]
        names = (*lexical, below)
        if any(map(is_running_by_itself, names)) or is_run_by_link(Path(os.path.realpath(top), below), tops):
            return f"{escape_name(path)} runs by itself when a shell or an editor opens the folder"
        if is_part_of_repository(top, below):
            return f"git takes the folder of {escape_name(path)} for a repository"
        if is_hook(top, below, tops):
            return f"git runs {escape_name(path)} as a hook"
        return ""

    def _list_narrow_rules(self, call: ToolCall, access: Access | None) -> Iterator[Rule]:
        if call.name == "exec":
            yield from self._list_command_rules(call, access or _get_named_access(call) or "read")
        elif isinstance(call.arguments.get("path"), str):
            # A pattern loses blanks at its end, but for escaped spaces: it would match another file, or be invalid.
            if call.real_path and call.real_path.rstrip() == call.real_path.rstrip(" "):
                yield Rule(call.name, "allow", path=_escape_pattern(call.real_path))
        else:
            yield Rule(call.name, "allow")

    def _list_command_rules(self, call: ToolCall, access: Access) -> Iterator[Rule]:
        line = call.arguments.get("command")
        if not isinstance(line, str):
            return
        commands, _ = _try_parse(line)
        if self.is_enforced and access == "network" and (server := find_local_server(commands)):
            yield Rule("exec", "allow", access=access, server=server)
        if self.is_enforced and (words := _find_first_words(commands)):
            yield Rule("exec", "allow", words, access=access, each=AND in words)
        yield Rule("exec", "allow", line.strip(" \t\n"), exact=True, access=access)


def _list_written_files(call: ToolCall) -> Iterable[str | None]:
    """The files that a call names as those which it writes; None for one that it does not tell."""
    line, path = call.arguments.get("command"), call.real_path or call.arguments.get("path")
    if call.name == "exec" and isinstance(line, str):
        return list_written_files(line)
    if call.name in WRITE_TOOLS and isinstance(path, str):
        return (path,)
    return ()


def _speaks_of(rule: Rule, tool: str) -> bool:
    """Whether a rule is one about a tool. What keeps a file from `read` also keeps it from what shows it otherwise."""
    keeps_from_read = bool(rule.path) and rule.action != "allow" and rule.matches_tool("read")
    return rule.matches_tool(tool) or (keeps_from_read and tool in SHOWING_TOOLS)


def _get_named_access(call: ToolCall) -> Access | None:
    return next((each for each in ACCESSES if each == call.arguments.get("access")), None)


def _try_parse(line: str) -> tuple[tuple[ReadCommand, ...], str]:
    """The simple commands of a line; none, and why, if it cannot be read whole."""
    try:
        return parse_line(line), ""
    except UnsafeToParse as error:
        return (), str(error)


def _find_widest(rules: Iterable[tuple[Rule, str]]) -> tuple[Access, str] | None:
    """The widest access that one of the rules, each with its label, grants."""
    grants = [(rule.access or "write", label) for rule, label in rules]
    return max(grants, key=lambda grant: ACCESSES.index(grant[0]), default=None)


def _find_least(commands: Sequence[ReadCommand], rules: Sequence[tuple[Rule, str]]) -> tuple[Access, str] | None:
    """The least of the accesses that the rules grant to each command, and what grants them."""
    starts: list[tuple[tuple[str, ...], Rule, str]] = []  # first words of commands, with their rule and its label
    for rule, label in rules:
        if not rule.exact:
            parts = rule.command.split(AND) if rule.each else [rule.command]
            starts += [(words, rule, label) for words in map(split_words, parts) if words]
    grants = []
    for command in commands:
        grant = _find_widest((rule, label) for words, rule, label in starts if command.texts[: len(words)] == words)
        if grant is None:
            return None
        grants.append(grant)
    accesses, labels = zip(*grants, strict=True)
    return min(accesses, key=ACCESSES.index), ", ".join(dict.fromkeys(labels))


def _find_first_words(commands: Sequence[ReadCommand]) -> str:
    """`git add && git commit` of commands that all have a sub-command, each pair of words once; else "".

    The second word of `rm build` is no sub-command: a rule for it would allow `rm build src`, too.
    """
    pairs: list[str] = []
    for command in commands:
        words = command.texts[:2]
        is_known = words[0] in ("git", *PROJECT) and len(words) == 2 and SUBCOMMAND.fullmatch(words[1])
        if not is_known or command.writes:
            return ""
        if any(each[:2] == words for each in DESTRUCTIVE):  # one for `git push` would allow `git push --force`, too
            return ""
        try:
            list_programs(command)
        except UnsafeToParse:
            return ""
        pairs.append(" ".join(words))
    return AND.join(dict.fromkeys(pairs))


def _resolve_pattern(pattern: str, top: Path) -> str:
    """The pattern, which begins with a whole path, with links in that followed; "" if it does not lead to this folder.

    It is done anew each time, as a link may lead elsewhere by now.
    """
    pattern = re.sub("/{2,}", "/", pattern)
    leading = LEADING_FOLDERS.match(pattern)
    if not leading or UNPASSABLE.search(pattern):
        return ""
    real = os.path.realpath(re.sub(r"\\(.)", r"\1", leading[0]))
    if not Path(real).is_relative_to(top):
        return ""
    return _escape_pattern(real) + pattern[leading.end() :]


def _escape_pattern(path: str) -> str:
    """The pattern that matches this place, and no other."""
    return "/" + re.sub(r"([\\*?\[\]! ])", r"\\\1", path.removeprefix("/"))
