"""Which sandbox is chosen: a kind counts only after a trial command ran in it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from src.security.sandbox.choose import choose
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.view import SandboxView, complete_view
from src.tools import REGISTRY, ToolContext
from src.types.messages import ToolCall

from .conftest import PATH, make_runner


def choose_kind(workspace: Path, wanted: str = "auto", kinds: tuple[str, ...] = (), path: str = PATH):
    environment = {"PATH": path}
    return choose(wanted, complete_view(SandboxView(workspace), environment), ResourceLimits(), environment, kinds)


def make_bare_runner(workspace: Path, environment: dict[str, str]):
    """What runs a command in no sandbox."""
    made = choose("off", complete_view(SandboxView(workspace), environment), ResourceLimits(), environment)
    context = ToolContext(workspace, environment=environment).rewire(sandbox=made.sandbox)
    return lambda command: str(REGISTRY.run(ToolCall("1", "exec", {"command": command}), context).value)


@pytest.fixture
def of_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, str]]:
    """The folder of temporary files as the workspace."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path.resolve(), {"PATH": PATH}


@pytest.fixture
def broken(tmp_path: Path) -> str:
    """A PATH with a bwrap that cannot make namespaces."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (folder / "bwrap").chmod(0o755)
    return f"{folder}{os.pathsep}{PATH}"


@pytest.fixture
def useless(tmp_path: Path) -> str:
    """A PATH with a bwrap that runs the command, and contains nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").write_text('#!/bin/bash\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    (folder / "bwrap").chmod(0o755)
    return f"{folder}{os.pathsep}{PATH}"


def test_without_a_working_sandbox_commands_run_uncontained_with_a_reason(workspace, broken):
    made = choose_kind(workspace, kinds=("bubblewrap",), path=broken)
    assert made.sandbox.kind == "none"
    assert made.warning == (
        "Sandbox: none works here: commands can do what you can do "
        "(bubblewrap: bwrap: No permissions to create new namespace)"
    )


def test_one_that_does_not_contain_is_not_believed(workspace, useless):
    assert choose_kind(workspace, kinds=("bubblewrap",), path=useless).sandbox.kind == "none"


def test_where_none_is_installed_that_is_said(workspace):
    assert "bubblewrap: not installed" in choose_kind(workspace, kinds=("bubblewrap",), path="/nowhere").warning


def test_a_bwrap_of_the_workspace_is_not_trusted(workspace):
    (workspace / "bwrap").write_text("#!/bin/sh\nexit 42\n")
    (workspace / "bwrap").chmod(0o755)
    assert "not installed" in choose_kind(workspace, kinds=("bubblewrap",), path=str(workspace)).warning


def test_where_one_is_required_and_none_works_nothing_is_run(workspace, broken):
    made = choose_kind(workspace, "required", ("bubblewrap",), broken)
    context = ToolContext(workspace).rewire(sandbox=made.sandbox)
    result = REGISTRY.run(ToolCall("1", "exec", {"command": "touch ran"}), context)
    assert result.kind == "error"
    assert "security.sandbox is required" in str(result.value)
    assert not (workspace / "ran").exists()
    assert made.warning.startswith("Sandbox: none works here: commands are not run")


def test_the_next_one_is_taken_where_the_first_does_not_work(workspace, broken):
    made = choose_kind(workspace, kinds=("bubblewrap", "landlock"), path=broken)
    assert made.sandbox.kind in ("landlock", "none")
    assert len(made.tried) == (1 if made.sandbox.kind == "landlock" else 2)


def test_who_wants_none_gets_none_and_is_not_warned(workspace):
    made = choose_kind(workspace, "off", ("bubblewrap", "landlock"))
    assert (made.sandbox.kind, made.warning) == ("off", "")


def test_one_works_in_a_folder_that_the_user_may_not_write(workspace, make):
    workspace.chmod(0o555)
    try:
        assert make()("pwd -P") == f"{workspace}\n[exit code 0]"
    finally:
        workspace.chmod(0o755)


def test_one_works_where_the_workspace_holds_the_temporary_files(kind, of_temporary_files):
    workspace, environment = of_temporary_files
    assert make_runner(kind, workspace, environment)("echo x") == "x\n[exit code 0]"


def test_trying_leaves_nothing_in_the_workspace(workspace):
    choose_kind(workspace, kinds=("bubblewrap", "landlock"))
    assert list(workspace.iterdir()) == []


def test_no_sandbox_contains_a_workspace_that_is_everything():
    made = choose_kind(Path("/"), kinds=("bubblewrap", "landlock"))
    assert made.sandbox.kind == "none"
    assert "may change all of /" in made.warning
    assert choose_kind(Path("/proc/self"), "required", kinds=("landlock",)).sandbox.kind == "refused"
