"""Which files no tool writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.security.shell.workspace import explain_protection, list_start_files


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "ws" / "src").mkdir(parents=True)
    return tmp_path / "ws"


def test_without_a_home_there_are_no_start_files():
    assert list_start_files("") == ()
    assert Path("/home/user/.bashrc") in list_start_files("/home/user")


def test_a_path_that_cannot_exist_is_not_protected(workspace):
    assert explain_protection(".git/config", workspace, ()) != ""
    assert explain_protection(".git/\0", workspace, ()) == ""
