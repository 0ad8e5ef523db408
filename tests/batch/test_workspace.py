"""The folder of a task, and the patch of its changes."""

import subprocess

import pytest

from src.batch.tasks import Task
from src.batch.workspace import MAX_CHANGED_BYTES, Repositories, TaskWorkspace
from src.errors import BotError

from .script import make_repository


@pytest.fixture
def open_workspace(tmp_path):
    def open_it(**given):
        (tmp_path / "private").mkdir()
        workspace = TaskWorkspace(tmp_path / "work", tmp_path / "private")
        workspace.prepare(Task("a", "x", **given), Repositories(tmp_path / "clones"))
        return workspace

    return open_it


def run_git(folder, *words, **more):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, **more).stdout.decode()


class TestWithoutARepository:
    def test_the_folder_holds_the_files_of_the_task(self, open_workspace):
        work = open_workspace(files={"deep/a.txt": "one\r\n"})
        assert (work.root / "deep/a.txt").read_bytes() == b"one\r\n"
        assert work.make_patch() == ("", "")

    def test_the_patch_is_what_changed_since(self, open_workspace):
        work = open_workspace(files={"a.txt": "one\n"})
        (work.root / "a.txt").write_text("two\n")
        patch, problem = work.make_patch()
        assert "-one\n+two\n" in patch
        assert not problem

    def test_a_link_in_the_way_of_a_file_is_refused(self, open_workspace, tmp_path):
        repository = make_repository(tmp_path / "repo")
        (repository / "out").symlink_to(tmp_path)
        run_git(repository, "add", ".")
        run_git(repository, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "link")
        with pytest.raises(BotError, match="leads out"):
            open_workspace(repo=str(repository), files={"out/x": "y"})
        assert not (tmp_path / "x").exists()


class TestWithARepository:
    def test_a_commit_branch_or_tag_is_checked_out(self, open_workspace, tmp_path):
        repository = make_repository(tmp_path / "repo")
        run_git(repository, "tag", "v1")
        (repository / "a.txt").write_text("newer\n")
        run_git(repository, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qam", "second")
        work = open_workspace(repo=str(repository), base="v1")
        assert (work.root / "a.txt").read_text() == "old\n"
        assert run_git(work.root, "status", "--porcelain") == ""

    def test_a_commit_that_is_not_there_is_an_error(self, open_workspace, tmp_path):
        with pytest.raises(BotError, match="has no commit v9"):
            open_workspace(repo=str(make_repository(tmp_path / "repo")), base="v9")

    def test_a_repository_that_is_not_there_is_an_error(self, open_workspace, tmp_path):
        with pytest.raises(BotError, match="git clone: .*does not exist"):
            open_workspace(repo=str(tmp_path / "none"))

    def test_the_patch_applies_to_the_base_whatever_was_committed_since(self, open_workspace, tmp_path):
        repository = make_repository(tmp_path / "repo")
        work = open_workspace(repo=str(repository))
        (work.root / "a.txt").write_bytes(b"\xff\xfe\n")
        (work.root / "b.bin").write_bytes(bytes(range(256)))
        (work.root / "x.log").write_text("ignored")
        run_git(work.root, "add", ".")
        run_git(work.root, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "mine")
        patch, problem = work.make_patch()
        assert not problem
        run_git(repository, "apply", "-", input=patch.encode("utf-8", "surrogateescape"))
        assert (repository / "a.txt").read_bytes() == b"\xff\xfe\n"
        assert (repository / "b.bin").read_bytes() == bytes(range(256))
        assert not (repository / "x.log").exists()

    def test_what_a_task_left_in_its_git_folder_does_not_run(self, open_workspace, tmp_path):
        work = open_workspace(repo=str(make_repository(tmp_path / "repo")))
        mark = tmp_path / "ran"
        for key in ("core.fsmonitor", "filter.x.clean", "diff.x.textconv", "diff.external"):
            run_git(work.root, "config", key, f"touch {mark}; cat")
        (work.root / ".gitattributes").write_text("*.txt filter=x diff=x\n")
        nested = work.root / "nested"
        nested.mkdir()
        run_git(nested, "init", "-q")
        run_git(nested, "config", "core.fsmonitor", f"touch {mark}")
        (work.root / "a.txt").write_text("new\n")
        patch, problem = work.make_patch()
        assert "+new\n" in patch
        assert problem == "Not in the patch, as it is a Git repository of its own: nested/"
        assert not mark.exists()

    def test_tasks_share_one_clone_and_do_not_write_to_it(self, open_workspace, tmp_path):
        repository = make_repository(tmp_path / "repo")
        work = open_workspace(repo=str(repository))
        (clone,) = (tmp_path / "clones").glob("*.git")
        before = sorted(path for path in clone.rglob("*"))
        (work.root / "a.txt").write_text("new\n")
        work.make_patch()
        assert sorted(path for path in clone.rglob("*")) == before


def test_a_patch_is_utf_8_and_keeps_the_bytes_of_a_file_that_is_not(open_workspace, tmp_path):
    repository = make_repository(tmp_path / "repo")
    (repository / "latin.txt").write_bytes(b"caf\xe9\n")
    run_git(repository, "add", ".")
    run_git(repository, "-c", "user.name=n", "-c", "user.email=e", "commit", "-qm", "latin")
    work = open_workspace(repo=str(repository))
    (work.root / ".gitattributes").write_text("*.txt diff\n")
    (work.root / "latin.txt").write_bytes(b"caf\xe9 noir\n")
    (work.root / "a.txt").write_text("new é\n")
    (work.root / "with blank.txt").write_bytes(b"\xff\n")
    patch, problem = work.make_patch()
    assert not problem
    assert "+new é\n" in patch
    run_git(repository, "apply", "--index", "-", input=patch.encode())
    for name in ("latin.txt", "a.txt", "with blank.txt"):
        assert (repository / name).read_bytes() == (work.root / name).read_bytes()


def test_what_python_compiled_is_no_change(open_workspace):
    work = open_workspace(files={"a.py": "x = 1\n"})
    (work.root / "__pycache__").mkdir()
    (work.root / "__pycache__" / "a.cpython-311.pyc").write_bytes(b"\0")
    (work.root / "b.pyc").write_bytes(b"\0")
    assert work.make_patch() == ("", "")


def test_changes_that_are_too_large_for_a_patch_are_told(open_workspace):
    work = open_workspace()
    with (work.root / "large").open("wb") as file:
        file.truncate(MAX_CHANGED_BYTES + 1)
    assert work.make_patch() == ("", "The changed files hold 50 MB, so there is no patch.")
