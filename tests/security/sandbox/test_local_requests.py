"""What a rule about a server of this machine allows is run by the user's own programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from src.tools.process.run import run as run_program
from tests.thorough import only_thorough

from .conftest import PATH, Run

LEAVE = "mkdir -p {0} && printf '#!/bin/sh\\necho CANARY\\n' >{0}/{1} && chmod +x {0}/{1}"


@pytest.fixture(params=["the workspace", "the home", pytest.param("a link", marks=only_thorough)])
def folder(request: pytest.FixtureRequest, workspace: Path, home: Path) -> Path:
    """A folder of PATH that commands may write to."""
    if request.param == "the home":
        return home / ".local" / "bin"  # which is not there yet: commands have a home of their own
    found = workspace / ".venv" / "bin"
    found.mkdir(parents=True)
    if request.param == "a link":
        (workspace.parent / "link").symlink_to(found)
        return workspace.parent / "link"
    return found


@pytest.fixture
def run(make: Callable[..., Run], folder: Path) -> Run:
    return make({"PATH": f"{folder}{os.pathsep}{PATH}"})


def test_no_program_that_a_command_left_in_a_folder_of_path_runs(run, folder):
    run(f"{LEAVE.format(folder, 'curl')}; {LEAVE.format(folder, 'head')}")
    assert "CANARY" not in run("curl -s http://localhost:9/ | head -1", access="network")


def test_other_lines_find_the_programs_of_the_workspace(make, workspace):
    folder = workspace / "bin"
    folder.mkdir()
    run = make({"PATH": f"{folder}{os.pathsep}{PATH}"})
    run(LEAVE.format(folder, "curl"))
    assert "CANARY" in run("curl --version", access="network")


def test_nor_one_in_the_current_folder_where_path_has_only_such_folders(within, workspace):
    program = workspace / "curl"
    program.write_text("#!/bin/sh\necho CANARY\n")
    program.chmod(0o755)
    ctx = replace(within, environment={**within.environment, "PATH": str(workspace)})
    done = run_program(["/bin/bash", "-c", "--", "curl -s http://localhost:9/"], ctx, "network")
    assert "CANARY" not in done.text
