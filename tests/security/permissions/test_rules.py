"""Rules as the settings have them: read, refused, and written back."""

from __future__ import annotations

import json

import pytest

from src.errors import ConfigError
from src.security.permissions.rules import Rule, parse_allow_option, parse_rules
from tests.each import check_rows

ENTRIES = [
    {"tool": "exec", "action": "allow", "command": "git status"},
    {"tool": "write", "action": "deny", "path": "*.lock"},
    {"tool": "*", "action": "ask"},
    {"tool": "exec", "action": "allow", "command": "make all", "exact": True},
    {"tool": "exec", "action": "allow", "command": "git add && git commit", "each": True},
]


def test_a_rule_that_is_read_is_written_back_unchanged():
    rules = parse_rules(ENTRIES)
    assert [rule.to_entry() for rule in rules] == ENTRIES
    assert [json.loads(str(rule)) for rule in rules] == ENTRIES


@check_rows(
    "entry, said",
    [
        ({}, "action is one of allow, ask, deny"),
        ({"tool": "exec", "action": "forbid"}, "action is one of allow, ask, deny"),
        ({"action": "deny"}, "tool is the name of a tool"),
        ({"tool": " ", "action": "deny"}, "tool is the name of a tool"),
        ({"tool": "exec", "action": "deny", "comand": "rm"}, "there is no key 'comand'"),
        ({"tool": "exec", "action": "deny", "command": 5}, "command is a string"),
        ({"tool": "exec", "action": "deny", "exact": "yes"}, "exact is true or false"),
        ({"tool": "exec", "action": "deny", "command": "a && b", "each": True}, "each belongs to a rule that allows"),
        ({"tool": "exec", "action": "allow", "command": " "}, "command is empty"),
        ({"tool": "write", "action": "allow", "path": ""}, "path is empty"),
        ({"tool": "exec", "action": "allow", "command": "ls", "path": "a"}, "not of both"),
        ({"tool": "write", "action": "allow", "command": "ls"}, "only exec has a command"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_place(entry, said):
    with pytest.raises(ConfigError, match=r"security\.rules\[1\]") as error:
        parse_rules([ENTRIES[0], entry])
    assert said in str(error.value)


@check_rows(
    "pattern, covered, not_covered",
    [
        ("*.txt", "a/b.txt", "a/b.py"),
        ("/a.txt", "a.txt", "b/a.txt"),
        ("docs/", "docs/a/b", "src/docs.py"),
        ("docs/**/x", "docs/a/b/x", "x"),
    ],
)
def test_a_pattern_means_what_it_means_in_gitignore(pattern, covered, not_covered):
    rule = Rule("write", "allow", path=pattern)
    assert rule.matches_path(covered)
    assert not rule.matches_path(not_covered)


def test_only_a_rule_that_allows_minds_the_case_of_a_path():
    denying, allowing = (Rule("read", action, path="/Keys/*.pem") for action in ("deny", "allow"))
    assert [rule.matches_path("keys/A.PEM") for rule in (denying, allowing)] == [True, False]
    assert [rule.matches_path("Keys/a.pem") for rule in (denying, allowing)] == [True, True]


@check_rows(
    "text, rule",
    [
        ("exec:git status", Rule("exec", "allow", command="git status")),
        ("write:src/**", Rule("write", "allow", path="src/**")),
        ("read", Rule("read", "allow")),
        ('{"tool": "exec", "action": "deny", "command": "rm"}', Rule("exec", "deny", command="rm")),
    ],
)
def test_a_rule_on_the_command_line(text, rule):
    assert parse_allow_option(text) == rule


@check_rows("text", ["", "exec:", ":x", "{", "{}", '{"tool": "exec", "action": "maybe"}'])
def test_an_invalid_rule_on_the_command_line(text):
    with pytest.raises(ConfigError, match="--allow"):
        parse_allow_option(text)
