"""No command changes a protected file, whether it exists or not: git's hooks, shell start files, the bot's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from src.security.sandbox.leftovers import Leftovers, pin_folder
from src.security.sandbox.running_files import MAX_FILE_BYTES
from tests.thorough import sample


@pytest.fixture
def repository(workspace: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    (workspace / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n")
    return workspace


def state(folder: Path) -> dict[str, object]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else "")
        for path in sorted(folder.rglob("*"))
        if not path.is_symlink()
    }


ATTACKS_ON_A_REPOSITORY = [
    "echo evil >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "echo evil >>.git/hooks/pre-push",
    "rm -r .git/hooks; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
    "mv .git/hooks .git/old; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
    "rm -r .git/hooks; ln -s ../evil .git/hooks; mkdir evil; echo evil >evil/pre-commit",
    "chmod 777 .git/hooks .git/hooks/pre-push",
    "git config core.fsmonitor 'touch evil'",
    "echo '[core] fsmonitor = touch evil' >>.git/config",
    "cp .git/config new; echo evil >>new; mv -f new .git/config",
    "ln -sf ../evil .git/config; echo evil >evil",
    "ln .git/config other; echo evil >>other",
    "mv .git .old; mkdir -p .git/hooks; cp .old/HEAD .git; echo evil >.git/hooks/pre-commit; echo evil >.git/config",
    "mkdir evil; echo ../evil >.git/commondir",
    "echo evil >.git/config.worktree",
    "sed -i s/true/false/ .git/config",
    'python3 -c \'open(".git/config", "r+").truncate(0)\'',
]


@pytest.mark.thorough
def test_what_git_runs_is_as_it_was(run, repository):
    folder = repository / ".git"
    hooks, config = folder / "hooks", folder / "config"
    before = state(hooks), config.read_bytes(), config.stat().st_mode
    for command in sample(ATTACKS_ON_A_REPOSITORY, 3):
        shown = run(command)
        assert (state(hooks), config.read_bytes(), config.stat().st_mode) == before, (command, shown)
        assert [path for path in (folder, hooks, config) if path.is_symlink()] == [], (command, shown)
        assert [name for name in ("commondir", "config.worktree") if (folder / name).exists()] == [], (command, shown)
        for each in repository.iterdir():  # what the next attack would find in its way
            if each != folder:
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


ATTACKS_ON_NOTHING = [
    "echo evil >.bashrc; echo evil >.zshenv; mkdir .ssh; echo evil >.ssh/config",
    "mkdir -p .config/vllm-bot; echo '{}' >.config/vllm-bot/config.json",
    "mkdir x; ln -s x .config; mkdir x/vllm-bot x/fish; echo '{}' >.config/vllm-bot/config.json",
    "echo '{}' >bot.json",
    "ln -s evil bot.json",
]


def test_what_does_not_exist_yet_does_not_come_into_being(make, workspace):
    run = make(protected=[workspace / "bot.json"])
    for command in ATTACKS_ON_NOTHING:
        shown = run(command)
        for name in (".bashrc", ".zshenv", ".ssh", ".config/vllm-bot", "bot.json"):
            assert not os.path.lexists(workspace / name), (command, shown)
        for each in workspace.iterdir():
            shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()


def test_the_model_reads_which_files_were_restored(run):
    assert run("echo evil >.bashrc") == "[exit code 0; protected, put back as it was: .bashrc]"


def test_the_bots_own_file_is_unchanged(make, workspace):
    (workspace / "bot.json").write_text("{}\n")
    make(protected=[workspace / "bot.json"])("rm -f bot.json; echo evil >bot.json")
    assert (workspace / "bot.json").read_text() == "{}\n"


def test_working_with_git_goes_on(run, repository):
    (repository / "a").write_text("alpha\n")
    as_somebody = "git -c user.name=a -c user.email=a@b.c -c safe.directory='*'"
    shown = run(f"{as_somebody} add a && {as_somebody} commit -qm one && {as_somebody} log --oneline && git status -s")
    assert shown.endswith("one\n[exit code 0]")
    assert run("git checkout -qb other && git branch --show-current").startswith("other\n[exit code 0")


def test_a_linked_worktree_can_be_read_by_git(make, repository, tmp_path, kind):
    from .conftest import PATH, make_runner

    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", str(tmp_path / "linked")], check=True, capture_output=True)
    run = make_runner(kind, tmp_path / "linked", {"PATH": PATH})
    assert run("git log --format=%s") == "one\n[exit code 0]"


# Without a sandbox


@pytest.fixture
def leftovers(workspace: Path, tmp_path: Path) -> Leftovers:
    return Leftovers(workspace, tmp_path / "aside")


def test_it_follows_no_link_out_of_the_workspace(leftovers, workspace):
    other = workspace.parent / "other"
    (other / "hooks").mkdir(parents=True)
    (other / "config").write_text("mine\n")
    leftovers.take([workspace / ".git" / "config", workspace / ".git" / "hooks"])
    (workspace / ".git").symlink_to(other)
    assert leftovers.set_aside() == ["protected, put back as it was: .git"]
    assert (other / "config").read_text() == "mine\n"
    assert (other / "hooks").is_dir()


def test_a_folder_that_became_a_link_is_put_back_and_its_target_untouched(leftovers, workspace):
    other = workspace.parent / "other"
    (workspace / ".config" / "fish").mkdir(parents=True)
    (workspace / ".config" / "fish" / "config.fish").write_text("good\n")
    (other / "fish").mkdir(parents=True)
    (other / "fish" / "new").write_text("mine\n")
    leftovers.take([workspace / ".config" / "fish"])
    (workspace / ".config").rename(workspace / "old")
    (workspace / ".config").symlink_to(other)
    leftovers.set_aside()
    assert (workspace / ".config" / "fish" / "config.fish").read_text() == "good\n"
    assert [each.name for each in (other / "fish").iterdir()] == ["new"]


def test_a_link_that_was_there_is_put_back(leftovers, workspace):
    (workspace / ".git").symlink_to("elsewhere")
    leftovers.take([workspace / ".git", workspace / ".git" / "config"])
    (workspace / ".git").unlink()
    (workspace / ".git").symlink_to("evil")
    leftovers.set_aside()
    assert (workspace / ".git").readlink() == Path("elsewhere")


def test_a_link_of_the_users_own_is_not_looked_behind(leftovers, workspace):
    other = workspace.parent / "other"
    (other / "fish").mkdir(parents=True)
    (workspace / ".config").symlink_to(other)
    leftovers.take([workspace / ".config" / "fish"])
    (workspace / ".config").unlink()
    (workspace / ".config" / "fish").mkdir(parents=True)
    (workspace / ".config" / "fish" / "x").write_text("evil\n")
    assert leftovers.set_aside() == ["protected, put back as it was: .config"]
    assert (workspace / ".config").readlink() == other
    assert list((other / "fish").iterdir()) == []


def test_what_was_not_touched_is_not_spoken_of(leftovers, workspace):
    (workspace / "hooks").mkdir()
    (workspace / "hooks" / "a").write_text("a")
    leftovers.take([workspace / "hooks", workspace / "none"])
    (workspace / "other").write_text("x")
    assert leftovers.set_aside() == []


def test_the_same_size_and_time_do_not_hide_a_change(leftovers, workspace):
    file = workspace / "config"
    file.write_text("good")
    os.utime(file, ns=(0, 0))
    leftovers.take([file])
    file.write_text("evil")
    os.utime(file, ns=(0, 0))
    leftovers.set_aside()
    assert file.read_text() == "good"
    assert file.stat().st_mtime_ns == 0


def test_a_file_too_large_to_be_saved_is_reported(leftovers, workspace):
    file = workspace / "large"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_FILE_BYTES + 1)
    leftovers.take([file])
    file.write_text("evil")
    assert leftovers.set_aside() == [
        "protected, but changed, and could not be put back: large: its content was not saved"
    ]


def test_what_cannot_be_recorded_does_not_count_as_a_command(leftovers, workspace):
    (workspace / "a").mkdir()
    with pytest.raises(OSError, match="File name too long"):
        leftovers.take([workspace / "a" / ("x" * 300)])
    leftovers.take()
    (workspace / ".envrc").write_text("evil\n")
    assert len(leftovers.set_aside()) == 1


HIDING = [
    "ln -s .config .config",
    "mkdir .config; chmod 0 .config",
    "mkdir .config; mkdir .config/fish; chmod 0 .config",
    "ln -s /root/x .a; ln -s locked/x .b; mkdir locked; chmod 0 locked",
    "chmod 555 .",
    "chmod 0 .",
    "mkfifo .exrc .gdbinit",
]


@pytest.mark.thorough
@pytest.mark.parametrize("hide", sample(HIDING, 3))
def test_nothing_keeps_what_runs_by_itself_from_being_set_aside(hide, run, workspace):
    shown = run(f"echo evil >.envrc; mkdir e; echo evil >e/.envrc; chmod 111 e; {hide}")
    assert ".envrc (it runs by itself)" in shown
    assert "e/.envrc (it runs by itself)" in shown
    assert not os.path.lexists(workspace / ".envrc")
    assert not os.path.lexists(workspace / "e" / ".envrc")


def test_what_cannot_be_kept_is_removed(workspace, tmp_path):
    (tmp_path / "aside").write_text("no folder\n")
    leftovers = Leftovers(workspace, tmp_path / "aside")
    leftovers.take()
    (workspace / ".envrc").write_text("evil\n")
    assert leftovers.set_aside() == [
        "set aside, as it would run later by itself: .envrc (it runs by itself, and could not be kept)"
    ]
    assert list(workspace.iterdir()) == []


@pytest.mark.parametrize(("worktree", "stays"), [("../inside", True), ("../../other", False)])
def test_a_worktree_stays_only_where_it_is_in_the_workspace(leftovers, repository, worktree, stays):
    leftovers.take()
    config = repository / ".git" / "config"
    with config.open("a") as file:
        file.write(f"[core]\n\tworktree = {worktree}\n")
    notes = leftovers.set_aside()
    assert (worktree in config.read_text(), notes == []) == (stays, stays)


def test_what_was_set_aside_can_be_put_back(leftovers, workspace):
    leftovers.take()
    (workspace / ".envrc").write_text("wanted\n")
    leftovers.set_aside()
    (item,) = leftovers.take_kept()
    assert (item.path, item.kept.read_text()) == (".envrc", "wanted\n")
    assert not (workspace / ".envrc").exists()
    leftovers.put_back(item)
    assert (workspace / ".envrc").read_text() == "wanted\n"
    assert leftovers.take_kept() == []


def test_of_commands_that_run_at_the_same_time_each_end_undoes_what_was_done_by_then(leftovers, workspace):
    leftovers.take([workspace / ".profile"])
    (workspace / ".envrc").write_text("evil\n")
    leftovers.take()
    assert len(leftovers.set_aside()) == 1
    (workspace / ".envrc").write_text("evil again\n")
    (workspace / ".profile").write_text("evil\n")
    assert [item.path for item in leftovers.take_kept()] == [".envrc", ".profile", ".envrc"]
    assert leftovers.set_aside() == []
    assert list(workspace.iterdir()) == []


def test_what_was_put_back_while_a_command_runs_stays(leftovers, workspace):
    (workspace / ".profile").write_text("mine\n")
    leftovers.take([workspace / ".profile"])
    (workspace / ".envrc").write_text("wanted\n")
    (workspace / ".profile").write_text("wanted\n")
    for item in leftovers.take_kept():
        leftovers.put_back(item)
    assert leftovers.set_aside() == []
    assert {path.name: path.read_text() for path in workspace.iterdir()} == {
        ".envrc": "wanted\n",
        ".profile": "wanted\n",
    }


def test_a_folder_that_became_a_link_leads_nowhere_else(tmp_path):
    for folder in ("top/in", "out"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "tasks.json").write_text(folder)
    top = tmp_path / "top"
    with pin_folder([top], top / "in" / "tasks.json") as place:
        (top / "in").rename(top / "moved")
        (top / "in").symlink_to(tmp_path / "out")
        assert place.read_text() == "top/in"
    with pytest.raises(FileNotFoundError), pin_folder([top], top / "in" / "tasks.json"):
        pass
