"""Where paths lead: links are followed one by one, and /proc leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.security.shell.workspace import (
    MAX_PATH_CHARS,
    Workspace,
    explain_protection,
    is_in_workspace,
    list_start_files,
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    return tmp_path / "ws"


def test_a_path_is_named_from_the_workspace_wherever_it_starts(workspace):
    inner = Workspace(workspace, "src")
    assert inner.relative_or_none("../a") == "a"
    assert inner.relative_or_none("b") == "src/b"
    assert inner.relative_or_none("..") == "."
    assert inner.relative_or_none("../../a") is None


@pytest.mark.parametrize("path", ["/proc/self/cwd", "circle", "a\0b", "a/" * MAX_PATH_CHARS])
def test_a_path_whose_end_is_not_known_leads_nowhere(path, workspace):
    (workspace / "circle").symlink_to("circle")
    assert Workspace(workspace).relative_or_none(path) is None


def test_where_everything_is_the_workspace_every_path_is_in_it():
    assert Workspace(Path("/")).relative_or_none("/etc/hosts") == "etc/hosts"
    assert Workspace(Path("/")).relative_or_none("/") == "."


def test_a_link_out_of_the_workspace_is_found_behind_a_link_inside(workspace):
    (workspace / "src" / "inside").symlink_to("..")
    assert Workspace(workspace).has_no_link_out(["src"])
    (workspace / "out").symlink_to("../other")
    assert not Workspace(workspace).has_no_link_out(["src"])


def test_without_a_home_there_are_no_start_files():
    assert list_start_files("") == ()
    assert Path("/home/user/.bashrc") in list_start_files("/home/user")


def test_a_path_that_cannot_exist_is_not_protected(workspace):
    assert explain_protection(".git/config", workspace, ()) != ""
    assert explain_protection(".git/\0", workspace, ()) == ""


def test_a_relative_folder_of_path_may_lead_into_the_workspace(workspace):
    assert is_in_workspace("ls", "bin:/usr/bin", Workspace(workspace))
    assert not is_in_workspace("no-such-program", "/usr/bin", Workspace(workspace))
