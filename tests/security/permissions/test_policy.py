"""What may run: profiles, rules over them, and what no rule can allow."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_type_hints

import pytest

from src.config import OPTIONS
from src.security.permissions.policy import PROFILES, Policy
from src.security.permissions.rules import Rule
from src.security.shell.option_table import ROWS
from src.tools.sdk.registry import Risk
from src.types.messages import ToolCall

ROOT = Path(__file__).resolve().parents[3]
READ = ToolCall("1", "read", {"path": "a.txt"})
WRITE = ToolCall("1", "write", {"path": "a.txt", "content": "x"})
EXEC = ToolCall("1", "exec", {"command": "make all"})
OTHER = ToolCall("1", "send", {"to": "you"})


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def write_call(path: str) -> ToolCall:
    return ToolCall("1", "write", {"path": path, "content": "x"})


def exec_call(command: object) -> ToolCall:
    return ToolCall("1", "exec", {"command": command})


def test_the_page_names_the_commands_of_the_table():
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    listed = page.partition("<!-- commands -->")[2].partition("<!-- end of commands -->")[0]
    assert re.findall("`([^`]+)`", listed) == sorted({*ROWS, "find"})


def test_the_parser_of_shells_is_loaded_for_a_command_that_may_run_and_for_nothing_else():
    code = """
import sys
from dataclasses import replace
from pathlib import Path
from src.types.messages import ToolCall
from src.security.permissions.policy import Policy
policy = Policy(Path("."), allowed_commands=("ls",))
policy.decide(ToolCall("1", "write", {"path": "a"}), "high")
print("tree_sitter" in sys.modules)
policy.decide(ToolCall("1", "exec", {"command": "ls"}), "high")
print("tree_sitter" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]


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
        assert policy.decide(write_call("a/new"), "high").action == "allow"
        assert {policy.decide(write_call(path), "high")[::2] for path in ("../a", "/etc/a", "out/a")} == {
            ("deny", "workspace")
        }

    def test_an_unknown_risk_is_high(self, workspace):
        assert Policy(workspace).decide(READ, "none at all").action == "ask"

    def test_the_type_checker_knows_every_risk_there_is(self):
        assert get_type_hints(Policy.decide)["risk"] == Risk


class TestRules:
    def test_an_allowing_rule_comes_before_the_profile(self, workspace):
        policy = Policy(workspace, "read-only", (Rule("write", "allow", path="*.txt"),))
        assert policy.decide(WRITE, "high").action == "allow"
        assert policy.decide(write_call("a.py"), "high").action == "deny"

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
        assert policy.decide(call, risk)[::2] == ("ask", "echo")

    def test_and_is_denied_where_it_would_be_denied_anyway(self, workspace):
        call = ToolCall("c", "exec", {"command": "ls"}, "text", echo=True)
        assert Policy(workspace, "read-only").decide(call, "high").action == "deny"


