"""Commands in containers of an image, by a double of podman. podman and docker themselves were not tried."""

from __future__ import annotations

import os
import subprocess

import pytest

from src.errors import BotError
from src.security.sandbox import container
from src.security.sandbox.container import ContainerOptions, open_container
from src.security.sandbox.limits import ResourceLimits
from src.security.sandbox.scratch import hold_folder
from src.security.sandbox.view import SandboxView
from src.tools import ToolContext
from src.tools.process.run import run as run_program
from tests.containers import CHECKOUT_IMAGE, IMAGE, FakePodman
from tests.thorough import only_thorough
from tests.waiting import wait_until


@pytest.fixture
def podman(tmp_path):
    return FakePodman(tmp_path / "bin")


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def run(podman, workspace):
    """Runs a command in a container; `given` is for the view."""
    sandboxes = []

    def run_it(command, access="write", image=IMAGE, cpus=0, timeout=20, **given):
        if not sandboxes:
            view = SandboxView(workspace, **given)
            options = ContainerOptions(image, cpus=cpus)
            sandboxes.append(open_container(options, view, ResourceLimits(), {"PATH": podman.path, "HOME": "/root"}))
        context = ToolContext(workspace, {"LANG": "C.UTF-8", "PATH": "/host/bin", "HOME": "/home/me"})
        context = context.rewire(sandbox=sandboxes[0], exec_timeout=timeout)
        return run_program(["/bin/bash", "-c", "--", command], context, access).text

    return run_it


def test_a_command_runs_in_the_workspace_and_its_container_is_removed(run, podman, workspace):
    assert run("echo hello > a.txt; pwd; exit 3") == f"{workspace}\n[exit code 3]"
    assert (workspace / "a.txt").read_text() == "hello\n"
    assert podman.list_containers() == []


@pytest.mark.parametrize(
    ("access", "readonly", "network"),
    [("read", ",readonly", False), pytest.param("write", "", False, marks=only_thorough), ("network", "", True)],
)
def test_the_access_decides_on_the_workspace_and_the_network(run, podman, workspace, access, readonly, network):
    run("true", access)
    (words,) = podman.runs
    assert f"type=bind,source={workspace},target={workspace}{readonly}" in words
    assert ("--network=none" not in words) == network


@only_thorough
@pytest.mark.parametrize(("access", "readonly"), [("read", ",readonly"), ("write", "")])
def test_an_added_folder_is_there_as_the_workspace_is(run, podman, tmp_path, access, readonly):
    (added := tmp_path / "lib").mkdir()
    run("true", access, added=(added,))
    (words,) = podman.runs
    assert f"type=bind,source={added},target={added}{readonly}" in words


def test_a_container_has_the_limits_of_commands(run, podman):
    run("true", cpus=1.5)
    (words,) = podman.runs
    assert {"--memory=8192000000", "--memory-swap=8192000000", "--pids-limit=1024", "--cpus=1.5"} <= set(words)


@only_thorough
def test_a_command_writes_no_larger_file_than_it_may(podman, workspace):
    limits = ResourceLimits(file_mb=1)
    sandbox = open_container(ContainerOptions(IMAGE), SandboxView(workspace), limits, {"PATH": podman.path})
    context = ToolContext(workspace, {}).rewire(sandbox=sandbox)
    run_program(["/bin/bash", "-c", "--", "head -c 3000000 /dev/zero > big"], context, "write")
    assert (workspace / "big").stat().st_size <= 1_000_000


def test_a_container_is_killed_at_once(run, podman):
    run("true")
    assert "--stop-timeout=0" in podman.runs[0]


def test_variables_are_those_of_this_machine_but_for_the_paths(run, podman):
    run("true")
    (words,) = podman.runs
    given = [words[index + 1] for index, word in enumerate(words) if word == "--env"]
    curl, *others = sorted(given)
    assert curl.startswith("CURL_HOME=/")
    assert others == ["HOME=/tmp/home", "LANG=C.UTF-8", "TMPDIR=/tmp"]


@only_thorough
def test_home_and_temporary_files_last_from_one_command_to_the_next(run):
    run('echo 1 > "$HOME/a"; echo 2 > "$TMPDIR/b"')
    assert run('cat "$HOME/a" "$TMPDIR/b"') == "1\n2\n[exit code 0]"


