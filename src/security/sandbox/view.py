"""What a command may see and change: made once a session from the settings, the same for every kind of sandbox.

The workspace is writable, the system readable, and of the home nothing but what running programs takes:
folders of PATH, the toolchains they belong to, Python's own installation. Where such a folder keeps
credentials as well (~/.cargo, ~/.local), only parts of it are shown.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
KERNEL = ("/sys/devices/system/cpu",)  # how many processors there are
ETC = (  # files
    "bash.bashrc", "debian_version", "gai.conf", "gitconfig", "host.conf", "hosts", "inputrc", "ld.so.cache",
    "ld.so.conf", "ld-musl-aarch64.path", "ld-musl-x86_64.path", "locale.alias", "locale.conf", "localtime",
    "login.defs", "lsb-release", "mime.types", "nsswitch.conf", "os-release", "profile", "protocols",
    "resolv.conf", "rpc", "services", "shells", "ssl/openssl.cnf", "timezone",
)  # fmt: skip
ETC_FOLDERS = (  # less what keeps private keys
    "alternatives", "crypto-policies", "fonts", "java", "pki/ca-trust", "pki/java", "pki/tls/certs", "ssl/certs",
    "static",
)  # fmt: skip
RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")  # what resolv.conf leads to
TOOLCHAINS: Mapping[str, tuple[str, ...]] = {  # below the home: the parts that may be seen; ("",): all of it
    ".asdf": ("",),
    ".bun": ("",),
    ".cargo": ("bin", "config.toml", "env", "git", "registry"),
    ".deno": ("bin",),
    ".local": ("bin", "lib", "share/mise", "share/pipx", "share/pnpm", "share/uv"),
    ".nvm": ("",),
    ".pyenv": ("",),
    ".rbenv": ("",),
    ".rustup": ("",),
    ".sdkman": ("",),
    ".volta": ("",),
}
BIN = {"bin", "sbin", "shims"}
LIBRARIES = ("lib", "lib64", "libexec", "include")
INTERPRETERS = ("python3", "python", "node", "ruby", "java", "go")

START_FILES = (  # what a shell, git or a login runs by itself
    ".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".config/autostart", ".config/fish",
    ".config/git", ".config/systemd", ".config/vllm-bot", ".gitconfig", ".inputrc", ".kshrc", ".login",
    ".pam_environment",
    ".profile", ".ssh", ".tcshrc", ".xprofile", ".xsessionrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc",
)  # fmt: skip
REPOSITORY = (
    "hooks",
    "config",
    "config.worktree",
    "commondir",
)  # what makes git run programs, or look for them elsewhere
MOST_REPOSITORIES = 100  # submodules and further worktrees that are looked at; and repositories in sub-folders
MOST_FOLDERS = 5_000  # in which these are looked for


class View(NamedTuple):
    """`home` is a folder that commands must not see, or None where there is none."""

    workspace: Path
    home: Path | None = None
    readable: tuple[Path, ...] = ()  # beside the system
    protected: tuple[Path, ...] = ()  # never changed by a command, wherever they are, there or not
    network: bool = False
    hidden: tuple[Path, ...] = ()  # folders of the bot's own that no command sees


def build_view(
    workspace: Path,
    environment: Mapping[str, str],
    *,
    protected: Iterable[Path] = (),
    hidden: Iterable[Path] = (),
    readable: Iterable[str] = (),
    installations: Iterable[str] = (),
    network: bool = False,
) -> View:
    """`protected`: the bot's own files; `readable`: what the user names, `~` allowed; `installations`: Python's own."""
    home = _folder(environment.get("HOME", ""))
    named = [Path(os.path.expanduser(each)) for each in readable]  # noqa: PTH111 - raises nothing, as Path's does
    own = [part for each in installations for part in _around(Path(each) / "bin", home)]
    found = {*own, *_programs(environment, home), *_pythons_in(workspace), *_repository(workspace)}
    shown = [each for each in found if not (_holds(each, home) or _holds(each, workspace))]
    return View(workspace, home, _outermost([*named, *shown]), tuple(protected), network, tuple(hidden))


def guarded(view: View) -> list[Path]:
    """The protected paths in the workspace as it is now, there or not."""
    top = view.workspace
    paths = [path for path in view.protected if path.is_relative_to(top)]
    paths += [folder / name for folder in _start_folders(view) for name in START_FILES]
    return list(dict.fromkeys([*paths, top / ".git", *guarded_of(top / ".git")]))


def guarded_of(git: Path) -> list[Path]:
    """Of a repository's `.git`: what makes git run programs, in its submodules and worktrees as well."""
    return [each / name for each in _gits(git) for name in REPOSITORY]


def nested(top: Path) -> list[Path]:
    """The `.git` of repositories in the sub-folders of a workspace, the nearest first; no link is followed."""
    found: list[Path] = []
    folders = deque([top])
    for _ in range(MOST_FOLDERS):
        if not folders or len(found) >= MOST_REPOSITORIES:
            break
        folder = folders.popleft()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name == ".git":
                        found += [folder / entry.name] if folder != top else []
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(folder / entry.name)
        except OSError:  # nor can a command look into it
            continue
    return found


def _start_folders(view: View) -> Iterator[Path]:
    yield view.workspace
    if view.home and view.home != view.workspace and view.home.is_relative_to(view.workspace):
        yield view.home


def _gits(git: Path) -> Iterator[Path]:
    """The folders that git takes its configuration from: the repository's own, its submodules', its worktrees'."""
    yield git
    if git.is_symlink():
        return
    seen = 0
    for name in ("modules", "worktrees"):
        for folder, folders, files in os.walk(git / name):
            if "HEAD" in files:
                yield Path(folder)
                folders[:] = [each for each in folders if each == "modules"]
            seen += 1
            if seen > MOST_REPOSITORIES:
                return


def _programs(environment: Mapping[str, str], home: Path | None) -> Iterator[Path]:
    """What running the user's programs takes, as folders that are there."""
    folders = [each for each in map(_folder, environment.get("PATH", "").split(os.pathsep)) if each]
    for folder in folders:
        yield from _around(folder, home)
    installations = [*_virtual(environment.get("VIRTUAL_ENV", ""))]
    for name in INTERPRETERS:
        if found := next((folder / name for folder in folders if _is_there(folder / name)), None):
            installations.append(Path(os.path.realpath(found)).parent.parent)
    for installation in installations:
        yield from _around(installation / "bin", home)


def _around(folder: Path, home: Path | None) -> Iterator[Path]:
    """A folder of programs, and the installation it is part of."""
    yield folder
    if home and folder.is_relative_to(home):
        top = folder.relative_to(home).parts[:1]
        if top and top[0] in TOOLCHAINS:
            yield from (part for name in TOOLCHAINS[top[0]] if _is_there(part := home / top[0] / name))
            if top[0] == ".cargo" and _is_there(home / ".rustup"):
                yield home / ".rustup"
            return
    if folder.name in BIN and any(_is_there(folder.parent / name) for name in LIBRARIES):
        yield folder.parent


def _virtual(name: str) -> Iterator[Path]:
    """A virtual environment and the Python it was made from."""
    folder = _folder(name)
    if folder is None:
        return
    yield folder
    yield from _installation_behind(folder)


def _pythons_in(workspace: Path) -> Iterator[Path]:
    """The installations behind the virtual environments of a workspace.

    A model can write what leads to them, so that only what looks like a Python is believed.
    """
    for name in (".venv", "venv", "env"):
        yield from _installation_behind(workspace / name)


def _installation_behind(virtual: Path) -> Iterator[Path]:
    for name in ("python3", "python"):
        program = Path(os.path.realpath(virtual / "bin" / name))
        prefix = program.parent.parent
        if program.parent.name == "bin" and _is_there(program) and any(prefix.glob("lib/python3*/os.py")):
            yield prefix
            return


def _repository(workspace: Path) -> Iterator[Path]:
    """Where the workspace is a linked worktree: the repository it belongs to, which git must read."""
    link = workspace / ".git"
    try:
        first = link.read_bytes()[:4096].decode("utf-8", "replace") if link.is_file() else ""
    except OSError:
        return
    if first.startswith("gitdir: "):
        own = Path(os.path.realpath(workspace / first[8:].strip()))
        if own.parent.name == "worktrees" and _is_there(own.parent.parent / "HEAD"):
            yield own.parent.parent


def _folder(name: str) -> Path | None:
    path = Path(name)
    return Path(os.path.realpath(path)) if path.is_absolute() and _is_there(path) and path.is_dir() else None


def _is_there(path: Path) -> bool:
    """Path.exists raises for a name too long, and where a folder above may not be entered."""
    with suppress(ValueError):  # a NUL in it
        return os.access(path, os.F_OK)
    return False


def _holds(outer: Path, inner: Path | None) -> bool:
    return inner is not None and inner.is_relative_to(outer)


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    """Those that are there, less what lies below another one or the system."""
    found: list[Path] = []
    for path in sorted({Path(os.path.realpath(each)) for each in paths if _is_there(each)}):
        if not any(path.is_relative_to(each) for each in (*map(Path, SYSTEM), *found)):
            found.append(path)
    return tuple(found)
