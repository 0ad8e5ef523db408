"""A sandbox by podman or docker: each command runs in a container of its own, of an image that the user named.

The workspace stands in it under its own path, read-only for commands with the access `read`, and so do the home, the
folder for temporary files and the caches of the session; all else is the image's. Where the image keeps a Git checkout
in its working folder, as those of SWE-bench do, the workspace stands there, too: programs that are installed from
there are those of the workspace.

A container ends with its command and is removed. One that is left behind by `kill -9` has a label with the scratch
folder of its session, which nobody holds any more: the next container's start removes it.
"""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from ...errors import BotError
from ...types.sandbox import Access, Launch
from .base import SandboxBase, find_home
from .limits import BYTES_PER_MB, ResourceLimits
from .scratch import is_abandoned
from .view import SandboxView

RUNTIMES = ("podman", "docker")
TIMEOUT_S = 60.0  # for what the runtime does besides running commands
TEMPORARY, HOME = "/tmp", "/tmp/home"  # noqa: S108 - in the container, where /tmp is its own
FOLDER_LABEL, USER_LABEL = "vllm-bot.folder", "vllm-bot.user"
OF_THE_IMAGE = ("PATH", "HOME", "TMPDIR")  # variables that do not come from this machine
# Lowering a limit needs no rights, as an option of the runtime may; the unit of -f is that of POSIX. An image may have
# no bash: what comes behind it, -c and the command, means the same for each shell.
START = 'ulimit -c 0; ulimit -f "$0"; [ -x "$1" ] || { shift; set -- /bin/sh "$@"; }; exec "$@"'
BLOCK_BYTES = 512
PROBE_SUCCESS = 42  # exit code
# Said in the image's working folder: "checkout" if it is one.
PROBE = 'test -e .git && echo checkout; test -x "$1" && (: >"$TMPDIR/tried") && exit 42'


class ContainerOptions(Struct, frozen=True):
    """`runtime`: podman, docker, or auto, the first of them that is there. `cpus`: as many at most; 0: all."""

    image: str
    runtime: str = "auto"
    cpus: float = 0.0


