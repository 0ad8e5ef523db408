"""What may run: modes, rules over them, and what no rule can allow."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import get_type_hints

import pytest
from msgspec.structs import astuple, replace

from src.config import SETTINGS
from src.config.settings import PROFILE_MODES
from src.security.permissions.modes import MODES
from src.security.permissions.policy import Policy
from src.security.permissions.rules import Rule
from src.security.shell.workspace import list_start_files
from src.tools.sdk.registry import Risk
from src.types.messages import ToolCall
from src.types.sandbox import ACCESSES
from tests.each import check_rows

READ = ToolCall("1", "read", {"path": "a.txt"})
WRITE = ToolCall("1", "write", {"path": "a.txt", "content": "x"})
EXEC = ToolCall("1", "exec", {"command": "make all"})
OTHER = ToolCall("1", "send", {"to": "you"})


ENFORCING = SimpleNamespace(is_enforcing=True, can_hide_files=False)  # a sandbox


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def write_call(path: str) -> ToolCall:
    return ToolCall("1", "write", {"path": path, "content": "x"})


def exec_call(command: object, access: object = None) -> ToolCall:
    return ToolCall("1", "exec", {"command": command, **({"access": access} if access else {})})


class TestModes:
    @pytest.mark.parametrize(
        ("mode", "read", "write", "other"),
        [
            ("plan", "allow", "deny", "deny"),
            ("ask", "allow", "ask", "ask"),
            ("edits", "allow", "allow", "ask"),
            ("auto", "allow", "allow", "ask"),
            ("full", "allow", "allow", "allow"),
        ],
    )
    def test_what_each_lets_tools_do(self, mode, read, write, other, workspace):
        policy = Policy(workspace, mode)
        decided = [policy.decide(READ, "low"), *(policy.decide(call, "high") for call in (WRITE, OTHER))]
        assert [each.action for each in decided] == [read, write, other]
        assert {each.rule for each in decided} == {f"security.mode: {mode}"}

    @pytest.mark.parametrize(
        ("mode", "actions"),
        [
            ("plan", ["allow", "allow", "deny", "deny"]),
            ("ask", ["allow", "allow", "ask", "ask"]),
            ("edits", ["allow", "allow", "ask", "ask"]),
            ("auto", ["allow", "allow", "allow", "ask"]),
            ("full", ["allow", "allow", "allow", "allow"]),
        ],
    )
    def test_what_each_lets_commands_do_by_their_access(self, mode, actions, workspace):
        policy = Policy(workspace, mode, sandbox=ENFORCING)
        decided = [policy.decide(exec_call("make", access), "high") for access in (None, *ACCESSES)]
        assert [each.action for each in decided] == actions
        assert [each.access for each in decided] == ["read", *ACCESSES]

    @pytest.mark.parametrize("access", ACCESSES)
    def test_a_command_of_the_users_own_is_decided_by_the_access_it_declares(self, access, workspace):
        policy = Policy(workspace, "auto", sandbox=ENFORCING)
        assert policy.decide(OTHER, "high", access) == policy.decide(exec_call("make", access), "high")

    @pytest.mark.parametrize(("access", "action"), [("read", "allow"), ("write", "ask"), ("network", "ask")])
    def test_a_low_risk_does_not_make_a_command_free_that_may_do_more_than_read(self, access, action, workspace):
        assert Policy(workspace, sandbox=ENFORCING).decide(OTHER, "low", access).action == action

    @pytest.mark.parametrize("mode", ["plan", "ask", "edits", "auto"])
    def test_where_nothing_enforces_every_command_asks(self, mode, workspace):
        decision = Policy(workspace, mode).decide(exec_call("ls"), "high")
        assert (decision.action, decision.rule) == ("ask", "sandbox")

    def test_the_settings_know_the_same_modes(self):
        assert ("", *MODES) == SETTINGS["security.mode"].option.choices
        assert {*PROFILE_MODES.values()} <= MODES.keys()

    @pytest.mark.parametrize(
        "last", ["lib/HEAD", "lib/objects/a", "./lib/refs/a", "lib/config", "lib/hooks/pre-commit"]
    )
    def test_an_edit_that_makes_git_obey_a_folder_asks(self, last, workspace):
        policy, write = Policy(workspace, "edits"), ToolCall("1", "write", {"path": last})
        assert policy.decide(write, "high").action == "allow"
        for name in {"HEAD", "objects", "refs"} - {last.removeprefix("./").split("/")[1]}:
            (workspace / "lib" / name).mkdir(parents=True)
        assert policy.decide(write, "high").action == "ask"
        assert policy.decide(ToolCall("1", "write", {"path": "lib/a.py"}), "high").action == "allow"

    @pytest.mark.parametrize(("first", "last"), [("HEAD", "commondir"), ("commondir", "HEAD")])
    def test_an_edit_that_makes_git_obey_another_folder_asks(self, first, last, workspace):
        policy, write = Policy(workspace, "edits"), ToolCall("1", "write", {"path": f"lib/{last}"})
        assert policy.decide(write, "high").action == "allow"
        (workspace / "lib").mkdir()
        (workspace / "lib" / first).write_text("../other\n")
        assert policy.decide(write, "high").action == "ask"

    @pytest.mark.parametrize(
        ("mode", "tool", "access", "is_offered"),
        [
            ("plan", "write", None, False),
            ("plan", "exec", None, True),
            ("plan", "lint", "read", True),
            ("plan", "build", "write", False),
            ("ask", "write", None, True),
        ],
    )
    def test_a_tool_that_could_not_run_is_not_offered(self, mode, tool, access, is_offered, workspace):
        assert Policy(workspace, mode).can_offer(tool, "high", access) is is_offered

    def test_in_plan_a_tool_that_a_rule_allows_is_offered(self, workspace):
        assert Policy(workspace, "plan", (Rule("write", "allow", path="notes.md"),)).can_offer("write", "high")

    def test_writing_is_free_inside_the_workspace_only(self, workspace):
        (workspace / "out").symlink_to("/tmp")
        policy = Policy(workspace, "edits")
        assert policy.decide(write_call("a/new"), "high").action == "allow"
        assert {astuple(policy.decide(write_call(path), "high"))[:3:2] for path in ("../a", "/etc/a", "out/a")} == {
            ("deny", "workspace")
        }

    def test_an_unknown_risk_is_high(self, workspace):
        assert Policy(workspace).decide(READ, "none at all").action == "ask"

    def test_the_type_checker_knows_every_risk_there_is(self):
        assert get_type_hints(Policy.decide)["risk"] == Risk


class TestRules:
    def test_an_allowing_rule_comes_before_the_profile(self, workspace):
        policy = Policy(workspace, "plan", (Rule("write", "allow", path="*.txt"),))
        assert policy.decide(WRITE, "high").action == "allow"
        assert policy.decide(write_call("a.py"), "high").action == "deny"

    @pytest.mark.parametrize("mode", MODES)
    def test_a_denying_rule_comes_before_all_others_whatever_their_order(self, mode, workspace):
        rules = (Rule("write", "allow"), Rule("write", "deny", path="a.*"), Rule("write", "ask"))
        assert Policy(workspace, mode, rules).decide(WRITE, "high").action == "deny"

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
        assert policy.decide(write_call("../a.txt"), "high").action == "deny"


class TestWhatNoRuleAllows:
    @pytest.mark.parametrize("path", [".git/hooks/pre-commit", "sub/.git/config", ".GIT/config", "settings.json"])
    def test_what_is_protected_is_denied(self, path, workspace):
        policy = Policy(workspace, "full", (Rule("write", "allow"),), protected=(workspace / "settings.json",))
        decision = policy.decide(write_call(path), "high")
        assert (decision.action, decision.rule) == ("deny", "protected")

    @pytest.mark.parametrize("risk", ["low", "high"])
    def test_a_call_that_repeats_what_the_model_was_given_asks(self, risk, workspace):
        call = ToolCall("c", "exec", {"command": "ls"}, "text", echo=True)
        policy = Policy(workspace, "full", (Rule("exec", "allow"),), ("ls",))
        assert astuple(policy.decide(call, risk))[:3:2] == ("ask", "echo")

    def test_a_repeated_call_that_the_mode_denies_is_denied(self, workspace):
        call = ToolCall("c", "exec", {"command": "ls", "access": "write"}, "text", echo=True)
        assert Policy(workspace, "plan").decide(call, "high").action == "deny"


class TestCommands:
    """What rules allow on top of the mode."""

    @staticmethod
    def decide(command: str, *words: str, access: object = None, **rule: object) -> tuple[str, str | None]:
        rules = tuple(Rule("exec", "allow", each, **rule) for each in words)
        decision = Policy(Path("/"), "ask", rules, sandbox=ENFORCING).decide(exec_call(command, access), "high")
        return decision.action, decision.access

    @check_rows(
        "command",
        ["git push", "git push origin main", "git  push", "git 'push' 2>&1", "git push && git push --tags > a"],
    )
    def test_its_words_begin_each_simple_command(self, command):
        assert self.decide(command, "git push", access="network") == ("ask", "network")
        assert {self.decide(command, "git push", access=each) for each in (None, "write")} == {("allow", "write")}

    @check_rows(
        "command", ["git pushx", "git -C x push", "git push; ls", "ls | git push", "git push $x", "git push $(ls)"]
    )
    def test_a_line_of_which_it_does_not_begin_every_command_is_left_to_the_mode(self, command):
        assert self.decide(command, "git push") == ("allow", "read")
        assert self.decide(command, "git push", access="write") == ("ask", "write")

    def test_it_runs_with_just_the_access_that_the_rule_names(self):
        assert self.decide("git push", "git push", exact=False) == ("allow", "write")
        network = Policy(Path("/"), "ask", (Rule("exec", "allow", "git push", access="network"),), sandbox=ENFORCING)
        for named, expected in ((None, "network"), ("write", "write"), ("network", "network")):
            decision = network.decide(exec_call("git push", named), "high")
            assert (decision.action, decision.access) == ("allow", expected)

    def test_commands_of_several_rules_run_with_the_least_of_their_accesses(self):
        rules = (Rule("exec", "allow", "git push", access="network"), Rule("exec", "allow", "make"))
        decision = Policy(Path("/"), "ask", rules, sandbox=ENFORCING).decide(exec_call("make && git push"), "high")
        assert (decision.action, decision.access) == ("allow", "write")

    def test_a_setting_of_before_allows_a_command_to_write(self):
        policy = Policy(Path("/"), allowed_commands=("make",), sandbox=ENFORCING)
        assert astuple(policy.decide(exec_call("make all"), "high"))[:3:2] == (
            "allow",
            "security.allowed_commands: make",
        )

    @pytest.mark.parametrize(("command", "action"), [("make all", "allow"), (" make all\n", "allow"), ("make", "ask")])
    def test_where_nothing_enforces_a_rule_must_hold_the_exact_line(self, command, action):
        policy = Policy(
            Path("/"), "ask", (Rule("exec", "allow", "make all"), Rule("exec", "allow", "make all", exact=True))
        )
        assert policy.decide(exec_call(command), "high").action == action
        assert policy.decide(exec_call(f"{command} -k"), "high").action == "ask"

    def test_in_plan_a_command_reads_only_whatever_a_rule_grants(self):
        policy = Policy(Path("/"), "plan", (Rule("exec", "allow", "make"),), sandbox=ENFORCING)
        assert policy.decide(exec_call("make"), "high").access == "read"
        assert policy.decide(exec_call("make", "write"), "high").action == "deny"

    def test_a_rule_that_asks_names_the_access(self):
        policy = Policy(Path("/"), "full", (Rule("exec", "ask", "make"),), sandbox=ENFORCING)
        assert astuple(policy.decide(exec_call("make"), "high"))[:4:3] == ("ask", "read")

    @pytest.mark.parametrize(("access", "action"), [(None, "allow"), ("read", "allow"), ("write", "deny")])
    def test_a_redirection_that_cannot_be_read_may_be_to_a_protected_file(self, access, action):
        policy = Policy(Path("/"), "full", sandbox=ENFORCING)
        assert policy.decide(exec_call("echo x > $file", access), "high").action == action

    def test_a_rule_grants_no_more_than_reading_to_such_a_redirection(self):
        policy = Policy(Path("/"), "ask", (Rule("exec", "allow"),), sandbox=ENFORCING)
        decided = [policy.decide(exec_call(f"echo x > {target}"), "high") for target in ("$file", "file")]
        assert [(each.action, each.access) for each in decided] == [("allow", "read"), ("allow", "write")]

    def test_a_rule_of_the_whole_tool_allows_every_line(self):
        assert Policy(Path("/"), "ask", (Rule("exec", "allow"),)).decide(exec_call("$x"), "high").action == "allow"

    def test_a_command_on_a_path_that_may_not_be_read_asks_a_person(self, workspace):
        (workspace / ".env").touch()
        policy = Policy(workspace, rules=(Rule("read", "deny", path=".env"),), sandbox=ENFORCING)
        asking = ("cat .env", "cat .e*", "cat < .env", "cat --file=.env", "cat $x", "cat ./x/../.env")
        decided = [policy.decide(exec_call(command), "high") for command in asking]
        assert [(each.action, each.needs_person) for each in decided] == [("ask", True)] * len(asking)
        assert policy.decide(exec_call("cat a"), "high").action == "allow"

    @check_rows(
        "line, exit_code, is_unaffected",
        [
            ("grep -rn x src | head", 1, True),
            ("cd src && git grep x", 1, True),
            ("nosuch", 127, True),
            ("mkdir b; b/run", 127, False),
            ("pytest -q", 1, False),
            ("grep x a > b", 1, False),
        ],
    )
    def test_what_only_reads_fails_with_any_access(self, line, exit_code, is_unaffected):
        assert Policy(Path("/")).is_unaffected(line, exit_code) is is_unaffected

    @pytest.mark.parametrize("mode", MODES)
    def test_what_is_denied_is_denied_however_it_is_written(self, mode, workspace):
        policy = Policy(workspace, mode, (Rule("exec", "deny", "git push"), Rule("exec", "allow")))
        commands = ("git push", "ls; git -C x push", "bash -c 'git push'", "echo git push | sh", "git push '")
        assert {policy.decide(exec_call(command), "high").action for command in commands} == {"deny"}

    @pytest.mark.parametrize("mode", MODES)
    def test_a_line_that_a_denying_rule_cannot_read_asks_a_person(self, mode, workspace):
        policy = Policy(workspace, mode, (Rule("exec", "deny", "git push"), Rule("exec", "allow")), sandbox=ENFORCING)
        decided = [policy.decide(exec_call(command), "high") for command in ("$x push", "echo x | sh")]
        assert [(each.action, each.needs_person) for each in decided] == [("ask", True)] * 2

    def test_such_a_line_asks_a_person_also_where_another_rule_asks(self, workspace):
        rules = (Rule("exec", "ask", "make"), Rule("exec", "deny", "git push"))
        decision = Policy(workspace, "full", rules, sandbox=ENFORCING).decide(exec_call("make $x"), "high")
        assert (decision.action, decision.needs_person) == ("ask", True)

    def test_what_is_protected_is_not_written_by_a_redirection_whatever_the_mode(self, workspace):
        policy = Policy(workspace, "full", protected=(workspace / "settings.json",))
        commands = ("echo x > .git/hooks/pre-commit", "ls; (echo >> settings.json)", "cat a 2>./x/../.git/config")
        assert {policy.decide(exec_call(command), "high").action for command in commands} == {"deny"}


@pytest.mark.parametrize("mode", ["ask", "edits", "auto", "full"])
def test_a_guessed_call_asks_in_every_mode_and_whatever_rules_allow(mode, workspace):
    call = ToolCall("1", "write", {"path": "a", "content": "x"}, guessed=True)
    decision = Policy(workspace, mode, (Rule("write", "allow"),)).decide(call, "high")
    assert (decision.action, decision.rule) == ("ask", "guessed")


def test_a_guessed_call_that_changes_nothing_runs_and_a_denied_one_stays_denied(workspace):
    read = ToolCall("1", "read", {"path": "a"}, guessed=True)
    assert Policy(workspace).decide(read, "low").action == "allow"
    assert Policy(workspace, "plan").decide(replace(read, name="write"), "high").action == "deny"


class TestAlways:
    def test_the_rule_for_a_file_names_that_file(self, workspace):
        call = write_call("./sub/../a [1].txt")
        judged = replace(call, real_path=Policy(workspace).decide(call, "high").real_path)
        policy = Policy(workspace).with_rule(Policy(workspace).find_always_rule(judged))
        assert policy.decide(write_call("a [1].txt"), "high").action == "allow"
        assert {policy.decide(write_call(path), "high").action for path in ("a 1.txt", "sub/a [1].txt", "b")} == {"ask"}

    def test_there_is_none_for_a_file_outside_the_workspace(self, workspace):
        assert Policy(workspace).find_always_rule(write_call("../a")) is None

    @pytest.mark.parametrize("path", ["a\n", "a \t", "a \x85", "a\u2003"])
    def test_of_a_file_whose_name_ends_with_a_blank_that_patterns_lose_there_is_none(self, workspace, path):
        assert Policy(workspace).find_always_rule(write_call(path)) is None

    def test_there_is_none_against_a_denying_rule(self, workspace):
        assert Policy(workspace, rules=(Rule("write", "deny"),)).find_always_rule(WRITE) is None

    def test_there_is_none_for_an_echo(self, workspace):
        assert Policy(workspace).find_always_rule(ToolCall("1", "write", {"path": "a"}, echo=True)) is None

    def test_the_rule_for_any_other_tool_names_the_tool(self, workspace):
        assert Policy(workspace).find_always_rule(OTHER) == Rule("send", "allow")

    @pytest.mark.parametrize(
        ("command", "rule"),
        [("git commit -m 'a b'", "git commit"), ("pip install x", "pip install"), ("make test", "make test")],
    )
    def test_the_rule_for_a_sub_command_names_it_and_what_it_needs(self, command, rule, workspace):
        policy = Policy(workspace, sandbox=ENFORCING)
        found = policy.find_always_rule(exec_call(command), "network")
        assert found == Rule("exec", "allow", rule, access="network")

    @pytest.mark.parametrize(
        "command",
        [
            "rm -r a.txt",
            "rm build",
            "echo x",
            "pytest -q",
            "ls | rm a",
            "ls > a",
            "echo $(date)",
            "sudo reboot",
            "make",
        ],
    )
    def test_the_rule_for_any_other_is_the_line_as_it_stands(self, command, workspace):
        policy = Policy(workspace, sandbox=ENFORCING)
        rule = policy.find_always_rule(exec_call(command), "write")
        assert rule == Rule("exec", "allow", command, exact=True, access="write")
        assert policy.with_rule(rule).decide(exec_call(command, "write"), "high").action == "allow"
        assert policy.with_rule(rule).decide(exec_call(f"{command} b", "write"), "high").action == "ask"

    @pytest.mark.parametrize("command", ["git push origin main", "git branch -d old", "git reset HEAD"])
    def test_no_rule_for_a_sub_command_covers_one_that_destroys(self, command, workspace):
        found = Policy(workspace, sandbox=ENFORCING).find_always_rule(exec_call(command), "network")
        assert found == Rule("exec", "allow", command, exact=True, access="network")

    @pytest.mark.parametrize(
        "command",
        [
            "rm -rf src && git push --force origin main",
            "git -C x push -f",
            "make; git reset --hard HEAD~3",
            "find . -name '*.o' -delete",
            "cd a && 'rm' b",
            "xargs rm",
            "git clean -fdx $(pwd)",
            "git push origin +main",
            "git push \\\n origin +main",
            "git push origin :main",
            "git push origin -d main",
            "git push --prune origin",
            "git branch -d -f old",
            "git branch --delete --force old",
            "git tag -d v1",
            "git update-ref -d refs/heads/old",
        ],
    )
    def test_what_deletes_or_discards_commits_is_allowed_in_this_chat_at_most(self, command, workspace):
        assert not Policy(workspace).can_be_kept(exec_call(command))

    @pytest.mark.parametrize(
        "command",
        [
            "git push origin main",
            "git push origin a:b",
            "git push; date +%s",
            "git branch -d a",
            "pytest -q",
            "git rm-cached",
            "echo form",
            None,
        ],
    )
    def test_any_other_rule_may_be_kept(self, command, workspace):
        assert Policy(workspace).can_be_kept(exec_call(command))

    def test_where_nothing_enforces_it_is_the_line_as_well(self, workspace):
        assert Policy(workspace).find_always_rule(exec_call("make test")).exact

    def test_there_is_none_for_no_command(self, workspace):
        assert Policy(workspace).find_always_rule(exec_call(None)) is None


UNREACHABLE = [
    ("read", {"path": "~/.ssh/id_rsa"}, "~ is not expanded"),
    ("read", {"path": "../a"}, "outside the workspace"),
    ("glob", {"pattern": "../*"}, "leads outside"),
    ("glob", {"pattern": "{a,..}/*"}, "leads outside"),
]


@pytest.mark.parametrize(("tool", "arguments", "reason"), UNREACHABLE)
def test_a_path_that_no_file_tool_reaches_is_denied_whatever_a_rule_says(tool, arguments, reason, workspace):
    decision = Policy(workspace, "full", (Rule(tool, "allow"),)).decide(ToolCall("1", tool, arguments), "low")
    assert (decision.action, decision.rule) == ("deny", "workspace")
    assert reason in decision.reason


REDIRECTED_TO_PROTECTED = """\
echo x >$f
echo x >.g?t/config
cd $d && echo x >config
echo x 1<>$a
cd a; cd b; cd c; cd d; cd e; cd .git; echo x > config
cd .git && sh -c 'echo x > config'
eval 'cd .git'; echo x > config
cd .git; bash <<'E'\\n echo x > config\\nE
echo "$(date)"#a > .git/config
cd .git; echo $(a) [[ a > config ]]
""".splitlines()


@pytest.mark.parametrize("command", REDIRECTED_TO_PROTECTED)
@pytest.mark.parametrize("mode", ["ask", "full"])
def test_a_redirection_that_may_be_to_a_protected_file_is_denied_without_a_sandbox(command, mode, workspace):
    decision = Policy(workspace, mode).decide(exec_call(command.replace("\\n", "\n")), "high")
    assert (decision.action, decision.rule) == ("deny", "protected")


def test_a_program_that_writes_a_protected_file_asks_where_no_sandbox_keeps_it_from_that(workspace):
    decision = Policy(workspace, "auto").decide(exec_call("tee .git/config", "write"), "high")
    assert (decision.action, decision.rule, decision.needs_person) == ("ask", "sandbox", False)


@pytest.mark.parametrize(("mode", "action"), [("ask", "ask"), ("edits", "ask"), ("auto", "ask"), ("full", "allow")])
def test_a_file_that_runs_by_itself_is_not_written_without_asking(mode, action, workspace):
    policy = Policy(workspace, mode=mode)
    assert policy.decide(write_call("sub/.vscode/tasks.json"), "high").action == action


@pytest.mark.parametrize(
    "path", [".bashrc", ".ssh/authorized_keys", "x/../.config/autostart/a.desktop", "link/tasks.json", "hooks/pre-push"]
)
def test_where_a_command_would_be_undone_a_file_tool_asks(path, workspace):
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n\thooksPath = hooks\n")
    (workspace / ".theia").mkdir()
    (workspace / "link").symlink_to(".theia")
    policy = Policy(workspace, mode="auto")
    assert policy.decide(write_call(path), "high").action == "ask"
    assert policy.decide(write_call("other/.bashrc"), "high").action == "allow"


def test_a_script_in_the_folder_of_hooks_of_the_users_own_git_settings_asks(workspace, tmp_path, monkeypatch):
    home = tmp_path / "my home"
    home.mkdir()
    (home / ".gitconfig").write_text("[core]\n\thooksPath = .githooks\n")
    monkeypatch.setenv("HOME", str(home))
    (workspace / "sub" / ".git").mkdir(parents=True)
    policy = Policy(workspace, mode="auto")
    assert policy.decide(write_call("sub/.githooks/pre-push"), "high").action == "ask"
    assert policy.decide(write_call("other/.githooks/pre-push"), "high").action == "allow"


@pytest.mark.parametrize("name", [".ssh/authorized_keys", ".config/git/config", ".profile"])
def test_in_the_home_no_tool_writes_them(name, workspace):
    policy = Policy(workspace, mode="full", protected=list_start_files(str(workspace)))
    assert policy.decide(write_call(name), "high").rule == "protected"


def test_in_mode_plan_without_a_sandbox_yes_does_not_answer_for_a_person(workspace):
    decision = Policy(workspace, mode="plan").decide(exec_call("touch x"), "high")
    assert (decision.action, decision.needs_person) == ("ask", True)
    assert not Policy(workspace, mode="ask").decide(exec_call("touch x"), "high").needs_person


HIDING = (Rule("read", "deny", path=".env"), Rule("read", "ask", path="/private/"), Rule("*", "deny", path="*.key"))


def test_what_a_rule_keeps_from_read_is_not_searched_but_its_name_may_be_listed(workspace):
    policy = Policy(workspace, rules=HIDING)
    names = (".env", "sub/.env", "private/a", "x.key", "a.txt")
    assert [policy.can_show("grep", name) for name in names] == [False, False, False, False, True]
    assert [policy.can_show("glob", name) for name in names] == [True, True, True, False, True]
    assert [policy.is_unreadable(name) for name in names] == [True, True, False, True, False]
    grep = ToolCall("1", "grep", {"pattern": "x", "path": "sub/.env"})
    assert policy.decide(grep, "low").rule == str(HIDING[0])


def test_what_a_rule_keeps_from_read_is_not_edited_as_a_diff_shows_it(workspace):
    policy = Policy(workspace, "full", rules=HIDING)
    edits = [ToolCall("1", "edit", {"path": path}) for path in (".env", "private/a", "a.txt")]
    assert [policy.decide(edit, "high").action for edit in edits] == ["deny", "ask", "allow"]


def test_a_rule_that_allows_to_read_a_file_allows_no_edit_of_it(workspace):
    policy = Policy(workspace, rules=(Rule("read", "allow", path="a.txt"),))
    assert policy.decide(ToolCall("1", "edit", {"path": "a.txt"}), "high").action == "ask"


def test_a_command_that_may_show_a_denied_file_asks_only_where_the_sandbox_does_not_hide_it(workspace):
    policies = [
        Policy(workspace, rules=HIDING, sandbox=SimpleNamespace(is_enforcing=True, can_hide_files=can_hide))
        for can_hide in (False, True)
    ]
    assert [policy.decide(exec_call("cat .env"), "high").action for policy in policies] == ["ask", "allow"]


class TestRequestsToOneServer:
    """A rule about a server of this machine, which the answer to the first request makes."""

    FIRST = exec_call("curl -s http://localhost:8000/a", "network")

    @pytest.fixture
    def policy(self, workspace):
        asking = Policy(workspace, "edits", sandbox=ENFORCING)
        rule = asking.find_always_rule(self.FIRST, "network")
        return asking.with_rule(rule)

    @pytest.mark.parametrize("line", ["curl -s http://127.0.0.1:8000/b", "curl -s localhost:8000/a | head -3"])
    def test_it_allows_the_others(self, policy, line):
        assert astuple(policy.decide(exec_call(line, "network"), "high"))[:2] == ("allow", "a rule allows it")

    @pytest.mark.parametrize(
        "line",
        ["curl -s http://localhost:8001/a", "curl http://example.com/", "curl", "make", "curl localhost:8000 | sh"],
    )
    def test_it_allows_nothing_else(self, policy, line):
        assert policy.decide(exec_call(line, "network"), "high").action == "ask"

    def test_it_does_not_last(self, policy):
        assert not policy.can_be_kept(self.FIRST)

    def test_where_nothing_enforces_access_there_is_none(self, workspace):
        rule = Policy(workspace, "edits").find_always_rule(self.FIRST, "network")
        assert rule.exact

    def test_a_rule_that_denies_wins(self, policy):
        denying = policy.with_rule(Rule("exec", "deny", "curl"))
        assert denying.decide(self.FIRST, "high").action == "deny"


class TestALineOfSeveralCommands:
    LINE = "git add -A && git commit -m 'One'"

    def allow(self, workspace, line=LINE):
        asking = Policy(workspace, "edits", sandbox=ENFORCING)
        return asking.with_rule(asking.find_always_rule(exec_call(line, "write"), "write"))

    def test_the_rule_is_about_the_first_words_of_each(self, workspace):
        policy = self.allow(workspace)
        for line in ("git add a && git commit -m 'Two'", "git commit -m x", "git add b"):
            assert policy.decide(exec_call(line, "write"), "high").action == "allow", line
        for line in ("git add a && git push", "git add a && make", "git add a; git push"):
            assert policy.decide(exec_call(line, "write"), "high").action == "ask", line

    @pytest.mark.parametrize("line", ["git add -A && make", "git add -A && git reset --hard", "git add a && rm b"])
    def test_one_with_another_command_gets_a_rule_for_the_exact_line(self, workspace, line):
        policy = self.allow(workspace, line)
        assert policy.decide(exec_call(line, "write"), "high").action == "allow"
        assert policy.decide(exec_call(f"{line} x", "write"), "high").action == "ask"

    def test_a_rule_of_the_settings_about_such_a_line_is_about_the_line(self, workspace):
        rule = Rule("exec", "allow", "npm ci && npm test")
        policy = Policy(workspace, "edits", (rule,), sandbox=ENFORCING)
        assert policy.decide(exec_call("npm test -- x", "write"), "high").action == "ask"
