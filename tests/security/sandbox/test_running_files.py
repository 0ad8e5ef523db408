"""What a command leaves in the workspace does not run when its owner next uses git, a shell or an editor."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from src.security.sandbox.running_files import is_running_by_itself
from tests.thorough import only_thorough, sample

INIT = "git init -q {}; "
EVIL = "fsmonitor = touch {top}/pwned; false"
REPOSITORIES = {
    "a repository": INIT.format("evil") + "git -C evil config core.fsmonitor '{evil}'",
    "a linked folder": INIT.format("gd") + "mkdir evil; mv gd/.git store; echo 'gitdir: ../store' >evil/.git;"
    " git config -f store/config core.fsmonitor '{evil}'",
    "deep below": "mkdir -p $(seq -s/ 40); cd $(seq -s/ 40); " + INIT.format("evil")
    + "git -C evil config core.fsmonitor '{evil}'; mv evil {top}/evil",
    "a bare repository": "git init -q --bare evil; git -C evil config core.fsmonitor '{evil}'",
    "a hook": INIT.format("evil") + "printf '#!/bin/sh\\ntouch {top}/pwned\\n' >evil/.git/hooks/post-checkout;"
    " chmod +x evil/.git/hooks/post-checkout",
    "a path of hooks": INIT.format("evil") + "mkdir evil/h; printf '#!/bin/sh\\ntouch {top}/pwned\\n' >evil/h/post-checkout;"
    " chmod +x evil/h/post-checkout; git -C evil config core.hooksPath h",
    "a filter": INIT.format("evil") + "git -C evil config filter.x.smudge '{evil}'; git -C evil config filter.x.clean '{evil}'",
    "an alias": INIT.format("evil") + "git -C evil config alias.x '!{evil}'",
    "an include": INIT.format("evil") + "printf '[core]\\nfsmonitor = {evil}\\n' >evil/inc;"
    " git -C evil config include.path ../inc",
    "settings of a worktree": INIT.format("evil") + "git -C evil config extensions.worktreeConfig true;"
    " printf '[core]\\nfsmonitor = {evil}\\n' >evil/.git/config.worktree",
    "an unreadable folder": INIT.format("evil") + "git -C evil config core.fsmonitor '{evil}'; chmod 111 evil",
    "hooks that cannot be listed": INIT.format("evil") + "printf '#!/bin/sh\\ntouch {top}/pwned\\n' >evil/.git/hooks/post-checkout;"
    " chmod +x evil/.git/hooks/post-checkout; chmod 311 evil/.git/hooks",
    "a name that ends in a blank": "git init -q --separate-git-dir '.git/gd ' evil; cp -r '.git/gd ' .git/gd;"
    " git -C evil config core.fsmonitor '{evil}'",
    "a name that is no text": "git init -q --separate-git-dir .git/gd evil; cp -r .git/gd $'.git/gd\\xef\\xbf\\xbd'; mv .git/gd $'.git/gd\\xff';"
    " printf 'gitdir: ../.git/gd\\xff\\n' >evil/.git; git -C evil config core.fsmonitor '{evil}'",
    "a line that goes on behind a carriage return": INIT.format("evil")
    + "printf '[core]\\nwhitespace = x \\\\\\r\\n[advice]\\nfsmonitor = {evil}\\n' >>evil/.git/config",
    "beside a name with a NUL": INIT.format("evil") + "git -C evil config core.fsmonitor '{evil}'; mkdir n; printf 'gitdir: a\\0' >n/.git",
    "beside settings with a NUL": INIT.format("evil") + "git -C evil config core.fsmonitor '{evil}'; " + INIT.format("n")
    + "printf '[core]\\nworktree = a\\0\\nhooksPath = b\\0' >>n/.git/config",
    "beside objects that are a file": INIT.format("evil") + "git -C evil config core.fsmonitor '{evil}'; " + INIT.format("n")
    + "rm -r n/.git/objects; touch n/.git/objects",
    "behind many folders": "for i in $(seq 300); do mkdir -p n$i/a/b/c; done; " + INIT.format("evil")
    + "git -C evil config core.fsmonitor '{evil}'",
}  # fmt: skip


def use_git(top: Path) -> None:
    for words in (["status"], ["x"], ["-C", "evil", "status"], ["-C", "evil", "x"], ["-C", "evil", "checkout", "-qb", "z"],
                  ["-C", "evil", "add", "."], ["add", "."], ["diff"]):  # fmt: skip
        subprocess.run(["git", *words], cwd=top, capture_output=True, check=False)


@pytest.fixture
def top(workspace: Path) -> Path:
    subprocess.run(["git", "init", "-q", str(workspace)], check=True)
    return workspace


@pytest.mark.thorough
def test_a_repository_that_a_command_made_runs_nothing(run, top):
    for name, command in sample([*REPOSITORIES.items()], 4):
        evil = f"touch {top}/pwned; false"
        shown = run(command.replace("{evil}", evil).replace("{top}", str(top)))
        assert "set aside, as it would run later by itself: " in shown, name
        (top / "pwned").unlink(missing_ok=True)
        use_git(top)
        assert not (top / "pwned").exists(), name
        for each in top.iterdir():
            if each.name != ".git":
                shutil.rmtree(each)


@only_thorough
def test_a_gitlink_in_the_index_leads_to_nothing_that_runs(run, top):
    run(
        f"git init -q evil; git -C evil -c user.name=a -c user.email=b commit -q --allow-empty -m x;"
        f" git add evil; git -C evil config core.fsmonitor 'touch {top}/pwned; false'"
    )
    use_git(top)
    assert not (top / "pwned").exists()


@only_thorough
def test_what_a_command_leaves_among_many_submodules_does_not_run(run, top):
    modules = top / ".git" / "modules"
    shown = run(
        "mkdir -p .git/modules; cd .git/modules; for i in $(seq 150); do mkdir m$i; cp ../HEAD m$i; done;"
        " for i in $(seq 150); do mkdir m$i/hooks; echo evil >m$i/hooks/post-checkout; done"
    )
    assert ".git/modules/m150/hooks/post-checkout (a hook)" in shown
    assert not [*modules.rglob("post-checkout")]


@pytest.mark.thorough
@pytest.mark.parametrize("name", sample(["refs", "hooks", "a/logs"], 3))
def test_a_submodule_with_the_name_of_a_folder_of_git_runs_nothing(name, run, top):
    run(f"git init -q m; printf 'touch pwned' >m/.git/hooks/post-checkout; mkdir -p .git/modules/{name};"
        f" mv m/.git/* .git/modules/{name}")  # fmt: skip
    assert not (top / ".git" / "modules" / name / "hooks" / "post-checkout").exists()


def test_a_worktree_of_the_workspace_is_changed_and_removed_by_commands(run, top):
    run("git -c user.name=a -c user.email=b commit -q --allow-empty -m one; git worktree add -q wt")
    assert run("git -C wt checkout -q -b other && git worktree remove wt") == "[exit code 0]"
    assert not (top / "wt").exists()
    assert not (top / ".git" / "worktrees").exists()


def test_a_plain_repository_stays_as_it_is(run, workspace):
    commit = "-c user.name=a -c user.email=b commit -q --allow-empty -m one"
    shown = run(
        f"git init -q; git {commit} && git init -q sub && git -C sub {commit} && git -C sub remote add o https://x/y.git"
        " && git clone -q sub copy && git -C copy log --format=%s && git -C sub worktree add -q ../wt"
    )
    assert shown == "one\n[exit code 0]"
    assert (workspace / "copy" / ".git" / "config").exists()
    assert run("git -C wt log --format=%s; git log --format=%s") == "one\none\n[exit code 0]"


def test_git_writes_through_no_link_that_a_command_left(run, top):
    outside = top.parent / "mine"
    outside.write_text("mine\n")
    names = ("FETCH_HEAD", "COMMIT_EDITMSG", "logs/HEAD", "logs/refs/heads", "objects/ff", "modules/m")
    links = " ".join(f".git/{name}" for name in names)
    shown = run(f"mkdir -p .git/logs/refs .git/modules; for link in {links}; do ln -s {outside} $link; done")
    assert [name for name in names if f".git/{name} (a link)" not in shown] == []
    commit = ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "evil"]
    for words in (commit, ["fetch", "-q", "."]):
        subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)
    assert outside.read_text() == "mine\n"


RUNNING = [".perldb", ".vscode/c_cpp_properties.json", "mise/config.toml", ".vibe/config.toml", ".cursor/worktrees.json",
           ".gemini/extensions/a/gemini-extension.json", ".lefthook/pre-commit/check.sh", ".lefthook-local/pre-push/a",
           ".envrc", "a/.envrc", ".vscode/tasks.json", "b/.vscode/tasks.json", ".idea/workspace.xml",
           ".idea/runConfigurations/x.xml", "x.code-workspace", ".exrc", ".gdbinit", "mise.toml",
           ".idea/watcherTasks.xml", ".cursor/mcp.json", ".helix/languages.toml", "sub/.husky/pre-commit",
           ".husky/_/h", ".devcontainer.json", ".pre-commit-config.yaml", "lefthook.yml",
           "sub/.claude/settings.json", ".mcp.json", ".hg/hgrc", ".kiro/settings/mcp.json", ".windsurf/hooks.json",
           ".roo/mcp.json", ".theia/tasks.json", ".continue/mcpServers/x.yaml", ".zed/settings.json",
           ".an_editor_of_tomorrow/launch.json", ".devcontainer/a/devcontainer.json", ".run/x.run.xml",
           ".jj/repo/config.toml", ".envrc.local", ".Rprofile", ".Renviron", ".RData", ".octaverc", ".erlang",
           ".vim/coc-settings.json", "rust-analyzer.toml", "sub/.hg/sharedpath", "sub/.jj/repo", "_darcs/prefs/defaults",
           ".vs/ws/v17/.suo", "jupyter_server_config.py"]  # fmt: skip


def test_files_that_a_shell_or_an_editor_runs_are_set_aside(run, workspace):
    (workspace / "a").mkdir()
    shown = run(f"for name in {' '.join(RUNNING)}; do mkdir -p $(dirname $name); echo evil >$name; done")
    assert [name for name in RUNNING if f"{name} (it runs by itself)" not in shown] == []
    assert [name for name in RUNNING if (workspace / name).exists() or not is_running_by_itself(name)] == []


@only_thorough
def test_the_model_reads_which_file_was_set_aside(run):
    assert run("echo evil >.envrc") == (
        "[exit code 0; set aside, as it would run later by itself: .envrc (it runs by itself)]"
    )


def test_one_that_was_there_comes_back_as_it_was(run, workspace):
    (workspace / ".envrc").write_text("mine\n")
    (workspace / ".envrc").chmod(0o640)
    run("echo evil >>.envrc; chmod 777 .envrc")
    assert (workspace / ".envrc").read_text() == "mine\n"
    assert (workspace / ".envrc").stat().st_mode & 0o777 == 0o640
    assert run("rm .envrc; ls -A") == "[exit code 0]"


@only_thorough
def test_a_folder_of_settings_that_becomes_a_link_is_set_aside(run, workspace):
    run("mkdir x; echo evil >x/tasks.json; ln -s x .vscode")
    assert not (workspace / ".vscode").is_symlink()


@only_thorough
def test_what_was_in_it_before_comes_back(run, workspace):
    (workspace / ".vscode").mkdir()
    (workspace / ".vscode" / "tasks.json").write_text("mine\n")
    run("rm -r .vscode; mkdir x; echo evil >x/tasks.json; ln -s x .vscode")
    assert not (workspace / ".vscode").is_symlink()
    assert (workspace / ".vscode" / "tasks.json").read_text() == "mine\n"


def test_a_link_with_a_dot_name_stays_if_it_leads_to_a_file_of_the_workspace(run, workspace):
    assert run("mkdir x; touch README; ln -s README .about") == "[exit code 0]"
    shown = run("ln -s x .some; ln -s none .none; ln -s /etc/hosts .hosts")
    for name in (".some", ".none", ".hosts"):
        assert f"{name} (a link)" in shown
        assert not (workspace / name).is_symlink()


def test_what_runs_behind_a_link_of_the_users_own_is_set_aside(run, workspace):
    (workspace / "x").mkdir()
    (workspace / ".some").symlink_to("x")
    (workspace / "x" / ".loop").symlink_to(".")
    run("echo evil >x/mcp.json")
    assert [each.name for each in (workspace / ".some").iterdir()] == [".loop"]


@only_thorough
def test_a_folder_in_the_settings_of_an_editor_that_becomes_a_link_is_set_aside(run, workspace):
    run("mkdir -p .idea x; echo evil >x/a.xml; ln -s ../x .idea/runConfigurations")
    assert list((workspace / ".idea").iterdir()) == []


def test_the_scripts_of_a_hooks_path_of_the_user_stay_as_they_are(run, top):
    subprocess.run(["git", "-C", str(top), "config", "core.hooksPath", ".husky"], check=True)
    (top / ".husky").mkdir()
    (top / ".husky" / "pre-commit").write_text("mine\n")
    run("echo evil >.husky/pre-commit; echo evil >.husky/pre-push")
    assert (top / ".husky" / "pre-commit").read_text() == "mine\n"
    assert not (top / ".husky" / "pre-push").exists()


def test_what_does_not_run_by_itself_is_not_spoken_of(run):
    assert (
        run("mkdir .vscode .idea; touch .vscode/extensions.json .idea/x.iml HEAD config; echo a >b") == "[exit code 0]"
    )
    assert not is_running_by_itself(".vscode/extensions.json")


@pytest.mark.thorough
@pytest.mark.parametrize("link", sample(["sub/.git/modules", "sub/.git/rebase-merge", ".idea/runConfigurations"], 2))
def test_nothing_outside_is_set_aside_through_a_link(link, run, workspace):
    outside = workspace.parent / "mine"
    outside.mkdir()
    for name in ("config", "HEAD", "git-rebase-todo", "x.xml"):
        (outside / name).write_text("exec mine\n")
    run(f"git init -q sub; mkdir -p {Path(link).parent}; ln -s {outside} {link}")
    assert sorted(each.name for each in outside.iterdir()) == ["HEAD", "config", "git-rebase-todo", "x.xml"]
    assert (outside / "config").read_text() == "exec mine\n"


@pytest.mark.thorough
@pytest.mark.parametrize("value", sample([".githooks", "{top}/.githooks"], 2))
def test_the_scripts_of_a_hooks_path_of_every_repository_stay_as_they_are(value, make, home, top):
    (home / ".gitconfig").write_text(f"[core]\n\thooksPath = {value.format(top=top)}\n")
    (top / ".githooks").mkdir()
    (top / ".githooks" / "pre-commit").write_text("mine\n")
    make()("echo evil >.githooks/pre-commit; echo evil >.githooks/pre-push")
    assert (top / ".githooks" / "pre-commit").read_text() == "mine\n"
    assert not (top / ".githooks" / "pre-push").exists()
