"""What bubblewrap and Landlock share, and what stands in for them where none is used.

choose.py decides which of them runs the commands.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

from msgspec.structs import replace

from ...types.sandbox import Access, Launch
from ..shell.local_requests import find_local_server
from ..shell.reader import UnsafeToParse, parse_line
from .git_config import find_value
from .leftovers import Leftovers
from .limits import ResourceLimits
from .running_files import find_hooks_path, find_top, read_git_config
from .scratch import SANDBOX_PREFIX, hold_folder, remove_abandoned, remove_tree
from .view import SYSTEM, SandboxView, list_protected

TRIAL_TIMEOUT_S = 10.0
CURL_SETTINGS = ".curlrc"  # empty


class NoSandbox:
    """Commands run uncontained, but within the limits; where a sandbox is required ("refused"), none runs."""

    def __init__(self, limits: ResourceLimits, description: str, kind: Literal["off", "none", "refused"]) -> None:
        self.kind = kind
        self.is_enforcing = self.can_hide_files = kind == "refused"
        self.has_loopback = True
        self.description = description
        self._limits = limits

    def has_network(self, access: Access) -> bool:  # noqa: ARG002
        return True

    def launch(
        self,
        argv: Sequence[str],
        cwd: Path,  # noqa: ARG002
        environment: Mapping[str, str],
        access: Access = "write",  # noqa: ARG002
    ) -> Launch:
        if self.is_enforcing:
            raise OSError(f"{self.description} (security.sandbox is required)")
        return Launch(argv, environment, self._limits.make_setter(), max_tasks=self._limits.max_tasks)


class SandboxBase(ABC):
    """Guards the protected files, and gives the commands of a session folders and an environment of their own.

    `scratch` holds their `tmp` and homes. All keep their files from one command to the next; the folder is removed
    with the sandbox. `cache` is where programs put their caches while the workspace is read-only. `filters` has a
    seccomp filter for each access.
    """

    kind: str
    description: str
    is_enforcing = True
    can_hide_files = False
    has_loopback = True

    def __init__(self, view: SandboxView, limits: ResourceLimits, filters: Mapping[Access, bytes]) -> None:
        self.view = view
        self.limits = limits
        self.filters = filters
        self.scratch = Path(os.path.realpath(tempfile.mkdtemp(prefix=SANDBOX_PREFIX)))
        weakref.finalize(self, remove_tree, self.scratch)
        weakref.finalize(self, os.close, hold_folder(self.scratch))
        threading.Thread(target=remove_abandoned, args=(self.scratch.parent,), daemon=True).start()
        (self.scratch / "tmp").mkdir(mode=0o700)
        self.settings = self.scratch / "settings"  # of programs; no command changes it
        self.settings.mkdir(mode=0o700)
        (self.settings / CURL_SETTINGS).touch()
        _make_homes(self.scratch, read_git_config(view.home))
        self.cache = _make_cache(view.cache, self.scratch / "cache")
        aside = view.aside or self.scratch / "aside"
        self.leftovers = Leftovers(view.workspace, aside, find_hooks_path(view.home), view.added)

    def has_network(self, access: Access) -> bool:
        return self.view.has_network(access)

    def launch(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: Access = "write"
    ) -> Launch:
        """How to start a command in the sandbox. Raises OSError if it cannot be contained as promised."""
        environment = self._hold_programs(argv[-1], environment)
        protected = list_protected(self.view)
        if access == "read":
            return self.confine(argv, cwd, environment, access, protected)
        self.leftovers.take(protected)
        try:
            launch = self.confine(argv, cwd, environment, access, protected)
        except BaseException:
            self.leftovers.set_aside()
            raise
        return replace(launch, tidy_up=lambda: [*launch.tidy_up(), *self.leftovers.set_aside()])

    def _hold_programs(self, line: str, environment: Mapping[str, str]) -> Mapping[str, str]:
        """The variables, for a line that a rule about a server may allow: see find_local_server.

        The rule means curl, and no program of that name that a command may have left in a folder of PATH.
        """
        server = ""
        with suppress(UnsafeToParse):
            server = find_local_server(parse_line(line))
        if not server or "PATH" not in environment:
            return environment
        folders = [os.path.realpath(each) for each in environment["PATH"].split(os.pathsep) if each.startswith("/")]
        fixed = [*map(Path, SYSTEM), *self.view.readable]
        chosen = [each for each in folders if find_top(Path(each), fixed) and not find_top(Path(each), self.view.tops)]
        return {**environment, "PATH": os.pathsep.join(chosen) or os.defpath}  # "" is the current folder

    def run_trial(
        self, script: Sequence[str], environment: Mapping[str, str], access: Access = "write"
    ) -> subprocess.CompletedProcess[bytes]:
        """Run words for the shell that are our own, and leave protected files alone.

        Raises OSError and subprocess.SubprocessError.
        """
        workspace = self.view.workspace
        trial = self.confine(["/bin/sh", "-c", *script], workspace, environment, access, list_protected(self.view))
        try:
            return subprocess.run(  # noqa: S603 - our own command
                trial.argv,
                cwd=workspace,
                env=trial.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=TRIAL_TIMEOUT_S,
                preexec_fn=trial.before_exec,
                pass_fds=trial.inherited_fds,
                start_new_session=True,
                check=False,
            )
        finally:
            trial.settle()
            trial.tidy_up()

    @abstractmethod
    def confine(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: Access, protected: Sequence[Path]
    ) -> Launch:
        """How to start a command so that the kernel holds it to its access. It may not change `protected`."""

    def complete_environment(
        self, given: Mapping[str, str], home: str, temporary: str, access: Access
    ) -> dict[str, str]:
        """The variables given, with HOME and TMPDIR inside the sandbox."""
        caches = _list_cache_variables(self.cache) if access == "read" else {}
        return {**given, **caches, "HOME": home, "TMPDIR": temporary, "CURL_HOME": self.curl_home}

    @property
    def curl_home(self) -> str:
        """Where curl looks for its settings before HOME. What a command left there could send requests elsewhere."""
        return str(self.settings)


def find_home(scratch: Path, access: Access) -> Path:
    """The home of commands with this access. Programs obey what is in their home.

    So what a command with `read` wrote, which asks nobody, is not in the home of those that may change more.
    """
    return scratch / ("home-read" if access == "read" else "home")


def _make_homes(scratch: Path, git_config: str) -> None:
    """Homes of commands, with the user's name for commits, and nothing else of the user's git configuration."""
    identity = {name: find_value(git_config, f"user.{name}") or "" for name in ("name", "email")}
    lines = [f'\t{name} = "{value}"' for name, value in identity.items() if value and not set('"\\') & set(value)]
    for home in {find_home(scratch, access) for access in get_args(Access)}:
        home.mkdir(mode=0o700)
        if lines:
            (home / ".gitconfig").write_text("\n".join(["[user]", *lines, ""]), encoding="utf-8")


def _make_cache(wanted: Path | None, fallback: Path) -> Path:
    for folder in (wanted, fallback):
        with suppress(OSError):
            if folder:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                return folder
    raise OSError(f"{fallback} cannot be created")


def _list_cache_variables(folder: Path) -> dict[str, str]:
    """Variables that keep common programs from writing caches, locks and build results in the workspace."""
    return {
        "CARGO_TARGET_DIR": str(folder / "cargo"),
        "COVERAGE_FILE": str(folder / "coverage"),
        "GIT_OPTIONAL_LOCKS": "0",
        "GOCACHE": str(folder / "go-build"),
        "MYPY_CACHE_DIR": str(folder / "mypy"),
        "PYTEST_ADDOPTS": f"-o cache_dir={shlex.quote(str(folder / 'pytest'))}",
        "PYTHONPYCACHEPREFIX": str(folder / "pycache"),
        "RUFF_CACHE_DIR": str(folder / "ruff"),
        "XDG_CACHE_HOME": str(folder),
        "npm_config_cache": str(folder / "npm"),
    }
