"""The command line of bwrap: what is mounted, and in which order. It runs without bubblewrap."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.errors import ToolError
from src.security.sandbox.bubblewrap import BubblewrapSandbox, Namespace
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.view import MAX_UNREADABLE, SandboxView
from tests.each import check_rows

from .conftest import PATH, make_runner


def make_sandbox(view: SandboxView) -> BubblewrapSandbox:
    return BubblewrapSandbox("bwrap", "user", view, ResourceLimits(), {})


def list_mounts(workspace: Path, protected: list[Path], **view) -> list[tuple[str, str]]:
    """The mounts at and below the workspace, by their option, in order."""
    words = make_sandbox(SandboxView(workspace, **view)).build_words("write", protected)
    pairs = [(option, path) for option, path in pairwise(words) if option in ("--bind", "--ro-bind", "--tmpfs")]
    return [
        (option, str(Path(path).relative_to(workspace)))
        for option, path in pairs
        if Path(path).is_relative_to(workspace)
    ]


def test_a_protected_file_is_read_only_and_the_folders_to_it_cannot_be_moved(tmp_path):
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    assert list_mounts(tmp_path, [tmp_path / ".git" / "hooks", tmp_path / ".git" / "config"]) == [
        ("--bind", "."),
        ("--bind", ".git"),
        ("--ro-bind", ".git/hooks"),
    ]


def test_a_folder_that_is_protected_and_on_the_way_to_another_stays_writable(tmp_path):
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    assert list_mounts(tmp_path, [tmp_path / ".git", tmp_path / ".git" / "hooks"]) == [
        ("--bind", "."),
        ("--bind", ".git"),
        ("--ro-bind", ".git/hooks"),
    ]


def test_nothing_is_mounted_over_a_link(tmp_path):
    (tmp_path / ".git").symlink_to("elsewhere")
    assert list_mounts(tmp_path, [tmp_path / ".git", tmp_path / ".git" / "hooks"]) == [("--bind", ".")]


def test_a_folder_of_the_bots_own_is_covered_by_an_empty_one(tmp_path):
    (tmp_path / "state").mkdir()
    assert ("--tmpfs", "state") in list_mounts(tmp_path, [], hidden=(tmp_path / "state",))


def test_the_network_and_the_home_are_the_sandboxs_own(tmp_path):
    view = SandboxView(tmp_path, home=Path("/home/user"))
    sandbox = make_sandbox(view)
    words = sandbox.build_words("write")
    assert "--unshare-net" in words
    assert words[words.index(str(sandbox.scratch / "home")) + 1] == "/home/user"
    assert "--unshare-net" not in make_sandbox(replace(view, network=True)).build_words("write")


@check_rows("info", ["", "{}", "[]", '{"child-pid": "x"}', '{"child-pid": 999999999}'])
def test_where_no_process_was_started_there_is_nothing_to_wait_for(info):
    wait_for_namespace(info)


def test_a_process_that_has_ended_is_not_waited_for():
    with subprocess.Popen(["true"]) as first:
        os.waitid(os.P_PID, first.pid, os.WEXITED | os.WNOWAIT)
        wait_for_namespace(json.dumps({"child-pid": first.pid}))
        assert first.wait() == 0


def test_a_process_that_outlives_bwrap_is_killed():
    with subprocess.Popen(["sleep", "3600"]) as first:
        wait_for_namespace(json.dumps({"child-pid": first.pid}))
        assert first.wait() == -signal.SIGKILL


def wait_for_namespace(info: str) -> None:
    """Wait for the end of a namespace of which bwrap told this."""
    namespace = Namespace()
    os.write(namespace.info_fd, info.encode())
    namespace.wait_for_end()


def test_files_that_a_rule_denies_to_read_cannot_be_read(workspace, home):
    def is_unreadable(path: str) -> bool:
        return path == "private/" or path.endswith(".env")

    environment = {"PATH": PATH, "HOME": str(home)}
    run = make_runner("bubblewrap", workspace, environment, is_unreadable=is_unreadable)
    (workspace / "private").mkdir()
    (workspace / "sub").mkdir()
    (workspace / "seen").write_text("seen\n")
    for name in (".env", "sub/.env", "private/a"):
        (workspace / name).write_text("CANARY\n")
    (workspace / "link").symlink_to(".env")
    for access in ("read", "write"):
        lines = (
            "cat .env link sub/.env private/a; grep -r . .; mv .env x; cp .env y; ln .env z; chmod 600 .env; ls private"
        )
        shown = run(lines, access=access)
        assert "CANARY" not in shown
        assert "seen" in shown
    assert (workspace / ".env").read_text() == "CANARY\n"


def test_a_folder_of_such_a_file_keeps_its_name(workspace, home):
    environment = {"PATH": PATH, "HOME": str(home)}
    run = make_runner("bubblewrap", workspace, environment, is_unreadable=lambda name: name == "a/b/secret")
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "secret").write_text("CANARY\n")
    run("mv a/b a/c; mv a d", access="write")
    assert "CANARY" not in run("cat */*/secret")


def test_too_many_files_to_hide_are_refused(workspace, home):
    environment = {"PATH": PATH, "HOME": str(home)}
    run = make_runner("bubblewrap", workspace, environment, is_unreadable=lambda name: ".env" in name)
    for number in range(MAX_UNREADABLE + 1):
        (workspace / f"{number}.env").touch()
    with pytest.raises(ToolError, match="name their folder"):
        run("true")
