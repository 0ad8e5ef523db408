"""Which commands run without asking: our cases and published ones, in many spellings.

A case of tests/cases/security/commands.json says what must come of a command where `ls cat pwd echo grep find head
tail wc` are allowed, or all that the table knows; `effect` is what was seen when it was run in a folder of traps
with nothing to stop it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from src.security.permissions.policy import Policy
from src.security.shell.option_table import ROWS
from src.types.messages import ToolCall
from tests.thorough import sample

from ..ground import build, effect

PATH = "/usr/local/bin:/usr/bin:/bin"
NARROW = ("ls", "cat", "pwd", "echo", "grep", "find", "head", "tail", "wc")
TABLE = (*ROWS, "find")
OURS = json.loads((Path(__file__).parents[2] / "cases" / "security" / "commands.json").read_text(encoding="utf-8"))
PUBLISHED = Path(__file__).resolve().parents[4] / "shared" / "facts" / "exec_commands.json"
THEIRS = json.loads(PUBLISHED.read_text(encoding="utf-8")) if PUBLISHED.exists() else []
DENIED = [case for case in (*OURS, *THEIRS) if case["expected"] == "deny"]
HARMFUL = [
    case for case in DENIED if case["class"] not in ("parse error", "parse-error", "empty")
]  # not for what they lack
ALLOWED = [case for case in (*OURS, *THEIRS) if case["expected"] == "allow"]


def name(case: dict) -> str:
    return ascii(case["command"])[:60]


def list_kinds(cases: list[dict]) -> list[str]:
    return sorted({case["class"] for case in cases})


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    return build(tmp_path_factory.mktemp("ground"), traps=True)


@pytest.fixture(scope="module")
def action_on(workspace):
    policies = {each: Policy(workspace, allowed_commands=each, path=PATH) for each in (NARROW, TABLE)}

    def action_on(command: str, case: dict | None = None) -> str:
        policy = policies[TABLE if case and case.get("allowed") == "table" else NARROW]
        return policy.decide(ToolCall("1", "exec", {"command": command}), "high").action

    return action_on


@pytest.mark.parametrize("kind", list_kinds(DENIED))
def test_what_may_do_harm_is_not_run_unasked(kind, action_on):
    cases = [case for case in DENIED if case["class"] == kind]
    assert [case["command"] for case in cases if action_on(case["command"], case) == "allow"] == []


@pytest.mark.parametrize("kind", list_kinds(ALLOWED))
def test_what_only_reads_the_workspace_runs(kind, action_on):
    cases = [case for case in ALLOWED if case["class"] == kind]
    assert [case["command"] for case in cases if action_on(case["command"], case) != "allow"] == []


@pytest.mark.skipif(not THEIRS, reason="the cases in ../shared are not part of this repository")
def test_the_published_cases_are_right_on_their_own_ground_too(tmp_path):
    policy = Policy(build(tmp_path), allowed_commands=NARROW, path=PATH)
    decided = {
        case["command"]: policy.decide(ToolCall("1", "exec", {"command": case["command"]}), "high").action
        for case in THEIRS
    }
    assert [
        each["command"] for each in THEIRS if (decided[each["command"]] == "allow") != (each["expected"] == "allow")
    ] == []


@pytest.mark.parametrize("case", ALLOWED[::12], ids=name)
def test_what_runs_unasked_does_no_harm_under_bash(case, tmp_path):
    build(tmp_path, traps=True)
    assert effect(case["command"], tmp_path) == ""


# Written otherwise, it is the same command.
LETTER = re.compile("[a-z]")
MUTATIONS = {
    "blanks doubled": lambda command, _: command.replace(" ", "  "),
    "tabs for blanks": lambda command, _: command.replace(" ", "\t"),
    "blanks around": lambda command, _: f"  {command}  ",
    "a comment behind": lambda command, _: f"{command} # harmless",
    "a comment below": lambda command, _: f"{command}\n# harmless",
    "a comment above": lambda command, _: f"# harmless\n{command}",
    "an empty line above": lambda command, _: f"\n\n{command}",
    "a line continued": lambda command, _: command.replace(" ", " \\\n", 1),
    "a word continued": lambda command, at: put(command, at, lambda letter: f"\\\n{letter}"),
    "a letter in single quotes": lambda command, at: put(command, at, lambda letter: f"'{letter}'"),
    "a letter in double quotes": lambda command, at: put(command, at, lambda letter: f'"{letter}"'),
    "a letter behind a backslash": lambda command, at: put(command, at, lambda letter: f"\\{letter}"),
    "nothing in quotes": lambda command, at: put(command, at, lambda letter: f"''{letter}"),
    "the first word in quotes": lambda command, _: re.sub(r"^\w+", r"'\g<0>'", command),
    "capitals": lambda command, _: command.upper(),
    "something harmless before": lambda command, _: f"ls; {command}",
    "something harmless behind": lambda command, _: f"{command}\nls",
    "in a group": lambda command, _: f"({command}\n)",
    "before a group": lambda command, _: f"{command}\n(ls)",
    "negated": lambda command, _: f"! {command}",
    "timed": lambda command, _: f"time {command}",
    "behind a change of folders": lambda command, _: f"cd . && {command}",
    "behind one that may fail": lambda command, _: f"cd src; {command}",
}


STACKED = re.compile(r"""['"\\]\n?['"\\]""")  # one way inside another: then it may be part of the name


def put(command: str, at: int, change) -> str:
    """The command with one of its letters changed, the `at`th of them, counted round."""
    letters = [match.start() for match in LETTER.finditer(command[:500])]
    if not letters:
        return command
    place = letters[at % len(letters)]
    return command[:place] + change(command[place]) + command[place + 1 :]


@pytest.mark.thorough
@pytest.mark.parametrize("way", MUTATIONS)
def test_no_way_of_writing_it_makes_a_denied_command_run(way, action_on):
    """Where few examples are tried, each way is tried on other commands, and so each command in one way."""
    cases = sample(HARMFUL, len(MUTATIONS), list(MUTATIONS).index(way))
    assert [case for case in cases if action_on(MUTATIONS[way](case["command"], 3), case) == "allow"] == []


@given(st.sampled_from(HARMFUL), st.lists(st.sampled_from(list(MUTATIONS.values())), max_size=3), st.integers(0, 400))
def test_nor_do_several_at_once(action_on, case, mutations, at):
    command = case["command"]
    for mutation in mutations:
        command = mutation(command, at)
    assume(len(STACKED.findall(command)) == len(STACKED.findall(case["command"])))
    assert action_on(command, case) != "allow"
