"""Whose files count in the folders above a workspace."""

from __future__ import annotations

import os

import pytest

from src.config.agents_md import read_guides
from src.config.environment import find_branch
from src.config.project import get_owners, is_owned, list_folders

ME = os.geteuid()
OTHER = ME + 1001


@pytest.fixture
def shared(tmp_path):
    """shared/mine/work; in shared is a repository with AGENTS.md, and AGENTS.md is in the two others as well."""
    work = tmp_path / "shared" / "mine" / "work"
    work.mkdir(parents=True)
    (tmp_path / "shared" / ".git").mkdir()
    (tmp_path / "shared" / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    for folder in (work, *work.parents[:2]):
        (folder / "AGENTS.md").write_text(folder.name)
    return tmp_path / "shared"


def texts(shared, **given):
    return [guide.text for guide in read_guides(shared / "mine" / "work", **given)]


def test_what_belongs_to_one_of_the_owners_counts(shared):
    assert texts(shared, owners={ME}) == ["shared", "mine", "work"]
    assert find_branch(shared / "mine" / "work", {ME}) == "topic"


def test_what_belongs_to_another_user_is_neither_a_repository_nor_a_guide(shared):
    assert texts(shared, owners={OTHER}) == ["work"]
    assert find_branch(shared / "mine" / "work", {OTHER}) == ""


def test_the_workspace_itself_counts_whoever_made_its_files(shared):
    (shared / "mine" / "work" / ".git").mkdir()
    assert list_folders(shared / "mine" / "work", {OTHER}) == [shared / "mine" / "work"]
    assert texts(shared, owners={OTHER}) == ["work"]


def test_the_owners_are_the_user_root_and_who_has_the_workspace(shared):
    assert get_owners(shared) == {0, ME, shared.stat().st_uid}


def test_what_is_not_there_belongs_to_nobody(shared):
    assert not is_owned(shared / "nothing", {ME})


@pytest.mark.skipif(ME != 0, reason="only root gives files away")
class TestWithFilesOfAnotherUser:
    def test_a_guide_above_is_not_read(self, shared):
        os.chown(shared / "mine" / "AGENTS.md", OTHER, -1)
        assert texts(shared) == ["shared", "work"]

    def test_a_repository_above_is_not_the_workspaces(self, shared):
        os.chown(shared / ".git", OTHER, -1)
        assert texts(shared) == ["work"]
        assert find_branch(shared / "mine" / "work") == ""

    def test_a_link_above_is_not_followed_though_what_it_leads_to_is_ours(self, shared):
        (shared / "mine" / "notes").write_text("ours")
        (shared / "mine" / "AGENTS.md").unlink()
        (shared / "mine" / "AGENTS.md").symlink_to("notes")
        os.chown(shared / "mine" / "AGENTS.md", OTHER, -1, follow_symlinks=False)
        assert texts(shared) == ["shared", "work"]

    def test_what_belongs_to_who_has_the_workspace_counts(self, shared):
        for path in (shared / "mine" / "work", shared / ".git", shared / "AGENTS.md"):
            os.chown(path, OTHER, -1)
        assert texts(shared) == ["shared", "mine", "work"]
