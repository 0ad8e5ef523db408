"""The user's rules about calls. Pure.

A rule names a tool ("*": every tool), an action, and at most one of: a command, by its first words; a path, by a
pattern as in .gitignore, relative to the workspace. With neither, it applies to every call of the tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from ...errors import ConfigError
from ...types.sandbox import ACCESSES, Access

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

Action = Literal["allow", "ask", "deny"]
RULE_KEYS = {"tool": str, "action": str, "command": str, "path": str, "exact": bool, "access": str, "each": bool}


class Rule(Struct, frozen=True):
    """`exact`: the command is the whole line, not its first words. `access`: what a rule that allows commands lets
    them do; None: write. `each`: the command is the first words of several, with && between them. `server`:
    what it allows only asks this server, see find_local_server.
    """

    tool: str
    action: Action
    command: str = ""
    path: str = ""
    exact: bool = False
    access: Access | None = None
    each: bool = False
    server: str = ""

    def to_entry(self) -> dict[str, Any]:
        """The rule as an entry of `security.rules`."""
        return {name: value for name, value in asdict(self).items() if value}

    def __str__(self) -> str:
        return json.dumps(self.to_entry(), ensure_ascii=False)

    def matches_tool(self, tool: str) -> bool:
        return self.tool in (tool, "*")

    def is_whole(self, line: str) -> bool:
        """Whether a rule about commands allows the line as it stands, or every line."""
        return not (self.path or self.server) and self.command.strip() in ("", line.strip(" \t\n"))

    def matches_path(self, path: str) -> bool:
        """Whether the rule applies to a path, given relative to the workspace with `/` between its parts.

        Where case does not matter to the file system, .ENV is the .env that a rule denies.
        """
        if self.action == "allow":
            return not self.path or _compile_pattern(self.path).match_file(path)
        return not self.path or _compile_pattern(self.path.casefold()).match_file(path.casefold())


@lru_cache(maxsize=256)
def _compile_pattern(pattern: str) -> GitIgnoreSpec:
    from pathspec import GitIgnoreSpec  # loaded for the first rule about a path, not at start

    return GitIgnoreSpec.from_lines([pattern])


def describe_rule(entry: Mapping[str, Any], cut: Callable[[str], str] = str) -> str:
    """A rule as `--allow` takes it, such as `exec:git status`. `cut` shortens what may be long."""
    tool, what = entry["tool"], entry.get("command") or entry.get("path")
    shown = cut(str(tool))
    if what:
        shown = cut(f"{tool}:{what}")
    if entry.get("server"):
        shown = f"{tool}: requests to {entry['server']}"
    if entry.get("exact"):
        shown = f"{tool}: this exact command"
    if "access" in entry:
        shown += f" (access={entry['access']})"
    return shown


def find_idle_rules(entries: Sequence[Mapping[str, Any]], tools: Sequence[str]) -> list[str]:
    """A sentence on each rule for a tool that there is not. Raises ConfigError."""
    idle = (rule for rule in parse_rules(entries) if rule.tool not in (*tools, "*"))
    return [f"There is no tool {rule.tool}, so this rule changes nothing: {rule}" for rule in idle]


def parse_allow_option(text: str) -> Rule:
    """The rule that `--allow` gives: TOOL, exec:COMMAND, TOOL:PATH, or a rule as in the settings.

    Raises ConfigError.
    """
    place = f"--allow {text}"
    if text.startswith("{"):
        try:
            return _parse_rule(place, json.loads(text))
        except ValueError as error:
            raise ConfigError(f"{place}: {error}") from error
    tool, colon, rest = text.partition(":")
    entry = {"tool": tool, "action": "allow"}
    if colon and tool == "exec":
        entry["command"] = rest
    elif colon:
        entry["path"] = rest
    return _parse_rule(place, entry)


def parse_rules(entries: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
    """The entries of `security.rules`. Raises ConfigError, which names the invalid entry."""
    return tuple(_parse_rule(f"security.rules[{number}]", entry) for number, entry in enumerate(entries))


def check_keys(place: str, entry: Mapping[str, Any], kinds: Mapping[str, type], noun: str) -> None:
    """Raises ConfigError for a key that is not in `kinds`, or whose value is of another type."""
    for key, value in entry.items():
        if key not in kinds:
            raise ConfigError(f"{place}: there is no key {key!r}; {noun} has {', '.join(kinds)}")
        if not isinstance(value, kinds[key]):
            raise ConfigError(f"{place}: {key} is {'true or false' if kinds[key] is bool else 'a string'}")


def check_faults(place: str, faults: Iterable[tuple[bool, str]]) -> None:
    """Raises ConfigError for the first fault that an entry has, each given as whether it has it, and what to say."""
    for is_there, message in faults:
        if is_there:
            raise ConfigError(f"{place}: {message}")


def _parse_rule(place: str, entry: Mapping[str, Any]) -> Rule:
    check_keys(place, entry, RULE_KEYS, "a rule")
    check_faults(place, _list_faults(entry))
    return Rule(**entry)


def _list_faults(entry: Mapping[str, Any]) -> Iterator[tuple[bool, str]]:
    tool, action, command = entry.get("tool", ""), entry.get("action"), entry.get("command")
    actions = get_args(Action)
    yield action not in actions, f"action is one of {', '.join(actions)}"
    yield not tool.strip(), 'tool is the name of a tool, or "*"'
    yield bool(command and entry.get("path")), "a rule speaks of a command or of a path, not of both"
    for key in ("command", "path"):  # else it would apply to every call
        is_empty = not entry.get(key, "any").strip()
        yield is_empty, f"{key} is empty; leave it out for a rule that speaks of every call"
    yield bool(command) and tool != "exec", "only exec has a command"
    is_grant = tool == "exec" and action == "allow"
    yield "access" in entry and not is_grant, "access belongs to a rule that allows exec"
    is_about_commands = bool(command) and action == "allow"
    yield entry.get("each", False) and not is_about_commands, "each belongs to a rule that allows a command"
    yield entry.get("access", ACCESSES[0]) not in ACCESSES, f"access is one of {', '.join(ACCESSES)}"
