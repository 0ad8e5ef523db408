"""Finds the files of a workspace that run by themselves when its owner next uses git, a shell or an editor.

These are:
- in every repository of the workspace, at any depth, bare ones, submodules, worktrees and folders that a file `.git` or
  `commondir` names included: hooks, the settings (git_config.py keeps the lines that run nothing), a rebase that runs
  commands, and links, through which git would write elsewhere. A `.git` that leads out of the workspace counts as one;
- the scripts in a folder of the workspace that core.hooksPath names, in a repository or in the user's configuration;
- what RUNNING_FILES matches;
- a link whose name begins with a dot, or that stands for a folder in RUNNING_FILES, unless it leads to a file of the
  workspace.

A folder is read again only if it changed, so that looking costs one stat(2) for each folder of the workspace.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from msgspec import Struct

from ...types.lazy_pattern import LazyPattern
from .git_config import find_value

GIT = ".git"
START_FILES = (  # at the top of a home, or of the workspace: a shell, git, ssh or a login runs them; the bot's settings
    ".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".config/autostart",
    ".config/environment.d", ".config/fish", ".config/git", ".config/plasma-workspace", ".config/systemd",
    ".config/vllm-bot", ".emacs", ".forward", ".gitconfig", ".inputrc", ".kshrc", ".login", ".pam_environment",
    ".procmailrc", ".profile", ".rhosts", ".screenrc", ".shosts", ".ssh", ".tcshrc", ".tmux.conf", ".xinitrc",
    ".xprofile", ".xserverrc", ".xsession", ".xsessionrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc",
)  # fmt: skip
# Paths in lower case, at any depth. The first lines are files by their own names, from the top: what a shell runs on
# entering a folder (.envrc, mise.toml), what editors run (.exrc, .nvim.lua, .dir-locals.el), debuggers and interpreters
# (.gdbinit, .pdbrc), managers of git's hooks (lefthook.yml), containers and assistants (devcontainer.json, .mcp.json),
# servers of languages, notebooks and workspaces (*.code-workspace).
RUNNING_FILES = LazyPattern(
    r"(?s)(?:.*/)?(?:"
    r"\.envrc(?:\.[\w-]+)*|\.autoenv(?:_leave)?(?:\.zsh)?|\.?(?:mise|rtx)(?:\.[\w-]+)*\.toml"
    r"|\.exrc|[._][gnl]?vimrc|\.nvim\.lua|\.lazy\.lua|\.dir-locals(?:-2)?\.el|\.ycm_extra_conf\.py"
    r"|\.(?:gdb|lldb|ocaml)init|\.(?:pdb|irb|pry)rc|\.perldb|\.r(?:profile|environ|data)|\.octaverc|\.erlang|\.ghci|\.iex\.exs"
    r"|\.?lefthook(?:-local)?\.(?:ya?ml|toml|jsonc?)|\.(?:pre-commit-config|overcommit)\.ya?ml|captainhook\.json"
    r"|\.?devcontainer\.json|\.mcp\.json|\.?(?:opencode|crush)\.jsonc?|\.aider\.conf\.ya?ml|\.continuerc\.json"
    r"|\.?rust-analyzer\.toml|\.factorypath|jupyter_\w+_config\.(?:json|py)|[^/]*\.(?:code-workspace|sublime-project)"
    # What editors and assistants keep in folders of their own. Their settings, tasks, hooks, agents and MCP servers
    # have the same few names everywhere, so any folder counts whose name begins with a dot, the next assistant's, too.
    # Below are the folders and files that one program alone has, and those of other version control systems than git.
    r"|\.[^/]+/(?:(?:c_cpp_properties|hooks|launch|mcp|mcp_config|settings|settings\.local|tasks|worktrees)\.json"
    r"|(?:agents|cli-agents|extensions|hooks|mcp|mcpservers|runconfigurations)/.+)"
    r"|\.(?:bsp|externaltoolbuilders|husky|lefthook(?:-local)?|run|vs)/.+|\.(?:config/mise|github/copilot|kiro/settings|mise/tasks)/.+"
    r"|(?:\.codex|\.helix|\.jj/repo|\.vibe|\.?mise)/config\.toml|\.helix/languages\.toml|\.(?:pijul|sl)/config"
    r"|\.(?:hg|sl)/(?:hgrc.*|sharedpath)|\.jj/(?:repo|workspace-config\.toml)|_darcs/prefs/defaults"
    r"|\.vim/coc-settings\.json|\.bzr/branch/branch\.conf|\.continue/config\.(?:json|ts|yaml)"
    r"|\.cursor/environment\.json|\.fleet/run\.json"
    r"|\.idea/(?:workspace|startup|watchertasks)\.xml|\.idea/tools/.+|\.opencode/(?:plugins?|tools?)/.+"
    r")"
)
HOOKS_PATH = "core.hookspath"
CONFIGS = ("config", "config.worktree")
COMMON_DIR = "commondir"
GIT_LINK = LazyPattern(r"gitdir: ([^\s\0](?:[^\r\n\0]*[^\s\0])?)[\r\n]*")  # git takes each blank for a part of the name
COMMON_LINK = LazyPattern(GIT_LINK.pattern.removeprefix("gitdir: "))
GIT_LINKS = {GIT: GIT_LINK, COMMON_DIR: COMMON_LINK}  # files that name a folder with settings of git, and their form
GIT_SETTINGS = ("hooks", *CONFIGS, COMMON_DIR)  # they make git run programs, or look elsewhere
MARKS = ("HEAD", "objects", "refs")
REBASE_TODO = "rebase-merge/git-rebase-todo"
MAX_FILE_BYTES = 10_000_000  # of a file that is recorded, and restored
READABLE = os.R_OK | os.X_OK
RACY_NS = 50_000_000  # a folder that changed so shortly before it was read is read again


class KnownFolder(Struct, frozen=True):
    """`hits`: names in it that may run by themselves, links to such files included."""

    stamp: tuple[int, ...]
    read_ns: int
    folders: tuple[str, ...]
    hits: tuple[str, ...]


class RunningFiles:
    """Those of the folders `tops`. `hooks_path`: core.hooksPath of the user's own configuration of git."""

    def __init__(self, tops: Sequence[Path], hooks_path: str = "") -> None:
        self._tops = tops
        self._hooks_path = hooks_path
        self._folders: dict[str, KnownFolder] = {}

    def list(self, read_config: Callable[[Path], str]) -> Iterator[Path]:
        """All of them, some twice. `read_config` gives the text of a repository's configuration."""
        for folder, hit in self._list_hits():
            path = Path(folder, hit)
            if hit not in (GIT, "HEAD"):
                yield path
                continue
            git = path  # which may be a file or a link
            if hit == "HEAD":  # of a bare repository
                git = path.parent
            if git.is_symlink() or not git.is_dir():
                yield git
                git = self.find_git_folder(git) or Path(os.path.realpath(git))
            if self.is_inside(git):
                yield from self._list_repository(git, path.parent, read_config)

    def _list_repository(self, git: Path, worktree: Path, read_config: Callable[[Path], str]) -> Iterator[Path]:
        """Those of a repository.

        Those of its submodules and worktrees, and of the folders that they share settings with, are among them.
        """
        configured: list[Path] = []
        for folder, folders, files in walk(git):
            names = (*folders, *files)
            yield from (path for name in names if (path := folder / name).is_symlink())  # FETCH_HEAD, logs and the like
            if {*MARKS}.issubset(names):  # else it may be a submodule of that name
                objects = folder / "objects"
                open_folder(objects)
                with suppress(OSError), os.scandir(objects) as entries:  # an lstat of each takes ten times as long
                    yield from [Path(each.path) for each in entries if each.is_symlink()]
                folders[:] = [each for each in folders if each != "objects"]
            if {"HEAD", *GIT_SETTINGS[1:]}.intersection(files):
                configured += filter(None, (folder, self.find_git_folder(folder / COMMON_DIR)))
        yield from self._list_settings(configured, worktree, read_config)

    def _list_settings(
        self, folders: Iterable[Path], worktree: Path, read_config: Callable[[Path], str]
    ) -> Iterator[Path]:
        """The settings in these folders of a repository, then its hooks, wherever the settings have them."""
        hooks = []
        if self._hooks_path:
            hooks.append(worktree / self._hooks_path)
        for folder in folders:
            yield from filter(os.path.lexists, map(folder.joinpath, (*GIT_SETTINGS[1:], REBASE_TODO)))
            hooks.append(folder / GIT_SETTINGS[0])
            if named := find_value(read_config(folder / CONFIGS[0]), HOOKS_PATH):
                hooks.append(worktree / named)
        for folder in filter(self.is_inside, hooks):
            for inner, _folders, files in walk(Path(os.path.realpath(folder))):
                yield from (inner / name for name in files if not name.endswith(".sample"))

    def is_inside(self, path: Path) -> bool:
        with suppress(ValueError):  # it holds a NUL
            return find_top(Path(os.path.realpath(path)), self._tops) is not None
        return False

    def find_git_folder(self, link: Path) -> Path | None:
        """The folder in `tops` that a file of GIT_LINKS names, or None, also for a name of an unusual form."""
        if match := GIT_LINKS.get(link.name, COMMON_LINK).fullmatch(read_text(link)):
            target = Path(os.path.realpath(link.parent / match[1]))
            if find_top(target, self._tops):
                return target
        return None

    def is_harmless_link(self, link: Path) -> bool:
        """Whether it is a link to a file of the workspace, and does not run by itself. Raises OSError."""
        if not link.is_symlink() or not link.name.startswith(".") or link.name == GIT:
            return False
        top = find_top(link, self._tops) or link.parent
        return self.is_inside(link) and link.is_file() and not _is_running(str(link.relative_to(top)))

    def _list_hits(self) -> Iterator[tuple[str, str]]:
        """Each folder with a name in it that may run by itself. Such a link is followed, but none behind it."""
        stack, folders = [(str(top), str(top)) for top in self._tops], self._folders
        self._folders = {}
        while stack:
            top, folder = stack.pop()
            with suppress(OSError):  # it has just gone
                status = os.stat(folder)  # noqa: PTH116 - a Path takes three times as long
                stamp = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
                entry = folders.get(folder)
                if entry is None or entry.stamp != stamp or entry.read_ns - status.st_mtime_ns < RACY_NS:
                    entry = _read_folder(top, folder, stamp)
                self._folders[folder] = entry
                stack += [(top, f"{folder}/{name}") for name in entry.folders]
                for name in entry.hits:
                    yield folder, name
                    path = Path(folder, name)
                    is_followed = path.is_symlink() and name != GIT and os.path.realpath(folder) == folder
                    if is_followed and self.is_inside(path) and os.path.isdir(path):  # noqa: PTH112 - raises nothing
                        stack.append((top, str(path)))