class TestCommands:
    """What a rule of the user's own allows, beyond the commands that the table knows."""

    @staticmethod
    def action(policy: Policy, command: str) -> str:
        return policy.decide(exec_call(command), "high").action

    @pytest.mark.parametrize(
        "command",
        ["pytest", "pytest -q tests", "pytest -k 'a or b'", "pytest tests/test_a.py::test_b[1]", "pytest -q | tail -5"],
    )
    def test_it_may_be_given_plain_words(self, command, workspace):
        assert self.action(Policy(workspace, allowed_commands=("pytest", "tail")), command) == "allow"

    @pytest.mark.parametrize(
        "command",
        [
            "pytest ../other",
            "pytest --rootdir=/etc",
            "pytest -c/etc/x",
            "pytest -p../x",
            "pytest a:/etc/x",
            "pytest @/etc/x",
            "pytest file:///etc/x",
            "pytest link",
            "pytest '~/x'",
            "pytest '$(touch pwned)'",
            "pytest 'a;b'",
            "pytest > log",
            "pytests",
            "./pytest",
            "python -m pytest",
        ],
    )
    def test_and_no_word_that_leads_out_of_the_workspace_or_may_be_run(self, command, workspace):
        (workspace / "link").symlink_to("/etc")
        assert self.action(Policy(workspace, allowed_commands=("pytest",)), command) == "ask"

    @pytest.mark.parametrize("command", ["git status", "git status -s", "git status --porcelain src"])
    def test_a_sub_command_is_allowed_by_its_words(self, command, workspace):
        assert self.action(Policy(workspace, allowed_commands=("git status",)), command) == "allow"

    @pytest.mark.parametrize("command", ["git push", "git -c a=b status", "git", "git log"])
    def test_and_no_other_of_them(self, command, workspace):
        assert self.action(Policy(workspace, allowed_commands=("git status",)), command) == "ask"

    def test_what_is_word_for_word_the_users_runs(self, workspace):
        words = ("find . -name x -delete", "sort -o a b", "cat /etc/hosts", "bash build.sh", "git commit -m 'a $b'")
        assert {self.action(Policy(workspace, allowed_commands=words), each) for each in words} == {"allow"}
        assert self.action(Policy(workspace, allowed_commands=words), "find . -name x -delete -ls") == "ask"

    def test_true_and_false_need_no_rule_behind_what_has_one(self, workspace):
        policy = Policy(workspace, allowed_commands=("ls",))
        assert self.action(policy, "ls nosuch || true") == "allow"
        assert {self.action(policy, command) for command in ("true", "true; rm a", "ls; true x")} == {"ask"}

    def test_a_folder_shown_by_its_name_alone_is_not_looked_into(self, workspace):
        (workspace / "out").symlink_to("/etc")
        policy = Policy(workspace, allowed_commands=("ls",))
        assert {self.action(policy, command) for command in ("ls -d */", "ls -d out")} == {"allow"}
        commands = (
            "ls */",
            "ls -ld */",
            "ls -1 out",
            "ls -d ..",
            "ls -d out/x",
            "ls -d out/*",
            "ls -d /*",
            "ls -d ./..",
        )
        assert {self.action(policy, command) for command in commands} == {"ask"}

    @pytest.mark.parametrize(
        ("rule", "command"),
        [
            ("python", "python -c pass"),
            ("python", "python -Bc pass"),
            ("fd", "fd . -x touch a"),
            ("tar", "tar xf a.tar --to-command=touch"),
            ("tar", "tar xf a.tar --to-c=touch"),
            ("tar", "tar xIf ./evil.sh a.tar"),
            ("rsync", "rsync -aze ./evil.sh a b"),
            ("npm", "npm exec touch a"),
            ("go test", "go test -exec ./evil.sh"),
            ("sqlite3", "sqlite3 db .shell"),
            ("git fetch", "git fetch ext::touch"),
            ("vim", "vim a"),
        ],
    )
    def test_a_word_by_which_it_runs_what_it_is_given_must_be_the_rules(self, rule, command, workspace):
        assert self.action(Policy(workspace, allowed_commands=(rule,)), command) == "ask"
        assert self.action(Policy(workspace, allowed_commands=(command,)), command) == "allow"

    @pytest.mark.parametrize(
        "command",
        ["python tests/run.py -v", "python -m pytest", "tar czf a.tar src", "go test", "npm test", "fd x src"],
    )
    def test_and_its_other_words_need_not_be(self, command, workspace):
        assert self.action(Policy(workspace, allowed_commands=(command.split()[0],)), command) == "allow"

    @pytest.mark.parametrize("launcher", ["bash", "sh", "env", "xargs", "sudo", "eval", ".", "timeout"])
    def test_a_rule_that_names_only_what_runs_others_allows_nothing(self, launcher, workspace):
        policy = Policy(workspace, allowed_commands=(launcher, "echo"))
        commands = (launcher, f"{launcher} touch a", f"echo touch a | {launcher}")
        assert {self.action(policy, each) for each in commands} == {"ask"}

    @pytest.mark.parametrize("path", ["", ".", ":/usr/bin", "bin:/usr/bin", "{}/bin:/usr/bin"])
    def test_a_command_that_the_workspace_may_stand_in_for_asks(self, path, workspace):
        program = workspace / "bin" / "ls"
        program.parent.mkdir()
        program.touch(0o755)
        policy = Policy(workspace, allowed_commands=("ls",), path=path.format(workspace))
        assert self.action(policy, "ls -l") == "ask"
        assert self.action(policy, "ls") == "ask"

    def test_a_glob_that_may_match_a_name_like_an_option_asks(self, workspace):
        (workspace / "-delete").touch()
        policy = Policy(workspace, allowed_commands=("find", "ls"), path="/usr/bin:/bin")
        assert {self.action(policy, command) for command in ("find *", "find -d*", "ls *")} == {"ask"}
        assert self.action(policy, "ls ./*") == "allow"

    def test_git_does_not_take_the_workspace_itself_for_a_repository(self, workspace):
        (workspace / "HEAD").touch()
        policy = Policy(workspace, allowed_commands=("git status",), path="/usr/bin:/bin")
        assert {self.action(policy, command) for command in ("git status", "git status -s")} == {"ask"}

    def test_a_change_of_folders_needs_no_rule_and_changes_what_paths_mean(self, workspace):
        (workspace / "src" / "deep").mkdir(parents=True)
        (workspace / "way").symlink_to("src/deep")
        (workspace / "secret").symlink_to("/etc/passwd")
        policy = Policy(workspace, allowed_commands=("cat", "ls"), path="/usr/bin:/bin")
        inside = ("cd src && cat ../a", f"cd {workspace} && ls", "cd src/deep; cat x", "(cd src && ls) | cat")
        assert {self.action(policy, command) for command in inside} == {"allow"}
        outside = ("cd src && cat ../secret", "cd src; cat secret", "cd .. && ls", "cd nowhere && ls", "cd / && ls")
        assert {self.action(policy, command) for command in outside} == {"ask"}
        through_a_link = ("cd way && cat ../x", "cd way/.. && cat secret", "cd way/../.. && ls")
        assert {self.action(policy, command) for command in through_a_link} == {"ask"}
        assert self.action(policy, "cd src") == "ask"

    def test_a_command_that_is_allowed_by_its_name_is_given_no_protected_file(self, workspace):
        (workspace / ".git").mkdir()
        settings = workspace / "config.json"
        policy = Policy(workspace, allowed_commands=("cp", "cat", "rm -r .git"), protected=(settings,))
        refused = ("cp a .git/hooks/b", "cd .git && cp ../a b", "cp a config.json", "cp -t.git a")
        assert {self.action(policy, command) for command in refused} == {"ask"}
        assert {self.action(policy, command) for command in ("cp a b", "cat config.json", "rm -r .git")} == {"allow"}

    def test_a_link_is_made_only_where_a_rule_names_all_of_its_words(self, workspace):
        (workspace / "src" / "deep").mkdir(parents=True)
        policy = Policy(workspace, allowed_commands=("ln", "cat", "ln -s a b"))
        assert self.action(policy, "ln -s a b") == "allow"
        assert self.action(policy, "cd src/deep && ln -s ../.. ../up && cat ../up/secret") == "ask"

    def test_what_is_word_for_word_the_users_is_meant_for_the_workspaces_own_folder(self, workspace):
        (workspace / "src").mkdir()
        policy = Policy(workspace, allowed_commands=("cat /etc/hosts", "bash build.sh"))
        assert {self.action(policy, f"cd src && {each}") for each in policy.allowed_commands} == {"ask"}

    def test_git_takes_no_other_folder_for_a_repository_either(self, workspace):
        (workspace / ".git").mkdir()
        (workspace / "src" / "deep").mkdir(parents=True)
        policy = Policy(workspace, allowed_commands=("git status", "git fetch"), path="/usr/bin:/bin")
        assert self.action(policy, "cd src/deep && git status") == "allow"
        (workspace / "src" / "HEAD").touch()
        commands = ("cd src/deep && git status", "cd src && git fetch origin", "cd src && git status -s")
        assert {self.action(policy, command) for command in commands} == {"ask"}

    @pytest.mark.parametrize(
        "before", ["time", "time -p", "timeout 5", "timeout -k 1 5s", "nice -n 5", "stdbuf -oL", "command"]
    )
    def test_what_only_runs_another_command_needs_no_rule_beside_that_commands(self, before, workspace):
        policy = Policy(workspace, allowed_commands=("ls",), path="/usr/bin:/bin")
        assert self.action(policy, f"{before} ls -l") == "allow"
        commands = (
            f"{before} touch a",
            f"{before} ls ..",
            f"{before} 'ls'",
            f"{before} cd src",
            f"{before} eval ls",
            before,
        )
        assert {self.action(policy, command) for command in commands} == {"ask"}

    def test_git_without_its_pager_is_the_same(self, workspace):
        policy = Policy(workspace, allowed_commands=("git log",), path="/usr/bin:/bin")
        assert {self.action(policy, f"git {each} log -1") for each in ("--no-pager", "-P")} == {"allow"}
        commands = (
            "git --no-pager push",
            "git --no-pager",
            "git --no-pager -c a=b log",
            "git --paginate log",
            "git -p log",
        )
        assert {self.action(policy, command) for command in commands} == {"ask"}

    def test_links_matter_only_where_they_are_followed_from(self, workspace):
        for folder in ("closed", "open", "around"):
            (workspace / folder).mkdir()
        (workspace / "open" / "out").symlink_to("/etc")
        (workspace / "closed" / "file").symlink_to("../a.txt")
        (workspace / "around" / "other").symlink_to("../open")
        policy = Policy(workspace, allowed_commands=("grep", "find"), path="/usr/bin:/bin")
        assert {self.action(policy, each) for each in ("grep -R x closed", "find -L closed -name x")} == {"allow"}
        commands = (
            "grep -R x",
            "grep -R x open",
            "grep -R x closed open",
            "grep -R x around",
            "find -L around",
            "find -L",
        )
        assert {self.action(policy, command) for command in commands} == {"ask"}

    def test_a_command_on_a_path_that_may_not_be_read_asks(self, workspace):
        (workspace / ".env").touch()
        policy = Policy(workspace, rules=(Rule("read", "deny", path=".env"),), allowed_commands=("cat",), path="/bin")
        assert [self.action(policy, command) for command in ("cat .env", "cat .e*", "cat < .env", "cat a")] == [
            *["ask"] * 3,
            "allow",
        ]

    @pytest.mark.parametrize("profile", PROFILES)
    def test_what_is_denied_is_denied_however_it_is_written(self, profile, workspace):
        policy = Policy(workspace, profile, (Rule("exec", "deny", "git push"), Rule("exec", "allow")))
        commands = (
            "git push",
            "ls; git -C x push",
            "bash -c 'git push'",
            "$x push",
            "echo git push | sh",
            "git push '",
        )
        assert {self.action(policy, command) for command in commands} == {"deny"}

    def test_what_is_protected_is_not_written_by_a_redirection_whatever_the_profile(self, workspace):
        policy = Policy(workspace, "full", protected=(workspace / "settings.json",))
        commands = ("echo x > .git/hooks/pre-commit", "ls; (echo >> settings.json)", "cat a 2>./x/../.git/config")
        assert {self.action(policy, command) for command in commands} == {"deny"}


