"""What may run: profiles, rules over them, and what no rule can allow."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from src.config import OPTIONS
from src.messages import ToolCall
from src.security.policy import PROFILES, Policy
from src.security.rules import Rule
from src.tools.registry import Risk

READ = ToolCall("1", "read", {"path": "a.txt"})
WRITE = ToolCall("1", "write", {"path": "a.txt", "content": "x"})
EXEC = ToolCall("1", "exec", {"command": "make all"})
OTHER = ToolCall("1", "send", {"to": "you"})


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def writing(path: str) -> ToolCall:
    return ToolCall("1", "write", {"path": path, "content": "x"})


def running(command: object) -> ToolCall:
    return ToolCall("1", "exec", {"command": command})


class TestProfiles:
    @pytest.mark.parametrize(
        ("profile", "read", "write", "command", "other"),
        [
            ("read-only", "allow", "deny", "deny", "deny"),
            ("ask", "allow", "ask", "ask", "ask"),
            ("workspace", "allow", "allow", "ask", "ask"),
            ("full", "allow", "allow", "allow", "allow"),
        ],
    )
    def test_what_each_lets_run(self, profile, read, write, command, other, workspace):
        policy = Policy(workspace, profile)
        decided = [policy.decide(READ, "low"), *(policy.decide(call, "high") for call in (WRITE, EXEC, OTHER))]
        assert [each.action for each in decided] == [read, write, command, other]
        assert {each.rule for each in decided} == {f"security.profile: {profile}"}

    def test_the_settings_know_the_same_profiles(self):
        assert tuple(PROFILES) == OPTIONS["security.profile"].metadata["choices"]

    def test_writing_is_free_inside_the_workspace_only(self, workspace):
        (workspace / "out").symlink_to("/tmp")
        policy = Policy(workspace, "workspace")
        assert [policy.decide(writing(path), "high").action for path in ("../a", "/etc/a", "out/a")] == ["ask"] * 3

    def test_a_risk_nobody_knows_is_high(self, workspace):
        assert Policy(workspace).decide(READ, "none at all").action == "ask"

    def test_the_type_checker_knows_every_risk_there_is(self):
        assert get_type_hints(Policy.decide)["risk"] == Risk


class TestRules:
    def test_an_allowing_rule_comes_before_the_profile(self, workspace):
        policy = Policy(workspace, "read-only", (Rule("write", "allow", path="*.txt"),))
        assert policy.decide(WRITE, "high").action == "allow"
        assert policy.decide(writing("a.py"), "high").action == "deny"

    @pytest.mark.parametrize("profile", PROFILES)
    def test_a_denying_rule_comes_before_all_others_whatever_their_order(self, profile, workspace):
        rules = (Rule("write", "allow"), Rule("write", "deny", path="a.*"), Rule("write", "ask"))
        assert Policy(workspace, profile, rules).decide(WRITE, "high").action == "deny"

    def test_an_asking_rule_comes_before_an_allowing_one(self, workspace):
        rules = (Rule("read", "allow"), Rule("read", "ask", path="a.txt"))
        assert Policy(workspace, "full", rules).decide(READ, "low").action == "ask"

    def test_a_rule_says_that_it_decided(self, workspace):
        decision = Policy(workspace, rules=(Rule("exec", "deny", "make"),)).decide(EXEC, "high")
        assert decision.rule == '{"tool": "exec", "action": "deny", "command": "make"}'

    def test_a_rule_without_command_and_path_speaks_of_every_call(self, workspace):
        policy = Policy(workspace, rules=(Rule("send", "allow"),))
        assert (policy.decide(OTHER, "high").action, policy.decide(WRITE, "high").action) == ("allow", "ask")

    def test_a_star_is_every_tool(self, workspace):
        policy = Policy(workspace, "full", rules=(Rule("*", "deny", path="secrets/"),))
        calls = (ToolCall("1", name, {"path": "secrets/key"}) for name in ("read", "edit", "grep"))
        assert {policy.decide(call, "low").action for call in calls} == {"deny"}

    def test_a_path_is_judged_by_where_it_leads(self, workspace):
        (workspace / "secrets").mkdir()
        (workspace / "link").symlink_to("secrets/key")
        policy = Policy(workspace, "full", rules=(Rule("read", "deny", path="/secrets/"),))
        paths = ("secrets/key", "./x/../secrets/key", "link", f"{workspace}/secrets/key")
        calls = [ToolCall("1", "read", {"path": path}) for path in paths]
        assert {policy.decide(call, "low").action for call in calls} == {"deny"}

    def test_a_rule_of_paths_allows_nothing_outside_the_workspace(self, workspace):
        policy = Policy(workspace, rules=(Rule("write", "allow", path="*"),))
        assert policy.decide(writing("../a.txt"), "high").action == "ask"


class TestWhatNoRuleAllows:
    @pytest.mark.parametrize("path", [".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "settings.json"])
    def test_what_is_protected_is_denied(self, path, workspace):
        policy = Policy(workspace, "full", (Rule("write", "allow"),), protected=(workspace / "settings.json",))
        decision = policy.decide(writing(path), "high")
        assert (decision.action, decision.rule) == ("deny", "protected")

    @pytest.mark.parametrize("risk", ["low", "high"])
    def test_a_call_that_repeats_what_the_model_was_given_asks(self, risk, workspace):
        call = ToolCall("c", "exec", {"command": "ls"}, "text", echo=True)
        policy = Policy(workspace, "full", (Rule("exec", "allow"),), ("ls",))
        assert policy.decide(call, risk)[::2] == ("ask", "echo")

    def test_and_is_denied_where_it_would_be_denied_anyway(self, workspace):
        call = ToolCall("c", "exec", {"command": "ls"}, "text", echo=True)
        assert Policy(workspace, "read-only").decide(call, "high").action == "deny"


class TestAlways:
    def test_the_rule_for_a_file_names_that_file(self, workspace):
        rule = Policy(workspace).always(writing("./sub/../a [1].txt"))
        policy = Policy(workspace).plus(rule)
        assert policy.decide(writing("a [1].txt"), "high").action == "allow"
        assert {policy.decide(writing(path), "high").action for path in ("a 1.txt", "sub/a [1].txt", "b")} == {"ask"}

    def test_there_is_none_for_a_file_outside_the_workspace(self, workspace):
        assert Policy(workspace).always(writing("../a")) is None

    def test_there_is_none_against_a_denying_rule(self, workspace):
        assert Policy(workspace, rules=(Rule("write", "deny"),)).always(WRITE) is None

    def test_there_is_none_for_an_echo(self, workspace):
        assert Policy(workspace).always(ToolCall("1", "write", {"path": "a"}, echo=True)) is None

    def test_the_rule_for_any_other_tool_names_the_tool(self, workspace):
        assert Policy(workspace).always(OTHER) == Rule("send", "allow")