def find_top(path: Path, tops: Iterable[Path]) -> Path | None:
    """The one of these folders that a path is below, or is."""
    return next((top for top in tops if path.is_relative_to(top)), None)


def walk(top: Path, rights: int = READABLE) -> Iterator[tuple[Path, list[str], list[str]]]:
    """As os.walk does, also through folders that a command has closed to us, but perhaps not to git; top is no link."""
    open_folder(top, rights)
    if top.is_symlink():
        return
    for folder, folders, files in os.walk(top):
        for name in folders:
            open_folder(Path(folder, name), rights)
        yield Path(folder), folders, files


def open_folder(folder: Path, rights: int = READABLE) -> None:
    """Give us all rights to a folder that lacks one of `rights`. Anything else, or another user's, is left alone."""
    if not os.access(folder, rights):
        with suppress(OSError):  # such as a link, or it has just gone
            place = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                grant_rights(place)
            finally:
                os.close(place)


def grant_rights(folder_fd: int) -> None:
    """Give us all rights to an open folder, if it is ours."""
    folder = Path(f"/proc/self/fd/{folder_fd}")
    with suppress(PermissionError):
        folder.chmod(stat.S_IMODE(folder.stat().st_mode) | stat.S_IRWXU)


def _read_folder(top: str, folder: str, stamp: tuple[int, ...]) -> KnownFolder:
    open_folder(Path(folder))
    read_ns = time.time_ns()
    folders: list[str] = []
    hits: list[str] = []
    inner = f"{folder}/"[len(top) + 1 :]
    with os.scandir(folder) as entries:
        for entry in entries:
            name, path = entry.name, inner + entry.name
            if name.casefold() == GIT:
                hits.append(name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(name)
            # A link may stand for a folder: where its name begins with a dot, hooks below it run.
            elif name == "HEAD" or _is_running(path) or (entry.is_symlink() and _is_running(f"{path}/hooks/any")):
                hits.append(name)
    marks = (f"{folder}/objects", f"{folder}/{COMMON_DIR}")  # a bare repository has one of them, or a part of one
    if "HEAD" in hits and not any(map(os.path.lexists, marks)):
        hits.remove("HEAD")
    return KnownFolder(stamp, read_ns, tuple(folders), tuple(hits))


def _is_running(path: str) -> bool:
    return RUNNING_FILES.fullmatch(path.casefold()) is not None


def is_running_by_itself(path: str) -> bool:
    """Whether a file of this relative path would run by itself in a workspace; repositories aside."""
    is_started = any(f"{path.casefold()}/".startswith(f"{each}/") for each in START_FILES)
    return is_started or _is_running(path)


def is_run_by_link(path: Path, tops: Iterable[Path]) -> bool:
    """Whether a file, given by its real path, runs by itself under the name that a link gives it.

    Links count that are at the top of one of these folders, or in a hidden folder there, as editors and shells look.
    """
    for top in tops:
        for link in chain(top.glob("*"), top.glob(".*/*")):
            if link.is_symlink() and path.is_relative_to(target := os.path.realpath(link)):
                alias = link.relative_to(top) / path.relative_to(target)
                if is_running_by_itself(str(alias)):
                    return True
    return False


def is_hook(top: Path, path: str, others: Iterable[Path] = ()) -> bool:
    """Whether a file of this relative path is in the folder that core.hooksPath names.

    That of a repository around it, of one in the `others`, or of the user's own configuration of git.
    """
    own = find_hooks_path(Path(os.path.expanduser("~")))  # noqa: PTH111 - raises nothing, as Path's does
    around = [folder for folder in (top / path).parents if folder.is_relative_to(top)]
    for folder in (*around, *others):
        if os.path.lexists(folder / GIT):
            name = find_value(read_text(folder / GIT / CONFIGS[0]), HOOKS_PATH) or own
            if name and (top / path).is_relative_to(os.path.realpath(folder / name)):
                return True
    return False


def find_hooks_path(home: Path | None) -> str:
    """core.hooksPath of the user's own configuration of git; "" if there is none."""
    return (find_value(read_git_config(home), HOOKS_PATH) or "").replace("~/", f"{home}/", 1)


def read_git_config(home: Path | None) -> str:
    """The user's own configuration of git, and the system's before it."""
    files = [Path("/etc/gitconfig"), *(home / name for name in (".config/git/config", ".gitconfig") if home)]
    return "\n".join(map(read_text, files))


def is_part_of_repository(top: Path, path: str) -> bool:
    """Whether a file of this relative path makes git take a folder for a repository, or is one of its settings there.

    Git takes any folder for one that has MARKS, or HEAD and the name of a folder that has the others
    (gitrepository-layout(5)), and obeys its settings.
    """
    parts, names = Path(path).parts, (*MARKS, *GIT_SETTINGS)
    for depth, name in enumerate(parts):
        folder = top.joinpath(*parts[:depth])
        present = {each for each in names if each == name or os.path.lexists(folder / each)}
        if name in names and (present.issuperset(MARKS) or present.issuperset(("HEAD", COMMON_DIR))):
            return True
    return False


def read_file(path: Path) -> bytes | None:
    """The content of a regular file; None for anything else, and for one that is too large."""
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_FILE_BYTES:
            return None
        return path.read_bytes()
    except OSError:
        return None


def read_text(path: Path) -> str:
    return os.fsdecode(read_file(path) or b"")