@pytest.mark.parametrize("repair", ["quotes inside a string", "unquoted text"])
def test_a_call_whose_text_had_to_be_guessed_asks(repair, workspace):
    call = ToolCall("1", "write", {"path": "a", "content": "x"}, "text", (repair,))
    assert Policy(workspace, "workspace").decide(call, "high").rule == "repaired"
    assert Policy(workspace, "full").decide(call, "high").action == "allow"


@pytest.mark.parametrize("profile", ["ask", "workspace", "full"])
def test_a_guessed_call_asks_in_every_profile_and_whatever_rules_allow(profile, workspace):
    call = ToolCall("1", "write", {"path": "a", "content": "x"}, guessed=True)
    decision = Policy(workspace, profile, (Rule("write", "allow"),)).decide(call, "high")
    assert (decision.action, decision.rule) == ("ask", "guessed")


def test_a_guessed_call_that_changes_nothing_runs_and_a_denied_one_stays_denied(workspace):
    read = ToolCall("1", "read", {"path": "a"}, guessed=True)
    assert Policy(workspace).decide(read, "low").action == "allow"
    assert Policy(workspace, "read-only").decide(replace(read, name="write"), "high").action == "deny"


class TestAlways:
    def test_the_rule_for_a_file_names_that_file(self, workspace):
        rule = Policy(workspace).find_always_rule(write_call("./sub/../a [1].txt"))
        policy = Policy(workspace).with_rule(rule)
        assert policy.decide(write_call("a [1].txt"), "high").action == "allow"
        assert {policy.decide(write_call(path), "high").action for path in ("a 1.txt", "sub/a [1].txt", "b")} == {"ask"}

    def test_there_is_none_for_a_file_outside_the_workspace(self, workspace):
        assert Policy(workspace).find_always_rule(write_call("../a")) is None

    def test_there_is_none_against_a_denying_rule(self, workspace):
        assert Policy(workspace, rules=(Rule("write", "deny"),)).find_always_rule(WRITE) is None

    def test_there_is_none_for_an_echo(self, workspace):
        assert Policy(workspace).find_always_rule(ToolCall("1", "write", {"path": "a"}, echo=True)) is None

    def test_the_rule_for_any_other_tool_names_the_tool(self, workspace):
        assert Policy(workspace).find_always_rule(OTHER) == Rule("send", "allow")

    @pytest.mark.parametrize(
        ("command", "rule"),
        [
            ("ls -l src", "ls"),
            ("git status -s", "git status"),
            ("find . -name x", "find"),
            ("cd sub && ls -l", "ls"),
            ("timeout 5 ls -l", "ls"),
            ("git --no-pager diff --stat", "git diff"),
        ],
    )
    def test_the_rule_for_a_command_that_only_reads_names_it_and_its_sub_command(self, command, rule, workspace):
        (workspace / "sub").mkdir()
        assert Policy(workspace, path="/usr/bin:/bin").find_always_rule(exec_call(command)) == Rule(
            "exec", "allow", rule
        )

    @pytest.mark.parametrize(
        "command", ["rm a.txt", "git push origin", "pytest -q", "cat ../a", "find . -delete", "ls | rm a"]
    )
    def test_the_rule_for_any_other_is_the_line_as_it_stands(self, command, workspace):
        policy = Policy(workspace, path="/usr/bin:/bin")
        rule = policy.find_always_rule(exec_call(command))
        assert rule == Rule("exec", "allow", command, exact=True)
        assert policy.with_rule(rule).decide(exec_call(command), "high").action == "allow"
        assert policy.with_rule(rule).decide(exec_call(f"{command} b"), "high").action == "ask"

    @pytest.mark.parametrize("command", ["ls > a", "echo $(date)", "ls &", "", None, "ls \x1b[2J"])
    def test_there_is_none_for_what_cannot_be_read(self, command, workspace):
        assert Policy(workspace).find_always_rule(exec_call(command)) is None


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


NOT_HARMLESS = [
    (5, "/usr/bin", "there is no command"),
    ("pytest a", "/usr/bin:bin", "PATH contains a relative folder"),
    ("git push", "/usr/bin", "it is not known what git does with that"),
    ("ls --all=x", "/usr/bin", "--all takes no value"),
    ("head -n", "/usr/bin", "-n needs a value"),
    ("find . -name", "/usr/bin", "-name needs a value"),
    ("cat 12<a.txt", "/usr/bin", "12 is not a usual file descriptor"),
]


@pytest.mark.parametrize(("command", "path", "reason"), NOT_HARMLESS)
def test_the_reason_names_what_is_not_known_to_be_harmless(command, path, reason, workspace):
    policy = Policy(workspace, allowed_commands=("pytest", "git", "ls", "head", "find", "cat"), path=path)
    decision = policy.decide(exec_call(command), "high")
    assert decision.action == "ask"
    assert reason in decision.reason
