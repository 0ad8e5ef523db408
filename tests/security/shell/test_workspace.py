"""Where paths lead: links are followed one by one, and /proc leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.security.shell.workspace import MAX_PATH_CHARS, Workspace, explain_protection, list_start_files


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    return tmp_path / "ws"


@pytest.mark.parametrize("path", ["/proc/self/cwd", "circle", "a\0b", "a/" * MAX_PATH_CHARS])
def test_a_path_whose_end_is_not_known_leads_nowhere(path, workspace):
    (workspace / "circle").symlink_to("circle")
    assert Workspace(workspace).relative_or_none(path) is None


def test_where_everything_is_the_workspace_every_path_is_in_it():
    assert Workspace(Path("/")).relative_or_none("/etc/hosts") == "etc/hosts"
    assert Workspace(Path("/")).relative_or_none("/") == "."


def test_without_a_home_there_are_no_start_files():
    assert list_start_files("") == ()
    assert Path("/home/user/.bashrc") in list_start_files("/home/user")


def test_a_path_that_cannot_exist_is_not_protected(workspace):
    assert explain_protection(".git/config", workspace, ()) != ""
    assert explain_protection(".git/\0", workspace, ()) == ""
