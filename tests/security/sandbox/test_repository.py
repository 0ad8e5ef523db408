"""Which repository outside a workspace is opened to commands: the one that names the workspace in turn."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import astuple

from src.security.sandbox.choose import choose
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.repository import Repository, find_repository
from src.security.sandbox.view import SandboxView, complete_view
from tests.thorough import sample

from .conftest import PATH, explain_unusable, make_runner

SECRET = "https://me:hunter22@example.com/private"
ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    **{f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str) -> None:
    subprocess.run(
        ["git", "-c", "protocol.file.allow=always", *words],
        cwd=folder,
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A repository of the user's, whose settings hold a token."""
    folder = tmp_path / "private"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "remote", "add", "origin", SECRET)
    git(folder, "commit", "-q", "--allow-empty", "-m", "one")
    return folder


def list_readable(workspace: Path, home: Path) -> list[Path]:
    return list(complete_view(SandboxView(workspace), {"HOME": str(home), "PATH": "/usr/bin"}).readable)


class TestOnesThatGitMade:
    def test_a_worktree_opens_its_repository(self, private, home, tmp_path):
        git(private, "worktree", "add", "-q", str(tmp_path / "linked"))
        assert list_readable(tmp_path / "linked", home) == [private / ".git"]
        assert find_repository(tmp_path / "linked") == Repository(private / ".git")

    def test_a_worktree_that_is_named_by_relative_paths_does(self, private, tmp_path):
        git(private, "worktree", "add", "-q", str(tmp_path / "linked"))
        (tmp_path / "linked" / ".git").write_text("gitdir: ../private/.git/worktrees/linked\n")
        (private / ".git" / "worktrees" / "linked" / "gitdir").write_text("../../../../linked/.git\n")
        git(tmp_path / "linked", "status")
        assert find_repository(tmp_path / "linked") == Repository(private / ".git")

    def test_a_worktree_that_was_moved_does_once_it_is_repaired(self, private, tmp_path):
        git(private, "worktree", "add", "-q", str(tmp_path / "linked"))
        (tmp_path / "linked").rename(tmp_path / "moved")
        folder, warning = astuple(find_repository(tmp_path / "moved"))
        assert folder is None
        assert "git worktree repair" in warning
        git(tmp_path / "moved", "worktree", "repair")
        assert find_repository(tmp_path / "moved") == Repository(private / ".git")

    def test_a_worktree_whose_path_has_a_link_does(self, private, tmp_path):
        (tmp_path / "alias").symlink_to(tmp_path)
        git(private, "worktree", "add", "-q", str(tmp_path / "alias" / "linked"))
        for workspace in (tmp_path / "linked", tmp_path / "alias" / "linked"):
            assert find_repository(workspace) == Repository(private / ".git")

    def test_a_submodule_opens_its_own_folder_and_not_the_rest_of_the_repository(self, private, tmp_path):
        git(tmp_path, "init", "-q", "super")
        git(tmp_path / "super", "submodule", "add", "-q", str(private), "sub")
        assert find_repository(tmp_path / "super" / "sub") == Repository(
            tmp_path / "super" / ".git" / "modules" / "sub"
        )

    def test_a_submodule_with_settings_of_each_worktree_does(self, private, tmp_path):
        git(tmp_path, "init", "-q", "super")
        git(tmp_path / "super", "submodule", "add", "-q", str(private), "sub")
        git(tmp_path / "super" / "sub", "sparse-checkout", "set", "docs")
        assert find_repository(tmp_path / "super" / "sub") == Repository(
            tmp_path / "super" / ".git" / "modules" / "sub"
        )

    def test_a_worktree_of_a_submodule_does(self, private, tmp_path):
        git(tmp_path, "init", "-q", "super")
        git(tmp_path / "super", "submodule", "add", "-q", str(private), "sub")
        git(tmp_path / "super" / "sub", "worktree", "add", "-q", str(tmp_path / "linked"))
        assert find_repository(tmp_path / "linked") == Repository(tmp_path / "super" / ".git" / "modules" / "sub")

    def test_a_separate_folder_is_opened_once_its_settings_name_the_workspace(self, tmp_path):
        git(tmp_path, "init", "-q", f"--separate-git-dir={tmp_path / 'store'}", "work")
        folder, warning = astuple(find_repository(tmp_path / "work"))
        assert folder is None
        assert "git config core.worktree" in warning
        git(tmp_path / "work", "config", "core.worktree", str(tmp_path / "work"))
        assert find_repository(tmp_path / "work") == Repository(tmp_path / "store")

    @pytest.mark.parametrize("kind", ["directory", "nothing", "inside"])
    def test_a_repository_in_the_workspace_needs_nothing_opened(self, kind, tmp_path):
        if kind == "directory":
            git(tmp_path, "init", "-q", "work")
        elif kind == "inside":
            git(tmp_path, "init", "-q", f"--separate-git-dir={tmp_path / 'work' / 'store'}", "work")
        assert find_repository(tmp_path / "work") == Repository(None)


