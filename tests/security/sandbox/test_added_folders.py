"""Commands use a folder that is added to the workspace like the workspace, and nothing beside it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.thorough import only_thorough, sample

from .conftest import Run


@pytest.fixture
def added(tmp_path: Path) -> Path:
    for name in ("lib", "library"):
        (tmp_path / "other" / name).mkdir(parents=True)
        (tmp_path / "other" / name / "a.txt").write_text("CANARY\n" if name == "library" else "mine\n")
    return tmp_path / "other" / "lib"


@pytest.fixture
def run(make: Callable[..., Run], added: Path) -> Run:
    return make(added=(added,))


def test_they_read_it_and_change_it_with_their_access(run, added):
    assert "mine" in run(f"cat {added}/a.txt", access="read")
    assert "[exit code 0]" not in run(f"echo x > {added}/b.txt", access="read")
    assert "[exit code 0]" in run(f"echo x > {added}/b.txt && mkdir {added}/new && rm {added}/a.txt")
    assert sorted(path.name for path in added.iterdir()) == ["b.txt", "new"]


@pytest.mark.parametrize("access", ["read", "write"])
def test_nothing_beside_it_is_reached(run, added, access):
    run(f"ln -sf ../library/a.txt {added}/link")
    paths = (f"{added}rary/a.txt", f"{added}/../library/a.txt", f"{added}/link")
    assert "CANARY" not in run("\n".join(f"cat {path}; echo evil > {path}" for path in paths), access=access)
    assert (added.parent / "library" / "a.txt").read_text() == "CANARY\n"


ATTACKS = [
    "echo evil >.git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
    "rm -r .git/hooks; mkdir .git/hooks; echo evil >.git/hooks/pre-commit",
    "mv .git/hooks .git/old; ln -s ../evil .git/hooks; mkdir evil; echo evil >evil/pre-commit",
    "git config core.fsmonitor 'touch evil'",
    "echo '[core] fsmonitor = touch evil' >>.git/config",
    "mv .git .old; mkdir -p .git/hooks; cp .old/HEAD .git; echo evil >.git/hooks/pre-commit",
    "echo evil >.git/config.worktree",
]


@pytest.mark.thorough
@pytest.mark.parametrize("attack", sample(ATTACKS, 3))
def test_what_git_runs_there_is_as_it_was(run, added, attack):
    subprocess.run(["git", "init", "-q", str(added)], check=True)
    config = (added / ".git" / "config").read_text()
    run(f"cd {added} && {{ {attack}; }}")
    assert (added / ".git" / "config").read_text() == config
    assert not (added / ".git" / "hooks").is_symlink()
    assert not (added / ".git" / "hooks" / "pre-commit").exists()
    assert not (added / ".git" / "config.worktree").exists()


def test_what_would_run_there_later_by_itself_is_set_aside(run, added):
    names = [".envrc", ".vscode/tasks.json", ".bashrc", "sub/.husky/pre-commit"]
    shown = run("\n".join(f"mkdir -p $(dirname {added}/{name}) && echo evil > {added}/{name}" for name in names))
    assert [name for name in names if (added / name).exists() or name.partition("/")[0] not in shown] == [], shown


@pytest.mark.parametrize("is_repository_added", [True, False])
def test_a_hook_in_one_folder_of_the_repository_in_the_other_is_set_aside(make, workspace, added, is_repository_added):
    repository, hooks = (added, workspace) if is_repository_added else (workspace, added)
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    subprocess.run(["git", "-C", str(repository), "config", "core.hooksPath", f"{hooks}/hooks"], check=True)
    run = make(added=(added,))
    shown = run(f"mkdir -p {hooks}/hooks && echo evil > {hooks}/hooks/pre-commit")
    assert not (hooks / "hooks" / "pre-commit").exists(), shown


def test_a_link_between_them_hides_nothing_that_runs(run, workspace, added):
    (added / "conf").mkdir()
    (workspace / ".vscode").symlink_to(added / "conf")
    shown = run(f"echo evil > {added}/conf/tasks.json")
    assert not (added / "conf" / "tasks.json").exists(), shown


def test_a_repository_that_points_into_the_other_folder_is_set_aside(run, workspace, added):
    """git in the workspace would obey the settings of a folder that a command has made in the other."""
    run(
        f"git init -q --bare {added}/bare && git -C {added}/bare config core.fsmonitor 'touch evil'; "
        f"echo 'gitdir: {added}/bare' > .git"
    )
    shown = subprocess.run(["git", "status"], cwd=workspace, capture_output=True, text=True, check=False)
    assert not list(workspace.rglob("evil")), shown
    config = added / "bare" / "config"
    assert not config.exists() or "fsmonitor" not in config.read_text()


def test_a_rule_hides_files_there_too(make, kind, added):
    if kind != "bubblewrap":
        pytest.skip("only bubblewrap hides files")
    (added / "secrets").mkdir()
    (added / "secrets" / "key").write_text("CANARY\n")
    run = make(added=(added,), is_unreadable=lambda place: place.startswith(f"{added}/secrets"))
    assert "CANARY" not in run(f"cat {added}/secrets/key", access="read")
    assert "CANARY" not in run(f"mv {added}/secrets {added}/x; cat {added}/*/key")


@only_thorough
def test_it_cannot_be_replaced_by_a_link(run, added):
    run(f"rm -rf {added}; ln -s {added}rary {added}; cat {added}/a.txt")
    assert not added.is_symlink()