def test_an_image_without_bash_runs_the_command_in_its_sh(podman, workspace):
    sandbox = open_container(
        ContainerOptions(IMAGE), SandboxView(workspace), ResourceLimits(), {"PATH": podman.path, "HOME": "/root"}
    )
    context = ToolContext(workspace, {}).rewire(sandbox=sandbox)
    assert run_program(["/no/bash", "-c", "--", "echo $0"], context, "write").text == "/bin/sh\n[exit code 0]"


def test_the_workspace_stands_where_the_image_keeps_a_checkout(run, podman, workspace):
    run("true", image=CHECKOUT_IMAGE)
    assert f"type=bind,source={workspace},target={podman.testbed}" in podman.runs[0]


@pytest.mark.parametrize(
    ("name", "user", "info", "words"),
    [
        ("podman", 0, "", ["--user", "0:0"]),
        ("podman", 1000, "", ["--userns", "keep-id", "--user", "1000:1000"]),
        ("docker", 1000, "[name=seccomp]", ["--user", "1000:1000"]),
        ("docker", 1000, "[name=seccomp name=rootless]", ["--user", "0:0"]),
    ],
)
def test_files_belong_to_the_user_of_this_program(monkeypatch, name, user, info, words):
    monkeypatch.setattr(os, "getuid", lambda: user)
    monkeypatch.setattr(os, "getgid", lambda: user)
    runtime = container.ContainerRuntime(f"/usr/bin/{name}", {})
    monkeypatch.setattr(runtime, "call", lambda *_: subprocess.CompletedProcess([], 0, info, ""))
    assert runtime.list_user_words() == words


def test_a_protected_file_that_a_command_changed_is_put_back(run, workspace):
    (workspace / "settings.json").write_text("{}")
    run("echo 1 > settings.json", protected=(workspace / "settings.json",))
    assert (workspace / "settings.json").read_text() == "{}"


def test_a_command_that_takes_too_long_is_ended_with_its_container(run, podman):
    assert "0.5" in run("sleep 60 & sleep 60", timeout=0.5)
    assert podman.list_containers() == []


class TestUnusable:
    def open(self, workspace, path, image=IMAGE, runtime="auto"):
        with pytest.raises(BotError) as error:
            open_container(ContainerOptions(image, runtime), SandboxView(workspace), ResourceLimits(), {"PATH": path})
        return error.value

    def test_neither_podman_nor_docker_is_installed(self, workspace, tmp_path):
        error = self.open(workspace, str(tmp_path))
        assert error.message == f"The image {IMAGE} needs podman or docker, which is not installed."

    def test_the_one_that_is_named_is_not_installed(self, workspace, podman):
        error = self.open(workspace, str(podman.folder), runtime="docker")
        assert error.message == f"The image {IMAGE} needs docker, which is not installed."

    def test_the_image_is_not_here(self, workspace, podman):
        error = self.open(workspace, podman.path, image="nothing:1")
        assert error.message == "The image nothing:1 cannot be used: Error: no such image nothing:1"
        assert error.hint == "Get it: podman pull nothing:1"

    def test_no_command_runs_in_it(self, workspace, podman):
        script = (podman.folder / "podman").read_text()
        (podman.folder / "podman").write_text(
            script.replace('elif words[0] == "run":', 'elif words[0] == "run":\n    sys.exit("no")')
        )
        error = self.open(workspace, podman.path)
        assert error.message == f"A trial command failed in the image {IMAGE}: no"

    def test_a_program_of_that_name_in_the_workspace_is_none(self, workspace):
        FakePodman(workspace / "bin")
        assert "not installed" in self.open(workspace, str(workspace / "bin")).message


def test_the_next_start_removes_the_containers_of_killed_programs_only(run, podman, tmp_path):
    held = hold_folder(tmp_path / "held")
    os.close(hold_folder(tmp_path / "ended"))
    podman.add_container("of-a-program-that-runs", tmp_path / "held")
    podman.add_container("abandoned", tmp_path / "ended")
    podman.add_container("of-a-removed-folder", tmp_path / "gone")
    run("true")
    wait_until(lambda: podman.list_containers() == ["of-a-program-that-runs"], "the others are removed")
    os.close(held)
