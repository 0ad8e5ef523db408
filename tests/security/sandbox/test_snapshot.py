"""No command changes a protected file, whether it exists or not: git's hooks, shell start files, the bot's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from src.security.sandbox.snapshot import MAX_SAVED_BYTES, Snapshot


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


@pytest.mark.parametrize("command", ATTACKS_ON_A_REPOSITORY)
def test_what_git_runs_is_as_it_was(command, run, repository):
    kept = [repository / ".git" / "hooks", repository / ".git" / "config"]
    before = [state(kept[0]), kept[1].read_bytes(), kept[1].stat().st_mode]
    run(command)
    assert [state(kept[0]), kept[1].read_bytes(), kept[1].stat().st_mode] == before
    assert not kept[0].is_symlink()
    assert not (repository / ".git").is_symlink()
    assert not (repository / ".git" / "commondir").exists()
    assert not (repository / ".git" / "config.worktree").exists()


ATTACKS_ON_NOTHING = [
    "echo evil >.bashrc; echo evil >.zshenv; mkdir .ssh; echo evil >.ssh/config",
    "mkdir -p .config/vllm-bot; echo '{}' >.config/vllm-bot/config.json",
    "mkdir x; ln -s x .config; mkdir x/vllm-bot x/fish; echo '{}' >.config/vllm-bot/config.json",
    "echo '{}' >bot.json",
    "ln -s evil bot.json",
]


@pytest.mark.parametrize("command", ATTACKS_ON_NOTHING)
def test_what_does_not_exist_yet_does_not_come_into_being(command, make, workspace):
    make(protected=[workspace / "bot.json"])(command)
    for name in (".bashrc", ".zshenv", ".ssh", ".config/vllm-bot", "bot.json"):
        assert not (workspace / name).exists()
        assert not (workspace / name).is_symlink()


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


# The snapshot alone, without a sandbox


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture
def snapshot(workspace: Path) -> Snapshot:
    return Snapshot(workspace)


def test_it_follows_no_link_out_of_the_workspace(snapshot, workspace):
    other = workspace.parent / "other"
    (other / "hooks").mkdir(parents=True)
    (other / "config").write_text("mine\n")
    snapshot.take([workspace / ".git" / "config", workspace / ".git" / "hooks"])
    (workspace / ".git").symlink_to(other)
    assert snapshot.restore(remove).restored == (".git",)
    assert (other / "config").read_text() == "mine\n"
    assert (other / "hooks").is_dir()


def test_a_link_that_was_there_is_put_back(snapshot, workspace):
    (workspace / ".git").symlink_to("elsewhere")
    snapshot.take([workspace / ".git", workspace / ".git" / "config"])
    (workspace / ".git").unlink()
    (workspace / ".git").symlink_to("evil")
    snapshot.restore(remove)
    assert (workspace / ".git").readlink() == Path("elsewhere")


def test_what_was_not_touched_is_not_spoken_of(snapshot, workspace):
    (workspace / "hooks").mkdir()
    (workspace / "hooks" / "a").write_text("a")
    snapshot.take([workspace / "hooks", workspace / "none"])
    (workspace / "other").write_text("x")
    assert snapshot.restore(remove) == ((), ())


def test_the_same_size_and_time_do_not_hide_a_change(snapshot, workspace):
    import os

    file = workspace / "config"
    file.write_text("good")
    os.utime(file, ns=(0, 0))
    snapshot.take([file])
    file.write_text("evil")
    os.utime(file, ns=(0, 0))
    snapshot.restore(remove)
    assert file.read_text() == "good"


def test_a_file_too_large_to_be_saved_is_reported(snapshot, workspace):
    file = workspace / "large"
    with file.open("wb") as sparse:
        sparse.truncate(MAX_SAVED_BYTES + 1)
    snapshot.take([file])
    file.write_text("evil")
    assert snapshot.restore(remove) == ((), ("large: its content was not saved",))
