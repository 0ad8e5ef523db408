"""A command does no more than its access permits, in every kind of sandbox."""

from __future__ import annotations

import socket

import pytest

LISTENER = "exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected"


def test_a_command_that_reads_changes_nothing_in_the_workspace(run, workspace):
    (workspace / "a.txt").write_text("alpha\n")
    assert "alpha" in run("cat a.txt", access="read")
    run(
        "echo x > b.txt; echo x >> a.txt; rm -f a.txt; mkdir c; chmod 777 a.txt; touch -d 2000-01-01 a.txt; mv a.txt d",
        access="read",
    )
    assert [(each.name, each.read_text()) for each in workspace.iterdir()] == [("a.txt", "alpha\n")]
    assert (workspace / "a.txt").stat().st_mode & 0o777 != 0o777
    assert (workspace / "a.txt").stat().st_mtime > 1_000_000_000


def test_a_command_that_reads_may_write_to_its_caches_and_temporary_files(run):
    shown = run(
        'echo x > "$RUFF_CACHE_DIR" && echo y > "$TMPDIR/y" && cat "$RUFF_CACHE_DIR" "$TMPDIR/y"', access="read"
    )
    assert shown == "x\ny\n[exit code 0]"


def test_the_caches_are_kept_from_one_sandbox_to_the_next(make, tmp_path):
    for text in ("1", "2"):
        make(cache=tmp_path / "cache")(f'echo {text} >> "$MYPY_CACHE_DIR"', access="read")
    assert (tmp_path / "cache" / "mypy").read_text() == "1\n2\n"


def test_a_command_that_writes_has_the_caches_of_the_workspace(run):
    assert run("env | grep -c CACHE", access="write") == "0\n[exit code 1]"


def test_copies_keep_their_modes_and_times(run):
    shown = run("touch -d 2001-01-01 a && chmod 640 a && cp -p a b && stat -c %a b && date -r b +%Y")
    assert shown == "640\n2001\n[exit code 0]"


@pytest.mark.parametrize(("access", "is_connected"), [("read", False), ("write", False), ("network", True)])
def test_only_a_command_with_access_network_reaches_a_server(run, access, is_connected):
    with socket.create_server(("127.0.0.1", 0)) as server:
        shown = run(LISTENER.format(port=server.getsockname()[1]), access=access)
    assert ("connected" in shown) is is_connected


def test_a_protected_file_stays_as_it_is_whatever_the_access(run, workspace):
    (workspace / ".git").mkdir()
    (workspace / ".git" / "config").write_text("[core]\n")
    for access in ("read", "write", "network"):
        run("echo x >> .git/config; mkdir -p .git/hooks; echo x > .git/hooks/post-checkout", access=access)
    assert (workspace / ".git" / "config").read_text() == "[core]\n"
    assert not (workspace / ".git" / "hooks" / "post-checkout").exists()


def test_a_commit_has_the_users_name_and_nothing_else_of_the_users_configuration(make, home, workspace):
    (home / ".gitconfig").write_text('[user]\n\tname = "A B"\n\temail = a@b.c\n[core]\n\tfsmonitor = touch ran\n')
    run = make()
    shown = run("git init -q && git commit -q --allow-empty -m x && git log --format='%an <%ae>'; cat ~/.gitconfig")
    assert shown.startswith('A B <a@b.c>\n[user]\n\tname = "A B"\n\temail = "a@b.c"\n[exit code 0')
    assert not (workspace / "ran").exists()
