"""The parts of the home that commands see: what the user's programs need, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from src.security.sandbox.view import SandboxView, complete_view, list_protected, select_environment
from tests.each import check_rows


def make_folders(home: Path, *names: str) -> None:
    for name in names:
        (home / name).mkdir(parents=True, exist_ok=True)


def list_readable(workspace: Path, home: Path, path: str, **given) -> list[str]:
    """What may be read below the home, relative to it."""
    seen = complete_view(SandboxView(workspace, **given), {"HOME": str(home), "PATH": path})
    return [str(each.relative_to(home)) for each in seen.readable if each.is_relative_to(home)]


SHOWN = [  # folders there are, the one in PATH, and what is shown
    (("tool/bin", "tool/lib"), "tool/bin", ["tool"]),
    (("project/bin", "project/secrets"), "project/bin", ["project/bin"]),
    (("bin", "lib"), "bin", ["bin"]),
    ((".cargo/bin", ".cargo/registry", ".rustup"), ".cargo/bin", [".cargo/bin", ".cargo/registry", ".rustup"]),
    ((".local/bin", ".local/lib", ".local/share/keyrings"), ".local/bin", [".local/bin", ".local/lib"]),
    ((".pyenv/shims", ".pyenv/versions"), ".pyenv/shims", [".pyenv"]),
    (("x",), "", []),
]


@pytest.mark.parametrize(("there", "path", "expected"), SHOWN, ids=[row[1] or "the home itself" for row in SHOWN])
def test_a_folder_of_path_is_shown_with_its_installation(there, path, expected, workspace, home):
    make_folders(home, *there)
    assert list_readable(workspace, home, str(home / path)) == expected


def test_what_holds_the_home_or_the_workspace_is_never_shown(workspace, home):
    environment = {"HOME": str(home), "PATH": f"{home.parent}:{workspace.parent}:/:.:"}
    assert complete_view(SandboxView(workspace), environment).readable == ()


def test_a_virtual_environment_of_the_workspace_shows_its_python_and_nothing_else_does(workspace, home):
    make_folders(home, "python/bin", "python/lib/python3.11", "private/bin")
    (home / "python" / "lib" / "python3.11" / "os.py").touch()
    for folder in ("python", "private"):
        (home / folder / "bin" / "python3").touch()
    make_folders(workspace, ".venv/bin", "venv/bin")
    (workspace / ".venv" / "bin" / "python3").symlink_to(home / "python" / "bin" / "python3")
    (workspace / "venv" / "bin" / "python3").symlink_to(home / "private" / "bin" / "python3")
    assert list_readable(workspace, home, "/usr/bin") == ["python"]


def test_a_git_file_that_leads_to_no_repository_shows_nothing(workspace, home):
    (workspace / ".git").write_text(f"gitdir: {home}/.ssh\n")
    assert list_readable(workspace, home, "/usr/bin") == []


def test_what_the_user_names_is_shown(workspace, home):
    make_folders(home, "data")
    assert list_readable(workspace, home, "/usr/bin", readable=(home / "data", home / "missing")) == ["data"]


UNREADABLE = ["/" + "x" * 300, "/a\0b", "~nobody-has-this-name/x"]


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_cannot_even_be_looked_at_is_not_there(name, workspace, home):
    environment = {"HOME": name, "PATH": f"{home}/bin:{name}", "VIRTUAL_ENV": name}
    make_folders(home, "bin")
    assert complete_view(SandboxView(workspace, readable=(Path(name),)), environment).readable == (home / "bin",)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter every folder")
def test_a_folder_of_path_that_may_not_be_entered_is_left_out(workspace, home):
    make_folders(home, "closed/bin", "bin")
    (home / "closed").chmod(0)
    try:
        assert list_readable(workspace, home, f"{home}/closed/bin:{home}/closed:{home}/bin") == ["bin", "closed"]
    finally:
        (home / "closed").chmod(0o700)


def test_where_the_home_is_the_workspace_what_a_login_runs_is_guarded(home):
    make_folders(home, ".git")
    own = SandboxView(home, protected=(home / "bot.json", Path("/etc/bot.json")))
    seen = complete_view(own, {"HOME": str(home), "PATH": "/usr/bin"})
    names = {str(each.relative_to(home)) for each in list_protected(seen)}
    assert {".bashrc", ".ssh", ".config/systemd", ".git", ".git/hooks", ".git/config", "bot.json"} <= names


def test_start_files_of_a_home_below_the_workspace_are_protected(tmp_path):
    (tmp_path / "home").mkdir()
    names = {str(each) for each in list_protected(SandboxView(tmp_path, home=tmp_path / "home"))}
    assert {f"{tmp_path}/.bashrc", f"{tmp_path}/home/.bashrc"} <= names


SECRET_VALUES = {
    "DATABASE_URL": "postgres://me:hunter22@db/x",
    "GITHUB_PAT": "ghp_" + "a1" * 18,
    "SENTRY_DSN": "https://" + "0a" * 16 + "@o1.ingest.sentry.io/1",
    "OTHER_NAME": "the-key-in-use",
    "LC_KEY": "prefix-the-key-in-use",
    "DB_PASSWORD": "hunter22",
}


def test_commands_get_what_every_program_needs_and_what_is_named():
    environment = {
        "PATH": "/bin",
        "LANG": "C",
        "LC_ALL": "C",
        "TERM": "xterm",
        "MINE": "1",
        "OTHER": "2",
        "CDPATH": "/",
    }
    kept = select_environment({**environment, "SSH_AUTH_SOCK": "/x", "BASH_ENV": "/x"}, ["MINE"])
    assert kept == {"PATH": "/bin", "LANG": "C", "LC_ALL": "C", "TERM": "xterm", "MINE": "1"}


@check_rows("name", SECRET_VALUES)
def test_no_secret_reaches_them_even_if_it_is_named(name):
    assert select_environment(SECRET_VALUES, [name], ["the-key-in-use", ""]) == {}
