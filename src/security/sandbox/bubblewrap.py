"""The view as arguments of bubblewrap (bwrap(1)): a file system of its own, in which nothing else exists. Pure but
for looking what there is.

Protected paths that exist are mounted over themselves read-only, and each folder on the way to one is a
mount as well, since a mount's name can be neither moved nor replaced. What does not exist is the Keeper's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from .snapshot import ways_to
from .view import ETC_FOLDERS, KERNEL, RESOLVER, SYSTEM, View

NAMESPACES = ("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
HIDDEN_HOME = "/tmp/home"  # noqa: S108 - in the sandbox, where /tmp is its own


def arguments(program: str, view: View, private: Path, protected: Iterable[Path], filter_fd: int) -> list[str]:
    """All that stands before the command. `private` holds tmp, home and etc."""
    words = [program, *NAMESPACES, *(() if view.network else ("--unshare-net",)), "--die-with-parent"]
    words += ["--cap-drop", "ALL", "--seccomp", str(filter_fd)]
    for name in SYSTEM:
        words += _as_it_is(Path(name))
    words += ["--ro-bind", str(private / "etc"), "/etc"]
    folders = [f"/etc/{name}" for name in ETC_FOLDERS]
    names = [name for name in (*folders, *KERNEL, *(RESOLVER if view.network else ())) if Path(name).is_dir()]
    words += [word for name in names for word in _bound("--ro-bind", name)]
    words += ["--proc", "/proc", "--remount-ro", "/proc"]  # else root writes /proc/sys, core_pattern among it
    words += ["--dev", "/dev", "--bind", str(private / "tmp"), "/tmp"]  # noqa: S108 - as above
    words += ["--dir", "/var", "--symlink", "../tmp", "/var/tmp"]  # noqa: S108 - as above
    if view.home and not view.home.is_relative_to(view.workspace):
        words += ["--bind", str(private / "home"), str(view.home)]
    for path in view.readable:
        words += _bound("--ro-bind", path)
    words += _bound("--bind", view.workspace)
    hidden = [each for each in view.hidden if each.is_dir() and each.is_relative_to(view.workspace)]
    words += [word for mount in _mounts(view.workspace, [*protected, *hidden]) for word in _bound(*mount)]
    return words + [word for each in hidden for word in ("--tmpfs", str(each))]


def home(view: View) -> str:
    return str(view.home or HIDDEN_HOME)


def _as_it_is(path: Path) -> Sequence[str]:
    if path.is_symlink():
        return ("--symlink", str(path.readlink()), str(path))
    return _bound("--ro-bind", path) if path.is_dir() else ()


def _bound(option: str, path: Path | str) -> Sequence[str]:
    return (option, str(path), str(path))


def _mounts(top: Path, protected: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """What is protected and there, read-only, after the folders on the way to it; less what a link leads to."""
    protected = list(protected)
    passed = {way for path in protected for way in ways_to(top, path)}
    pinned: set[Path] = set()
    for path in sorted(protected):
        ways = ways_to(top, path)
        if not path.exists() or path.is_symlink() or any(each.is_symlink() for each in ways):
            continue
        for way in ways:
            if way not in pinned:
                pinned.add(way)
                yield "--bind", way
        if path not in pinned:
            pinned.add(path)
            yield ("--bind" if path in passed else "--ro-bind"), path
