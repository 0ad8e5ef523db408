"""What a command may read and write: derived once a session from the settings, the same for every sandbox.

The workspace is writable and the system readable. Of the home, a command sees only what the user's programs need: the
folders of PATH, the toolchains they belong to, and Python's own installation. Of folders that also keep credentials
(~/.cargo, ~/.local) it sees only parts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from ...types.sandbox import Access
from .repository import find_repository
from .running_files import GIT_SETTINGS, START_FILES, find_top, walk

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
KERNEL = ("/sys/devices/system/cpu",)  # the number of processors
ETC = (  # files and folders that programs read, as glob patterns; none that keeps passwords, keys or users
    "*-release", "ImageMagick-*", "R", "alternatives", "bash.bashrc", "crypto-policies", "debian_version", "fonts",
    "gai.conf", "gitattributes", "gitconfig", "host.conf", "hostname", "hosts", "inputrc", "java", "java-*",
    "ld-musl-*.path", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "locale.alias", "locale.conf", "localtime",
    "login.defs", "magic", "magic.mime", "mailname", "manpath.config", "mime.types", "networks",
    "nsswitch.conf", "perl", "pki/ca-trust", "pki/java", "pki/tls/cert.pem", "pki/tls/certs", "pki/tls/openssl.cnf",
    "profile", "profile.d", "protocols", "python3*", "resolv.conf", "rpc", "services", "shells", "ssh/ssh_config",
    "ssh/ssh_config.d", "ssl/cert.pem", "ssl/certs", "ssl/openssl.cnf", "static", "terminfo", "texmf", "timezone",
    "wgetrc",
)  # fmt: skip
# where /etc/resolv.conf may link to
RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager/resolv.conf")
TOOLCHAINS: Mapping[str, tuple[str, ...]] = {  # folder of the home -> its parts that may be seen; "": all
    **dict.fromkeys((".asdf", ".bun", ".nvm", ".pyenv", ".rbenv", ".rustup", ".sdkman", ".volta"), ("",)),
    ".cargo": ("bin", "config.toml", "env", "git", "registry"),
    ".deno": ("bin",),
    ".local": ("bin", "lib", "share/mise", "share/pipx", "share/pnpm", "share/uv"),
}
BIN = {"bin", "sbin", "shims"}
LIBRARIES = ("lib", "lib64", "libexec", "include")
VIRTUAL_FOLDERS = (".venv", "venv", "env")  # of a workspace
INTERPRETERS = ("python3", "python", "node", "ruby", "java", "go")

MAX_UNREADABLE = 500  # mounts of a command, of 0.2 ms each
KEPT_VARIABLES = frozenset({"COLUMNS", "HOME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "PATH", "TERM", "TZ", "USER"})


class SandboxView(Struct, frozen=True):
    """`home` is a folder that commands must not see, or None if there is none."""

    workspace: Path
    home: Path | None = None
    readable: tuple[Path, ...] = ()  # besides the system; of the user's, perhaps with `~`
    protected: tuple[Path, ...] = ()  # no command changes them, whether they exist or not
    network: bool = False  # whether commands that may change the workspace have the network as well
    hidden: tuple[Path, ...] = ()  # folders of the bot that no command sees
    cache: Path | None = None  # kept for the workspace: the caches of commands that may not change it
    aside: Path | None = None  # where that goes which a command left to run later
    is_unreadable: Callable[[str], bool] | None = None  # whether a rule denies reading a place, see find_place
    warning: str = ""  # about what is not opened to commands, for the user
    added: tuple[Path, ...] = ()  # folders that commands use as the workspace, resolved

    @property
    def tops(self) -> tuple[Path, ...]:
        """The workspace and the added folders."""
        return (self.workspace, *self.added)

    @property
    def network_note(self) -> str:
        return "with the network" if self.network else "no network"

    def has_network(self, access: Access) -> bool:
        return access == "network" or (self.network and access == "write")


def complete_view(view: SandboxView, environment: Mapping[str, str], installations: Iterable[str] = ()) -> SandboxView:
    """The view with the home, and with all that may be read besides the system and what the user names.

    `installations`: prefixes of the Python that runs this.
    """
    workspace, home = view.workspace, _resolve_folder(environment.get("HOME", ""))
    named = [Path(os.path.expanduser(each)) for each in view.readable]  # noqa: PTH111 - raises nothing, as Path's does
    own = [part for each in installations for part in _list_installation(Path(each) / "bin", home)]
    pythons = [base for name in VIRTUAL_FOLDERS for base in _find_base_python(workspace / name)]
    repositories = list(map(find_repository, view.tops))
    warning = "\n".join(each.warning for each in repositories if each.warning)
    shared = [each.folder for each in repositories if each.folder]
    folders = {*own, *_list_programs(environment, home), *pythons, *shared}
    seen = [each for each in folders if not (_contains(each, home) or _contains(each, workspace))]
    return replace(view, home=home, readable=_drop_nested([*named, *seen]), warning=warning)


def select_environment(
    environment: Mapping[str, str], named: Iterable[str] = (), secrets: Iterable[str] = ()
) -> dict[str, str]:
    """The variables that commands get: a few that every program needs, LC_*, and those that the user names.

    None has a value that holds a secret, see drop_secrets.
    """
    names = KEPT_VARIABLES | set(named)
    chosen = {name: value for name, value in environment.items() if name in names or name.startswith("LC_")}
    return drop_secrets(chosen, secrets)


def drop_secrets(environment: Mapping[str, str], secrets: Iterable[str]) -> dict[str, str]:
    """Without the variables whose value contains one of `secrets`, or has the shape of a secret, whatever its name."""
    from ..text.redact import redact  # start-up is measured: not before something may run

    secret_values = tuple(secrets)
    lines = {name: f"{name}={value}" for name, value in environment.items()}
    return {name: value for name, value in environment.items() if lines[name] == redact(lines[name], secret_values)}


def list_etc() -> Iterator[Path]:
    """The files and folders of /etc that commands may read."""
    return (path for name in ETC for path in Path("/etc").glob(name))


def list_system_files(*, has_network: bool) -> Iterator[Path]:
    """What commands may read besides SYSTEM."""
    yield from list_etc()
    yield from map(Path, KERNEL)
    if has_network:
        yield from map(Path, RESOLVER)


def list_protected(view: SandboxView) -> list[Path]:
    """The protected paths in the workspace and the added folders as they are now, whether they exist or not."""
    paths = [path for path in view.protected if find_top(path, view.tops)]
    folders = [*view.tops]
    if view.home and find_top(view.home, view.tops):
        folders.append(view.home)
    paths += [folder / name for folder in folders for name in START_FILES]
    for top in view.tops:
        git = top / ".git"
        if os.path.lexists(git):
            paths += [git, *(git / name for name in GIT_SETTINGS)]
    return list(dict.fromkeys(paths))


def list_unreadable(view: SandboxView) -> Iterator[Path]:
    """The files and folders of the workspace and the added ones that a rule denies to `read`, as they are now.

    Links aside. Raises OSError if there are too many to be hidden.
    """
    count = 0
    if view.is_unreadable is None:
        return
    for folder, folders, files in chain.from_iterable(map(walk, view.tops)):
        prefix = f"{folder}/".removeprefix(f"{view.workspace}/")
        if ".git" in folders:
            folders.remove(".git")
        for name in (*(f"{each}/" for each in folders), *files):
            path = Path(folder, name)
            if view.is_unreadable(prefix + name) and not path.is_symlink():
                count += 1
                if count > MAX_UNREADABLE:
                    raise OSError(f"a rule denies reading more than {MAX_UNREADABLE} files; name their folder in it")
                if name.endswith("/"):
                    folders.remove(name[:-1])
                yield path


def _list_programs(environment: Mapping[str, str], home: Path | None) -> Iterator[Path]:
    """The folders that the user's programs need, of those that exist."""
    folders = [each for each in map(_resolve_folder, environment.get("PATH", "").split(os.pathsep)) if each]
    for folder in folders:
        yield from _list_installation(folder, home)
    virtual = _resolve_folder(environment.get("VIRTUAL_ENV", ""))
    installations: list[Path] = []
    if virtual:
        installations += [virtual, *_find_base_python(virtual)]
    for name in INTERPRETERS:
        if program := next((folder / name for folder in folders if _exists(folder / name)), None):
            installations.append(Path(os.path.realpath(program)).parent.parent)
    for installation in installations:
        yield from _list_installation(installation / "bin", home)


def _list_installation(folder: Path, home: Path | None) -> Iterator[Path]:
    """A folder of programs, and the installation that it belongs to."""
    yield folder
    if home and folder.is_relative_to(home):
        top = folder.relative_to(home).parts[:1]
        if top and top[0] in TOOLCHAINS:
            yield from (part for name in TOOLCHAINS[top[0]] if _exists(part := home / top[0] / name))
            if top[0] == ".cargo" and _exists(home / ".rustup"):
                yield home / ".rustup"
            return
    if folder.name in BIN and any(_exists(folder.parent / name) for name in LIBRARIES):
        yield folder.parent


def _find_base_python(virtual: Path) -> Iterator[Path]:
    """The installation that a virtual environment was made from.

    A model can write the link to it in the workspace, so only a folder that looks like a Python counts.
    """
    for name in ("python3", "python"):
        program = Path(os.path.realpath(virtual / "bin" / name))
        prefix = program.parent.parent
        if program.parent.name == "bin" and _exists(program) and any(prefix.glob("lib/python3*/os.py")):
            yield prefix
            return


def _resolve_folder(name: str) -> Path | None:
    path = Path(name)
    return Path(os.path.realpath(path)) if path.is_absolute() and _exists(path) and path.is_dir() else None


def _exists(path: Path) -> bool:
    """Path.exists raises for a name that is too long, and in a folder that may not be entered."""
    with suppress(ValueError):  # a NUL in it
        return os.access(path, os.F_OK)
    return False


def _contains(outer: Path, inner: Path | None) -> bool:
    return inner is not None and inner.is_relative_to(outer)


def _drop_nested(paths: Iterable[Path]) -> tuple[Path, ...]:
    """The paths that exist, except those below another one or below the system."""
    tops = [*map(Path, SYSTEM)]
    for path in sorted({Path(os.path.realpath(each)) for each in paths if _exists(each)}):
        if not any(path.is_relative_to(each) for each in tops):
            tops.append(path)
    return tuple(tops[len(SYSTEM) :])