def name_worktree_that_is_none(work: Path, private: Path) -> None:
    (work / ".git").write_text(f"gitdir: {private}/.git/worktrees/nothing\n")


def name_worktree_of_another_folder(work: Path, private: Path) -> None:
    git(private, "worktree", "add", "-q", str(private.parent / "other"))
    (work / ".git").write_text("gitdir: ../private/.git/worktrees/other\n")


def name_repository(work: Path, private: Path) -> None:
    (work / ".git").write_text(f"gitdir: {private}/.git\n")


def name_own_folder_that_shares_with_it(work: Path, private: Path) -> None:
    own = work / "store" / "worktrees" / "own"
    own.mkdir(parents=True)
    (own / "commondir").write_text(f"{private}/.git\n")
    (own / "gitdir").write_text(f"{work}/.git\n")
    (own / "HEAD").write_text("ref: refs/heads/master\n")
    (work / ".git").write_text("gitdir: store/worktrees/own\n")


def name_it_through_a_link(work: Path, private: Path) -> None:
    name_own_folder_that_shares_with_it(work, private)
    (private / ".git" / "worktrees").mkdir(exist_ok=True)
    (work / "store" / "worktrees").rename(work / "store" / "away")
    (work / "store" / "worktrees").symlink_to(private / ".git" / "worktrees")


def link_to_file_of_another_worktree(work: Path, private: Path) -> None:
    git(private, "worktree", "add", "-q", str(private.parent / "other"))
    (work / ".git").symlink_to("../other/.git")


def link_to_repository(work: Path, private: Path) -> None:
    (work / ".git").symlink_to("../private/.git")


def name_file_that_names_it(work: Path, private: Path) -> None:
    git(private, "worktree", "add", "-q", str(private.parent / "other"))
    (work / ".git").write_text("gitdir: ../other/.git\n")


FORGED = [
    name_worktree_that_is_none,
    name_worktree_of_another_folder,
    name_repository,
    name_own_folder_that_shares_with_it,
    name_it_through_a_link,
    link_to_file_of_another_worktree,
    link_to_repository,
    name_file_that_names_it,
]


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


class TestOnesThatAnArchiveNames:
    @pytest.mark.parametrize("forge", FORGED)
    def test_are_not_opened_and_it_is_told(self, forge, work, private, home):
        forge(work, private)
        folder, warning = astuple(find_repository(work))
        assert folder is None
        assert "is not opened to commands" in warning
        assert list_readable(work, home) == []

    @pytest.mark.thorough
    @pytest.mark.parametrize("forge", sample(FORGED, 4))
    def test_are_not_read_by_a_command(self, forge, work, private, kind, home):
        forge(work, private)
        run = make_runner(kind, work, {"PATH": PATH, "HOME": str(home)})
        shown = run(f"cat {private}/.git/config; git -c safe.directory='*' config -l", access="read")
        assert "hunter22" not in shown


def test_git_works_in_a_worktree_and_in_a_submodule(private, kind, home, tmp_path):
    git(private, "worktree", "add", "-q", str(tmp_path / "linked"))
    git(tmp_path, "init", "-q", "super")
    git(tmp_path / "super", "submodule", "add", "-q", str(private), "sub")
    for name in ("linked", "super/sub"):
        run = make_runner(kind, tmp_path / name, {"PATH": PATH, "HOME": str(home)})
        assert run("git log --format=%s", access="read") == "one\n[exit code 0]"


def test_what_is_not_opened_is_told_with_the_sandbox(work, private, kind):
    if why := explain_unusable(kind):
        pytest.skip(why)
    name_repository(work, private)
    view = complete_view(SandboxView(work), {"PATH": PATH})
    assert choose("auto", view, ResourceLimits(), {"PATH": PATH}, (kind,)).warning == view.warning != ""