class ContainerRuntime:
    """podman or docker. `environment`: of the user, which tells where its images and its daemon are."""

    def __init__(self, program: str, environment: Mapping[str, str]) -> None:
        self.program = program
        self.environment = environment
        self.name = Path(program).name
        self._user = f"{os.getuid()}@{socket.gethostname()}"

    def call(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Raises OSError and subprocess.SubprocessError."""
        return subprocess.run(  # noqa: S603 - our own words
            [self.program, *words],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=TIMEOUT_S,
            start_new_session=True,  # Ctrl-C does not end it
        )

    def find_image(self, image: str) -> str:
        """The working folder of the image. Raises BotError if the image is not here, or the runtime does not work."""
        hint = f"Get it: {self.name} pull {image}"
        try:
            done = self.call("image", "inspect", "--format", "{{.Config.WorkingDir}}", image)
        except (OSError, subprocess.SubprocessError) as error:
            raise BotError(f"{self.name} does not answer: {error}.", f"It is needed for the image {image}.") from error
        if done.returncode:
            raise BotError(f"The image {image} cannot be used: {get_last_line(done.stderr)}", hint)
        return done.stdout.strip()

    def list_user_words(self) -> list[str]:
        """Options with which files that a command makes belong to the user of this program."""
        user = f"{os.getuid()}:{os.getgid()}"
        if os.getuid() == 0:
            return ["--user", user]
        if self.name == "podman":
            return ["--userns", "keep-id", "--user", user]
        # The root of a docker without root is the user outside.
        is_rootless = "rootless" in self.call("info", "--format", "{{.SecurityOptions}}").stdout
        return ["--user", "0:0" if is_rootless else user]

    def list_labels(self, folder: Path) -> list[str]:
        return ["--label", f"{FOLDER_LABEL}={folder}", "--label", f"{USER_LABEL}={self._user}"]

    def remove(self, *names: str) -> None:
        """End these containers. One that has removed itself is no error; one that stays is tried again later."""
        with suppress(OSError, subprocess.SubprocessError):
            self.call("rm", "--force", *names)

    def remove_abandoned(self) -> None:
        """Remove the containers whose program was killed, if the runtime answers."""
        with suppress(OSError, subprocess.SubprocessError):
            self._remove_abandoned()

    def _remove_abandoned(self) -> None:
        listed = self.call("ps", "--all", "--quiet", "--filter", f"label={USER_LABEL}={self._user}").stdout.split()
        if not listed:
            return
        template = f'{{{{.Id}}}} {{{{index .Config.Labels "{FOLDER_LABEL}"}}}}'
        # Tells of those that are still there; others end meanwhile.
        lines = self.call("inspect", "--format", template, *listed).stdout.splitlines()
        pairs = (line.split(" ", 1) for line in lines if " " in line)
        if abandoned := [name for name, folder in pairs if is_abandoned(Path(folder))]:
            self.remove(*abandoned)


class ContainerSandbox(SandboxBase):
    """`covered`: the folder of the image where the workspace stands as well."""

    kind = "container"

    def __init__(
        self,
        runtime: ContainerRuntime,
        options: ContainerOptions,
        view: SandboxView,
        limits: ResourceLimits,
    ) -> None:
        super().__init__(view, limits, {})
        self.runtime = runtime
        self._options = options
        self._user_words = runtime.list_user_words()
        self.covered: str | None = None
        self.description = f"{runtime.name}: commands run in the image {options.image}, {view.network_note}"
        threading.Thread(target=runtime.remove_abandoned, daemon=True).start()

    def confine(
        self,
        argv: Sequence[str],
        cwd: Path,
        environment: Mapping[str, str],
        access: Access,
        protected: Sequence[Path],  # noqa: ARG002 - put back afterwards
    ) -> Launch:
        name = f"vllm-bot-{secrets.token_hex(8)}"
        own_variables = {key: value for key, value in environment.items() if key not in OF_THE_IMAGE}
        variables = self.complete_environment(own_variables, HOME, TEMPORARY, access)
        words = [self.runtime.program, "run", "--rm", "--name", name, *self.runtime.list_labels(self.scratch)]
        words += [*self._list_restrictions(access), *self._list_mounts(access), "--workdir", str(cwd)]
        for key, value in variables.items():
            words += ["--env", f"{key}={value}"]
        largest_file = self.limits.file_mb * BYTES_PER_MB // BLOCK_BYTES
        words += ["--entrypoint", "", self._options.image, "/bin/sh", "-c", START, str(largest_file), *argv]
        return Launch(
            words,
            self.runtime.environment,
            settle=lambda: self.runtime.remove(name),
            ends_with_parent=True,  # what this program cannot end any more, the next start does
        )

    def _list_restrictions(self, access: Access) -> list[str]:
        memory = self.limits.memory_mb * BYTES_PER_MB
        words = [
            "--pull=never",
            "--stop-timeout=0",  # podman would wait for ten seconds before it kills one
            "--log-driver=none",  # else all output is kept on the disk
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            "--security-opt=label=disable",  # SELinux would keep it from the workspace, or change the files' labels
            f"--memory={memory}",
            f"--memory-swap={memory}",
            f"--pids-limit={self.limits.processes}",
            *self._user_words,
        ]
        if self._options.cpus:
            words.append(f"--cpus={self._options.cpus:g}")
        if not self.has_network(access):
            words.append("--network=none")
        return words

    def _list_mounts(self, access: Access) -> list[str]:
        """Raises OSError for a path that the options of a mount cannot hold."""
        mounts = [
            (self.scratch / "tmp", TEMPORARY, True),
            (find_home(self.scratch, access), HOME, True),
            *((path, str(path), False) for path in self.view.readable if path.exists()),
            (self.settings, str(self.settings), False),
            *((top, str(top), access != "read") for top in self.view.tops),
        ]
        if self.covered:
            mounts.append((self.view.workspace, self.covered, access != "read"))
        if access == "read":
            mounts.append((self.cache, str(self.cache), True))
        words = []
        for source, target, is_writable in mounts:
            if "," in f"{source}{target}":
                raise OSError(f"{self.runtime.name} cannot mount a path with a comma: {source}")
            words += ["--mount", f"type=bind,source={source},target={target}{'' if is_writable else ',readonly'}"]
        return words


def open_container(
    options: ContainerOptions, view: SandboxView, limits: ResourceLimits, environment: Mapping[str, str]
) -> ContainerSandbox:
    """A sandbox of that image in which a trial command ran. Raises BotError where there is none."""
    runtime = find_runtime(options, view.workspace, environment)
    working_folder = runtime.find_image(options.image)
    try:
        sandbox = ContainerSandbox(runtime, options, view, limits)
        # The first one in the image's own folder, before the workspace stands there.
        script = ['cd "$2" && ' + PROBE, "sh", str(view.workspace), working_folder or "/"]
        done = sandbox.run_trial(script, {})
    except subprocess.TimeoutExpired as error:
        why = f"it took longer than {error.timeout:g} seconds"
        raise BotError(f"No container of the image {options.image} could be started: {why}.") from error
    except OSError as error:
        raise BotError(f"No container of the image {options.image} could be started: {error}.") from error
    if done.returncode != PROBE_SUCCESS:
        reason = get_last_line(done.stderr.decode("utf-8", "replace")) or f"it ended with {done.returncode}"
        raise BotError(f"A trial command failed in the image {options.image}: {reason}")
    if b"checkout" in done.stdout:
        sandbox.covered = working_folder
    return sandbox


def remove_abandoned_containers(options: ContainerOptions, environment: Mapping[str, str]) -> None:
    """Remove the containers of programs that were killed, if there is a runtime."""
    with suppress(BotError):
        find_runtime(options, Path.cwd(), environment).remove_abandoned()


def find_runtime(options: ContainerOptions, workspace: Path, environment: Mapping[str, str]) -> ContainerRuntime:
    """Raises BotError if it is not installed."""
    names: tuple[str, ...] = (options.runtime,)
    if options.runtime == "auto":
        names = RUNTIMES
    for name in names:
        program = shutil.which(name, path=environment.get("PATH") or os.defpath)
        if program and not Path(os.path.realpath(program)).is_relative_to(workspace):
            return ContainerRuntime(program, environment)
    hint = "Install it, or leave the image out."
    raise BotError(f"The image {options.image} needs {' or '.join(names)}, which is not installed.", hint)


def get_last_line(text: str) -> str:
    return "".join(text.strip().splitlines()[-1:]).strip()
