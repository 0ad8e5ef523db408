"""The paragraph about the environment in the system prompt."""

from __future__ import annotations

import subprocess

import pytest

from src.config import SecuritySettings, describe_environment
from src.config.environment import find_branch

DAY = "2026-11-22, Sunday"


def test_it_tells_date_system_branch_and_sandbox_in_few_words(tmp_path):
    subprocess.run(["git", "init", "-q", "-b", "topic/x", str(tmp_path)], check=True)
    (tmp_path / "inner").mkdir()
    told = describe_environment(tmp_path / "inner", SecuritySettings(), DAY)
    assert told.startswith(f"Environment: today is {DAY}; the system is ")
    assert "; the git branch is topic/x. Commands run in a sandbox" in told
    assert len(told) < 4 * 100  # about 100 tokens
    assert "\n" not in told


@pytest.mark.parametrize(
    ("security", "told"),
    [
        (SecuritySettings(sandbox="off"), "Commands run without a sandbox."),
        (SecuritySettings(exec_enabled=False), "You cannot run commands."),
        (SecuritySettings(sandbox_network=True), "and reach the network."),
    ],
    ids=str,
)
def test_what_commands_may_do_follows_from_the_settings(security, told, tmp_path):
    assert describe_environment(tmp_path, security, DAY).endswith(told)


def test_a_worktree_has_the_branch_of_its_own_folder_and_a_commit_is_shortened(tmp_path):
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "HEAD").write_text("0123456789abcdef\n")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".git").write_text(f"gitdir: {tmp_path / 'git'}\n")
    assert find_branch(tmp_path / "work") == "0123456789"


@pytest.mark.parametrize("head", ["", "ref: refs/heads/a\x1b[2Jb", "\xff"])
def test_what_is_no_branch_is_left_out(head, tmp_path):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(head.encode("latin-1"))
    assert find_branch(tmp_path) == ""
