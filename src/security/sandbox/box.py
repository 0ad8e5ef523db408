"""A sandbox: turns a command into what is started, and tidies up after it. One of three kinds; see `choose`."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ...types.sandbox import Launch
from . import bubblewrap, orphans
from .home import Private
from .limits import ResourceLimits
from .snapshot import Keeper
from .view import ETC, ETC_FOLDERS, KERNEL, RESOLVER, SYSTEM, View, guarded, guarded_of, nested

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
DROPPED = {  # lead to what is not to be seen: agents, buses, screens
    "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "GPG_AGENT_INFO", "SSH_AGENT_PID", "SSH_AUTH_SOCK", "SSH_CLIENT",
    "SSH_CONNECTION", "SSH_TTY", "TMUX", "WAYLAND_DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR",
}  # fmt: skip
HOMES = {  # where toolchains look for themselves, where it is not below HOME
    "CARGO_HOME": ".cargo", "NVM_DIR": ".nvm", "PYENV_ROOT": ".pyenv", "RUSTUP_HOME": ".rustup", "VOLTA_HOME": ".volta",
}  # fmt: skip


class Bare:
    """No sandbox, but the limits."""

    kind = "none"

    def __init__(self, limits: ResourceLimits, description: str) -> None:
        self.description = description
        self._limits = limits

    def launch(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Launch:  # noqa: ARG002
        return Launch(argv, environment, self._limits.setter())


class Refused:
    """One is required, and there is none: nothing is run."""

    kind = "refused"

    def __init__(self, description: str) -> None:
        self.description = description

    def launch(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str]) -> Launch:  # noqa: ARG002
        raise OSError(f"{self.description} (security.sandbox is required)")


class Contained:
    """What the kinds with a view have in common: protected files, a private home, the clean environment."""

    def __init__(self, view: View, limits: ResourceLimits, user: str) -> None:
        self.view = view
        self.limits = limits
        self.private = Private(user, bubblewrap.home(view))
        self._keeper = Keeper(view.workspace)
        self._nested: list[Path] | None = None

    def look(self, *, trial: bool) -> list[Path]:
        """What is protected and can be mounted. The repositories in sub-folders are those before the first command."""
        if self._nested is None and not trial:
            self._nested = nested(self.view.workspace)
        paths = guarded(self.view)
        self._keeper.look(paths, {git: guarded_of(git) for git in self._nested or ()})
        return paths

    def put_back(self) -> list[str]:
        """Undo what a command did to them; what was done, in words."""
        done, failed = self._keeper.put_back()
        notes = [f"protected, put back as it was: {', '.join(done)}"] if done else []
        return notes + [f"protected, but changed, and could not be put back: {each}" for each in failed]

    def environment(self, given: Mapping[str, str], home: str, temporary: str) -> dict[str, str]:
        """Without what leads out of the sandbox, and with a home and a folder for temporary files inside it."""
        kept = {name: value for name, value in given.items() if name not in DROPPED}
        return {**kept, "HOME": home, "TMPDIR": temporary}


class Bubblewrap:
    """A private view, its own processes and network."""

    kind = "bubblewrap"

    def __init__(self, program: str, contained: Contained, filter_program: bytes) -> None:
        self._program = program
        self._in = contained
        self._filter = filter_program
        network = "with the network" if contained.view.network else "no network"
        self.description = f"bubblewrap: commands see the workspace and the system, no home, {network}"

    def launch(self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], *, trial: bool = False) -> Launch:
        """`trial`: the command is ours, and leaves alone what is protected."""
        protected = self._in.look(trial=trial)
        filter_fd = _held(self._filter)
        info, told = os.pipe()
        left_over, left_fd = os.pipe()
        view, private = self._in.view, self._in.private.folder
        words = bubblewrap.arguments(self._program, view, private, protected, filter_fd)

        def settle() -> None:
            for fd in (filter_fd, told, left_fd):
                os.close(fd)
            orphans.end_namespace(info)

        def ended() -> list[str]:
            with os.fdopen(left_over, "rb") as pipe:
                notes = [orphans.IN_BACKGROUND] if pipe.read(1) else []
            return notes + self._in.put_back()

        return Launch(
            [*words, "--info-fd", str(told), "--chdir", str(cwd), "--", *self._in.limits.words(left_fd), *argv],
            self._in.environment(environment, bubblewrap.home(view), "/tmp"),  # noqa: S108 - its own
            None,
            (filter_fd, told, left_fd),
            settle,
            ended,
        )


class Landlocked:
    """Rules of the kernel on files and TCP, and a filter on system calls, in the same view of everything else."""

    kind = "landlock"

    def __init__(self, abi: int, contained: Contained, filter_program: bytes) -> None:
        self._abi = abi
        self._in = contained
        self._filter = filter_program
        self._alive = 0  # commands that have not ended: what they left can be told from others only by the last
        self._lock = threading.Lock()
        network = "with the network" if contained.view.network else "no network, not even its own"
        weak = "" if abi >= 6 else "; this kernel is too old to keep signals from your other processes"
        weak += "" if orphans.can_look() else "; what makes itself a new session is not found here"
        self.description = f"Landlock and seccomp: commands use the workspace and the system, no home, {network}{weak}"

    def launch(
        self,
        argv: Sequence[str],
        cwd: Path,  # noqa: ARG002
        environment: Mapping[str, str],
        *,
        trial: bool = False,
    ) -> Launch:
        from . import landlock

        self._in.look(trial=trial)
        view, private = self._in.view, self._in.private.folder
        landlock.adopt_orphans()
        etc = [Path("/etc", name) for name in (*ETC, *ETC_FOLDERS)]
        fixed = [*map(Path, (*SYSTEM, *KERNEL, *(RESOLVER if view.network else ()), "/proc"))]
        rules = landlock.Rules(
            [*fixed, *etc, *view.readable],
            [view.workspace, private / "tmp", private / "home"],
            [Path(name) for name in DEVICES],
        )
        fd = landlock.ruleset(rules, self._abi, network=view.network)
        confine = landlock.Confinement(fd, self._filter, root=os.geteuid() == 0)
        set_limits, die_with_parent = self._in.limits.setter(), landlock.die_with_parent

        def before_exec() -> None:
            die_with_parent()
            set_limits()
            confine()

        home, temporary = str(private / "home"), str(private / "tmp")
        with self._lock:
            self._alive += 1
        return Launch(
            argv,
            {**self._toolchains(), **self._in.environment(environment, home, temporary)},
            before_exec,
            (),
            lambda: os.close(fd),
            self._ended,
        )

    def _toolchains(self) -> dict[str, str]:
        home = self._in.view.home
        return {name: str(home / folder) for name, folder in HOMES.items() if home and (home / folder).is_dir()}

    def _ended(self) -> list[str]:
        with self._lock:
            self._alive -= 1
            found, remains = (False, False) if self._alive else orphans.end_orphans()
        notes = [orphans.IN_BACKGROUND] if found else []
        notes += ["some of what it started could not be ended"] if remains else []
        return [*notes, *self._in.put_back()]


def _held(content: bytes) -> int:
    fd = os.memfd_create("filter", os.MFD_CLOEXEC)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd
