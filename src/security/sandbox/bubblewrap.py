"""A sandbox by bubblewrap (bwrap(1)): a file system, processes and a network of its own; nothing else exists there.

Protected paths that exist are mounted over themselves read-only. Each folder on the way to one is a mount as well,
since the name of a mount can be neither moved nor replaced. Protected paths that do not exist are left to `Leftovers`.

A command that goes to the background gives its network, which has a loopback alone, to the later commands with the same
access. With the same access only: else a command could change, through a server with more access, what it may not.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from ...types.sandbox import Access, Launch
from .base import CURL_SETTINGS, SandboxBase, find_home
from .leftovers import list_parents
from .limits import ResourceLimits
from .loopback import Loopback
from .view import SYSTEM, SandboxView, list_etc, list_system_files, list_unreadable

NAMESPACES = ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
BACKGROUND_NOTE = "what it left running in the background was ended"
END_TIMEOUT_S = 5.0  # of a killed namespace; on an idle machine it ends within 10 ms
PAUSE_S = 0.001  # between two looks at a process
KERNEL_GRACE_S = 0.5  # for the kernel to end a namespace with its bwrap
HIDDEN_HOME = "/tmp/home"  # noqa: S108 - in the sandbox, where /tmp is its own


class BubblewrapSandbox(SandboxBase):
    """`program` is bwrap."""

    kind = "bubblewrap"
    can_hide_files = True

    def __init__(
        self, program: str, user: str, view: SandboxView, limits: ResourceLimits, filters: Mapping[Access, bytes]
    ) -> None:
        super().__init__(view, limits, filters)
        self._program = program
        self._home = str(view.home or HIDDEN_HOME)
        self._loopbacks: dict[Access, Loopback] = {}
        _write_etc(self.scratch / "etc", user, self._home)
        (self.scratch / "unreadable-file").touch(mode=0)
        (self.scratch / "unreadable-folder").mkdir(mode=0)
        self.description = f"bubblewrap: commands see the workspace and the system, no home, {view.network_note}"

    def confine(
        self, argv: Sequence[str], cwd: Path, environment: Mapping[str, str], access: Access, protected: Sequence[Path]
    ) -> Launch:
        filter_fd = os.memfd_create("filter", os.MFD_CLOEXEC)
        os.write(filter_fd, self.filters[access])
        os.lseek(filter_fd, 0, os.SEEK_SET)
        namespace = Namespace()
        left_read_fd, left_fd = os.pipe()
        loopback = self._loopbacks.get(access)
        words = self.build_words(access, protected)
        words += ["--seccomp", str(filter_fd), "--info-fd", str(namespace.info_fd)]

        def settle() -> None:
            os.close(filter_fd)
            os.close(left_fd)
            namespace.wait_for_end()

        def tidy_up() -> list[str]:
            with os.fdopen(left_read_fd, "rb") as pipe:
                return [BACKGROUND_NOTE] if pipe.read(1) else []

        def share_network() -> None:
            is_own = access not in self._loopbacks and not self.view.has_network(access)
            if is_own and (first := namespace.find_first()):
                self._share(access, first)

        limits = self.limits.build_prefix(left_fd)
        return Launch(
            [*words, "--chdir", str(cwd), "--", *limits, *argv],
            self.complete_environment(environment, self._home, "/tmp", access),  # noqa: S108 - its own
            loopback.enter if loopback else None,
            (filter_fd, namespace.info_fd, left_fd),
            settle,
            tidy_up,
            share_network,
            ends_with_parent=True,
            max_tasks=self.limits.max_tasks,
        )

    @property
    def curl_home(self) -> str:
        return "/etc"  # which is read-only

    def build_words(self, access: Access, protected: Iterable[Path] = ()) -> list[str]:
        """bwrap's command line up to the command, but for its descriptors."""
        view, has_network = self.view, self.has_network(access)
        words = [self._program, *NAMESPACES, "--die-with-parent", "--cap-drop", "ALL"]
        if not has_network and access not in self._loopbacks:
            words.append("--unshare-net")
        for path in map(Path, SYSTEM):
            if path.is_symlink():
                words += ["--symlink", str(path.readlink()), str(path)]
            elif path.is_dir():
                words += _bind("--ro-bind", path)
        words += ["--ro-bind", str(self.scratch / "etc"), "/etc"]
        for path in filter(Path.is_dir, list_system_files(has_network=has_network)):
            words += _bind("--ro-bind", path)
        words += ["--proc", "/proc", "--remount-ro", "/proc"]  # else root writes /proc/sys, core_pattern among it
        words += ["--dev", "/dev", "--bind", str(self.scratch / "tmp"), "/tmp"]  # noqa: S108 - as above
        words += ["--dir", "/var", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108 - as above
        if not view.home or not view.home.is_relative_to(view.workspace):
            words += ["--bind", str(find_home(self.scratch, access)), self._home]
        for path in view.readable:
            words += _bind("--ro-bind", path)
        return words + self._build_workspace_words(access, protected)

    def _build_workspace_words(self, access: Access, protected: Iterable[Path]) -> list[str]:
        view = self.view
        words: list[str] = []
        hidden = [each for each in view.hidden if each.is_dir() and each.is_relative_to(view.workspace)]
        unreadable = list(list_unreadable(view))
        # All of them are mounted: else a command moves the folder of a hidden file, and reads it there.
        option, fixed = "--bind", [*protected, *hidden, *unreadable]
        cache: Sequence[str] = ()
        if access == "read":
            option, fixed, cache = "--ro-bind", [], _bind("--bind", self.cache)
        for top in view.tops:
            words += _bind(option, top)
            for mount in _list_mounts(top, fixed):
                words += _bind(*mount)
        for path in hidden:
            words += ["--tmpfs", str(path)]
        words += cache
        for path in unreadable:
            words += ["--ro-bind", str(self.scratch / f"unreadable-{'folder' if path.is_dir() else 'file'}"), str(path)]
        return words

    def _share(self, access: Access, pid: int) -> None:
        """Have later commands with this access use the network of the process, if a trial shows that they can."""
        with suppress(OSError, subprocess.SubprocessError):
            wait_for_users(pid)
            self._loopbacks[access] = Loopback(pid)
            if self.run_trial([":"], {}, access).returncode == 0:
                return
        self._loopbacks.pop(access, None)


class Namespace:
    """The process namespace of a command, which bwrap tells of at `info_fd`."""

    def __init__(self) -> None:
        self._read_fd, self.info_fd = os.pipe()
        self._info = b""

    def find_first(self) -> int | None:
        """The number of its first process; None if bwrap failed before it started any. Waits for bwrap to tell."""
        while True:
            with suppress(ValueError, KeyError, TypeError):  # bwrap has not told all
                return int(json.loads(self._info)["child-pid"])
            is_told = select.select([self._read_fd], [], [], END_TIMEOUT_S)[0]
            if not is_told or not (data := os.read(self._read_fd, 4096)):
                return None
            self._info += data

    def wait_for_end(self) -> None:
        """Wait until it has ended, at the end of bwrap. Its first process ends after all the others.

        The kernel kills that process when bwrap ends, but not if bwrap ended while the process still mounted: it asks
        for its end after that, so it is killed here.
        """
        os.close(self.info_fd)
        number = self.find_first()
        os.close(self._read_fd)
        with suppress(OSError):  # it has ended
            if number is not None and hasattr(os, "pidfd_open"):  # a Python without it, such as conda's, does not wait
                end_process(os.pidfd_open(number))


def wait_for_users(pid: int) -> None:
    """Wait until bwrap has given its namespace users, which it does once the loopback is up. Raises OSError.

    bwrap tells of the process before that, and nobody can enter a namespace without users.
    """
    deadline, users = time.monotonic() + END_TIMEOUT_S, Path(f"/proc/{pid}/uid_map")
    while not users.read_text() and time.monotonic() < deadline:
        time.sleep(PAUSE_S)


def end_process(process_fd: int) -> None:
    """Wait for the end of a process, and kill it if that does not come. Closes its descriptor."""
    try:
        if not select.select([process_fd], [], [], KERNEL_GRACE_S)[0]:
            signal.pidfd_send_signal(process_fd, signal.SIGKILL)
            select.select([process_fd], [], [], END_TIMEOUT_S)
    finally:
        os.close(process_fd)


def _bind(option: str, path: Path) -> Sequence[str]:
    return (option, str(path), str(path))


def _list_mounts(top: Path, fixed: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Those in `top` that exist, read-only, each after the folders on the way to it; none that a link leads to."""
    protected = [each for each in fixed if each.is_relative_to(top)]
    passed = {parent for path in protected for parent in list_parents(top, path)}
    mounted: set[Path] = set()
    for path in sorted(protected):
        way = (*list_parents(top, path), path)
        if path.exists() and not any(each.is_symlink() for each in way):
            for each in way:
                if each not in mounted:
                    mounted.add(each)
                    yield ("--bind" if each in passed else "--ro-bind"), each


def _write_etc(etc: Path, user: str, home: str) -> None:
    """What commands see as /etc: copies of its files, empty folders as mount points, and the user as the only one.

    Files are copied, since a mount costs 0.2 ms for each command.
    """
    etc.mkdir()
    (etc / CURL_SETTINGS).touch()
    for path in list_etc():
        copy = etc / path.relative_to("/etc")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            copy.mkdir()
        else:
            with suppress(OSError):  # not readable for us either
                shutil.copy(path, copy)
    name = user.translate({ord(each): None for each in ":\n"}) or "user"
    (etc / "passwd").write_text(f"{name}:*:{os.getuid()}:{os.getgid()}::{home}:/bin/sh\n", encoding="utf-8")
    (etc / "group").write_text(f"{name}:*:{os.getgid()}:\n", encoding="utf-8")
