"""Folders added to the workspace: what tools may reach in them, and which rules hold there."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from src.errors import ConfigError
from src.security.permissions.policy import Decision, Policy
from src.security.permissions.rules import parse_rules
from src.security.shell.workspace import check_added
from src.types.messages import ToolCall

ENFORCING = SimpleNamespace(is_enforcing=True, can_hide_files=False)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def added(tmp_path: Path) -> Path:
    for name in ("lib", "library"):
        (tmp_path / "src" / name / "deep").mkdir(parents=True)
        (tmp_path / "src" / name / "a.py").write_text("1\n")
    return tmp_path / "src" / "lib"


@pytest.fixture
def decide(workspace: Path, added: Path):
    def decide(tool: str, path: object, *rules: dict[str, str], mode: str = "edits") -> Decision:
        policy = Policy(workspace, mode, parse_rules(rules), sandbox=ENFORCING, added=(added,))
        return policy.decide(ToolCall("1", tool, {"path": str(path)}), "low" if tool == "read" else "high")

    return decide


def test_they_are_read_and_changed_like_the_workspace(decide, added):
    assert decide("read", added / "a.py").action == "allow"
    assert decide("write", added / "new" / "b.py").action == "allow"
    assert decide("write", added / "a.py", mode="ask").action == "ask"
    assert decide("write", added / "a.py", mode="plan").action == "deny"


def test_the_place_in_one_is_the_whole_path_without_links(decide, workspace, added):
    (workspace / "link").symlink_to(added)
    for path in (added / "a.py", added / "deep" / ".." / "a.py", "../src/lib/a.py", "link/a.py"):
        assert decide("read", path).real_path == str(added / "a.py")


@pytest.mark.parametrize("path", ["../src/library/a.py", "../src", "../src/lib/../library/a.py", "/etc/passwd"])
def test_what_is_beside_them_is_out_of_reach(decide, path):
    assert decide("read", path).action == "deny"


def test_a_link_in_one_leads_nowhere_else(decide, workspace, added):
    (added / "out").symlink_to("/etc")
    (added / "beside").symlink_to(added.parent / "library")
    for path in ("out/passwd", "beside/a.py"):
        assert decide("read", added / path).action == "deny"
    (added / "back").symlink_to(workspace)
    assert decide("read", added / "back" / "x").real_path == "x"


class TestWhatIsProtected:
    @pytest.mark.parametrize("name", [".git/config", ".git/hooks/pre-commit", "deep/.GIT/config"])
    def test_git_s_own_files_are_in_each_of_them(self, decide, added, name):
        assert decide("write", added / name, mode="full").action == "deny"

    def test_git_s_own_files_count_through_a_link_too(self, decide, workspace, added):
        (workspace / ".git" / "hooks").mkdir(parents=True)
        (added / "hooks").symlink_to(workspace / ".git" / "hooks")
        assert decide("write", added / "hooks" / "pre-commit", mode="full").action == "deny"

    def test_a_file_that_runs_by_itself_asks(self, decide, workspace, added):
        (workspace / ".vscode").symlink_to(added / "deep")
        for path in (added / ".envrc", added / ".vscode" / "tasks.json", added / ".bashrc", ".vscode/tasks.json"):
            assert decide("write", path).action == "ask", path

    @pytest.mark.parametrize("link", [".vscode", ".husky", ".config/fish"])
    def test_a_file_that_runs_by_a_link_in_another_folder_asks_under_its_own_name(self, decide, workspace, added, link):
        (workspace / link).parent.mkdir(exist_ok=True, parents=True)
        (workspace / link).symlink_to(added / "deep")
        assert decide("write", added / "deep" / "tasks.json").action == "ask"
        assert decide("write", added / "a.py").action == "allow"

    def test_a_file_that_is_the_target_of_a_running_link_asks(self, decide, workspace, added):
        (workspace / ".envrc").symlink_to(added / "env")
        assert decide("write", added / "env").action == "ask"

    def test_a_link_inside_the_workspace_counts_too(self, decide, workspace):
        (workspace / "conf").mkdir()
        (workspace / ".vscode").symlink_to("conf")
        assert decide("write", "conf/tasks.json").action == "ask"
        assert decide("write", "conf/readme.md").action == "allow"

    @pytest.mark.parametrize("is_from_workspace", [True, False])
    def test_a_hook_of_the_other_folder_s_repository_asks(self, decide, workspace, added, is_from_workspace):
        repository, hooks = (workspace, added) if is_from_workspace else (added, workspace)
        (repository / ".git").mkdir()
        (repository / ".git" / "config").write_text(f"[core]\n\thooksPath = {hooks}/hooks\n")
        assert decide("write", hooks / "hooks" / "pre-commit").action == "ask"

    def test_a_command_s_redirection_to_one_s_git_is_denied(self, workspace, added):
        policy = Policy(workspace, "full", sandbox=ENFORCING, added=(added,))
        line = f"echo x > {added}/.git/hooks/pre-commit"
        assert policy.decide(ToolCall("1", "exec", {"command": line, "access": "write"}), "high").action == "deny"


DENY = {"tool": "read", "action": "deny", "path": "/secrets/"}


class TestRules:
    def test_one_that_denies_holds_below_each_folder(self, decide, workspace, added):
        for folder in (workspace, added):
            assert decide("read", folder / "secrets" / "key", DENY).action == "deny"
            assert decide("edit", folder / "secrets" / "key", DENY).action == "deny"
        policy = Policy(workspace, rules=parse_rules([DENY]), added=(added,))
        assert policy.is_unreadable(f"{added}/secrets/")
        assert not policy.is_unreadable(f"{added}/deep/")
        assert not policy.can_show("grep", f"{added}/secrets/key")

    @pytest.mark.parametrize("rest", ["secrets/", "sec*", "**/key", "secrets/key"])
    def test_one_that_denies_names_the_folder_through_a_link_too(self, decide, workspace, added, tmp_path, rest):
        (tmp_path / "a link").symlink_to(added)
        rule = {"tool": "read", "action": "deny", "path": f"{tmp_path}/a\\ link/{rest}"}
        assert decide("read", added / "secrets" / "key", rule).action == "deny"
        assert decide("read", tmp_path / "a link" / "secrets" / "key", rule).action == "deny"
        assert decide("read", added / "a.py", rule).action == "allow"
        assert decide("read", workspace / "secrets" / "key", rule).action == "allow"
        assert Policy(workspace, rules=parse_rules([rule]), added=(added,)).is_unreadable(f"{added}/secrets/key")

    @pytest.mark.parametrize("name", ["lib-current", "library-of-links"])
    def test_a_rule_names_it_by_a_link_whose_path_begins_with_that_of_the_folder(self, decide, added, name):
        (added.parent / name).symlink_to(added)
        rule = {"tool": "read", "action": "deny", "path": f"{added.parent}/{name}/secret.txt"}
        assert decide("read", added / "secret.txt", rule).action == "deny"
        assert decide("read", added / "a.py", rule).action == "allow"

    def test_a_rule_names_a_link_in_the_folder(self, decide, added):
        (added / "current").symlink_to("deep")
        rule = {"tool": "read", "action": "deny", "path": f"{added}/current/"}
        assert decide("read", added / "deep" / "key", rule).action == "deny"
        assert decide("read", added / "a.py", rule).action == "allow"

    @pytest.mark.parametrize("rest", ["//current/secret.txt", "/current//secret.txt", "/current//sec*", "//lib//sec*"])
    def test_a_rule_with_slashes_too_many_counts(self, decide, added, rest):
        (added.parent / "current").symlink_to(added)
        rule = {"tool": "read", "action": "ask", "path": f"{added.parent}{rest}"}
        assert decide("read", added / "secret.txt", rule).action == "ask"
        assert decide("read", added / "a.py", rule).action == "allow"

    def test_the_link_is_followed_to_where_it_leads_now(self, workspace, added, tmp_path):
        link, library = tmp_path / "link", added.parent / "library"
        rules = parse_rules([{"tool": "read", "action": "deny", "path": f"{link}/a.py"}])
        policy = Policy(workspace, rules=rules, added=(added, library))

        def list_denied() -> list[str]:
            calls = {each.name: ToolCall("1", "read", {"path": f"{each}/a.py"}) for each in (added, library)}
            return [name for name, call in calls.items() if policy.decide(call, "low").action == "deny"]

        assert list_denied() == []
        link.symlink_to(added)
        assert list_denied() == ["lib"]
        link.unlink()
        link.symlink_to(library)
        assert list_denied() == ["library"]

    @pytest.mark.parametrize("character", ["\0", "\ud800"])
    def test_one_whose_path_no_file_can_have_holds_nowhere(self, decide, added, character):
        rule = {"tool": "read", "action": "deny", "path": f"{added}/{character}"}
        assert decide("read", added / "a.py", rule).action == "allow"

    def test_one_that_allows_through_a_link_allows_nothing_there(self, decide, added, tmp_path):
        (tmp_path / "link").symlink_to(added)
        rule = {"tool": "edit", "action": "allow", "path": f"{tmp_path}/link/"}
        assert decide("edit", added / "a.py", rule, mode="ask").action == "ask"

    def test_one_about_any_folder_of_a_name_does_not_mean_those_above(self, decide, added):
        assert decide("read", added / "a.py", {"tool": "read", "action": "deny", "path": "src/"}).action == "allow"

    @pytest.mark.parametrize("pattern", ["/**", "*.py", "a.py", "/a.py", "src/", "**/src/**"])
    def test_one_that_allows_is_about_the_workspace(self, decide, added, pattern):
        rule = {"tool": "edit", "action": "allow", "path": pattern}
        assert decide("edit", added / "a.py", rule, mode="ask").action == "ask"

    def test_one_that_allows_begins_with_the_folder_s_whole_path(self, decide, added):
        rule = {"tool": "edit", "action": "allow", "path": f"{added}/deep/"}
        assert decide("edit", added / "deep" / "a.py", rule, mode="ask").action == "allow"
        assert decide("edit", added / "a.py", rule, mode="ask").action == "ask"

    def test_one_for_a_tool_holds_everywhere(self, decide, added):
        assert decide("edit", added / "a.py", {"tool": "edit", "action": "allow"}, mode="ask").action == "allow"

    def test_the_answer_always_is_about_that_one_file(self, workspace, added):
        policy = Policy(workspace, added=(added,))
        call = ToolCall("1", "edit", {"path": f"{added}/a.py"})
        call = ToolCall("1", "edit", call.arguments, real_path=policy.decide(call, "high").real_path)
        rule = policy.find_always_rule(call)
        assert rule is not None
        assert rule.path == f"{added}/a.py"
        later = policy.with_rule(rule)
        assert later.decide(call, "high").action == "allow"
        for other in ("a.py", f"{added}/b.py", f".{added}/a.py"):
            assert later.decide(ToolCall("2", "edit", {"path": other}), "high").action == "ask", other

    def test_a_command_that_names_a_hidden_file_of_one_asks(self, workspace, added):
        (added / "secrets").mkdir()
        policy = Policy(workspace, rules=parse_rules([DENY]), sandbox=ENFORCING, added=(added,))
        call = ToolCall("1", "exec", {"command": f"cat {added}/secrets/key", "access": "read"})
        assert policy.decide(call, "high").action == "ask"


class TestWhichMayBeAdded:
    """`check_added` refuses what cannot be held apart from what is protected."""

    @staticmethod
    def check(workspace: Path, *folders: Path, own: tuple[Path, ...] = (), **environment: str) -> str:
        try:
            check_added(folders, workspace, own, environment)
        except ConfigError as error:
            return error.message
        return ""

    def test_a_folder_beside_the_workspace_may(self, workspace, added):
        assert self.check(workspace, added, added.parent / "library") == ""

    def test_one_in_or_around_the_workspace_or_another_may_not(self, workspace, added):
        assert "is in the workspace" in self.check(workspace, workspace / "sub")
        assert "is in the workspace" in self.check(workspace, workspace)
        assert "contains the workspace" in self.check(workspace, workspace.parent)
        assert "one in the other" in self.check(workspace, added, added / "deep")
        assert "one in the other" in self.check(workspace, added / "deep", added)

    @pytest.mark.parametrize("folder", ["/etc", "/usr/lib/python3", "/proc/self", "/boot"])
    def test_what_belongs_to_the_system_may_not(self, workspace, folder):
        assert "part of the system" in self.check(workspace, Path(folder))

    def test_a_home_and_what_is_run_from_one_may_not(self, workspace, tmp_path):
        home = tmp_path / "home"
        assert "contains your home" in self.check(workspace, home, HOME=str(home))
        for name in (".ssh", ".config", ".config/fish/functions"):
            assert "what a shell runs" in self.check(workspace, home / name, HOME=str(home))
        assert self.check(workspace, home / "lib", HOME=str(home)) == ""

    def test_what_holds_the_program_s_own_files_may_not(self, workspace, tmp_path):
        state = tmp_path / "data" / "state"
        for folder in (state.parent, state, state / "aside"):
            assert "the state of this program" in self.check(workspace, folder, own=(state,))

    @pytest.mark.parametrize("name", [".git", ".git/hooks", "x/.git/modules/y", ".husky", ".vscode", ".a/agents"])
    def test_a_folder_of_git_or_of_what_runs_by_itself_may_not(self, workspace, tmp_path, name):
        assert "a folder of git" in self.check(workspace, tmp_path / "repo" / name)

    def test_a_folder_of_path_whose_files_run_by_their_names_may_not(self, workspace, added, tmp_path):
        (tmp_path / "link").symlink_to(added)
        for path in (f"/usr/bin:{added}", f"{tmp_path}/link:/usr/bin", f"{added}/"):
            assert "is on PATH" in self.check(workspace, added, PATH=path)
        for path in ("", ":", f"/usr/bin:{added.parent}/library:{added}/.venv/bin"):
            assert self.check(workspace, added, PATH=path) == ""

    def test_the_folder_for_temporary_files_may_not(self, workspace, monkeypatch, tmp_path):
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t" / "tmp"))
        assert "temporary files" in self.check(workspace, tmp_path / "t")
