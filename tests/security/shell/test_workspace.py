"""Where paths lead, with their links followed."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.security.shell.workspace import MAX_PATH_CHARS, explain_protection, find_relative, list_start_files


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    return tmp_path / "ws"


@pytest.mark.parametrize("path", ["/etc", "..", "out/a", "a\0b", "\ud800", "a/" * MAX_PATH_CHARS])
def test_a_path_that_leads_out_or_nowhere_is_not_in_the_workspace(path, workspace):
    (workspace / "out").symlink_to("..")
    assert find_relative(path, workspace) is None


@pytest.mark.parametrize(("path", "found"), [("src/../a", "a"), (".", "."), ("in/x", "src/x"), ("circle", "circle")])
def test_one_that_leads_into_it_is_named_by_its_end(path, found, workspace):
    (workspace / "in").symlink_to("src")
    (workspace / "circle").symlink_to("circle")
    assert find_relative(path, workspace) == found


def test_where_everything_is_the_workspace_every_path_is_in_it():
    assert find_relative("/etc/hosts", Path("/")) == "etc/hosts"
    assert find_relative("/", Path("/")) == "."


def test_without_a_home_there_are_no_start_files():
    assert list_start_files("") == ()
    assert Path("/home/user/.bashrc") in list_start_files("/home/user")


def test_a_path_that_cannot_exist_is_not_protected(workspace):
    assert explain_protection(".git/config", workspace, ()) != ""
    assert explain_protection(".git/\0", workspace, ()) == ""
