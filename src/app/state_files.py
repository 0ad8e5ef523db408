"""What the program remembers between runs: small JSON files in the state folder.

    servers.json   what was learned about each server and model
    allowed.json   the rules that users save with `always`, by workspace
    trusted.json   the workspaces whose skills and commands the user lets in

A file that cannot be read counts as empty. A change is read, made and written under a lock, so that two programs
lose nothing of each other's; the new content replaces the old at once or not at all.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ..config import get_user_file
from ..config.files import replace_json
from ..types.sandbox import ACCESSES

if TYPE_CHECKING:
    from ..negotiation import CallPath
    from ..tools.sources.skills import SkillSet

SERVERS, ALLOWED, TRUSTED = "servers.json", "allowed.json", "trusted.json"
SHARED_FOLDERS = (".agents", ".claude")  # of all agents, in the home folder and in a workspace
SKILL_FOLDERS = ("skills", "commands")
Entries: TypeAlias = "dict[str, Any]"


class ServerMemory:
    """What was learned about each server and model. `folder`: the state folder.

    An entry is valid only for the server version it was learned from: another version may accept what this one
    refused.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / SERVERS

    def find(self, server: str, model: str, get_version: Callable[[], str]) -> CallPath | None:
        """`get_version` is called only if there is an entry, as it may ask the server."""
        if entry := _read(self._file).get(f"{server} {model}"):
            return _read_path(entry, get_version())
        return None

    def list_paths(self, server: str) -> list[tuple[str, str, CallPath]]:
        """All that is known of a server: model, version of the server, path."""
        listed = []
        for key, entry in _read(self._file).items():
            address, _, model = key.partition(" ")
            if address != server or not isinstance(entry, dict):
                continue
            version = entry.get("version")
            if isinstance(version, str) and (path := _read_path(entry, version)):
                listed.append((model, version, path))
        return listed

    def get_version(self) -> int:
        """A number that changes when the file does."""
        try:
            return self._file.stat().st_mtime_ns
        except OSError:
            return 0

    def save(self, server: str, model: str, version: str, path: CallPath) -> None:
        """Add what was learned to what is known of this version. Raises OSError where it cannot be written."""

        def add(entries: Entries) -> Entries:
            saved = _read_path(entries.get(f"{server} {model}"), version)
            joined = saved.join(path) if saved else path
            return entries | {f"{server} {model}": {"version": version, "path": joined.to_dict()}}

        _update(self._file, add)

    def forget(self) -> None:
        """Forget all servers. Raises OSError."""
        self._file.unlink(missing_ok=True)


class RuleMemory:
    """The rules that the user saved with `always` in one workspace. `folder`: the state folder."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._file = folder / ALLOWED
        self._workspace = str(workspace)

    def read(self) -> list[dict[str, Any]]:
        """Entries as in `security.rules`; only those that allow."""
        return self._select(_read(self._file))

    def save(self, rule: dict[str, Any]) -> None:
        """Raises OSError where it cannot be written."""

        def add(entries: Entries) -> Entries:
            saved = self._select(entries)
            if rule in saved:
                return entries
            return {**entries, self._workspace: [*saved, rule]}

        _update(self._file, add)

    def forget(self) -> None:
        """Forget the rules of this workspace. Raises OSError."""
        _update(self._file, lambda entries: {name: each for name, each in entries.items() if name != self._workspace})

    def _select(self, entries: Entries) -> list[dict[str, Any]]:
        rules = entries.get(self._workspace)
        if not isinstance(rules, list):
            return []
        return [each for each in rules if _is_allowing(each)]


class TrustMemory:
    """Whether the user lets in the skills and commands of one workspace. `folder`: the state folder."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._file = folder / TRUSTED
        self._root = workspace
        self._workspace = str(workspace)

    @property
    def is_trusted(self) -> bool:
        return _read(self._file).get(self._workspace) is True

    def save(self, *, is_trusted: bool) -> None:
        """Raises OSError where it cannot be written."""
        _update(self._file, lambda entries: {**entries, self._workspace: is_trusted})

    def load_skills(self, environ: Mapping[str, str]) -> SkillSet:
        """The skills and commands of the user, and of the workspace if the user trusts it."""
        from ..tools.sources.skills import SkillFolder, load_skills  # start-up is measured

        folders: list[SkillFolder] = []
        if settings_file := get_user_file(environ):
            folders.append(SkillFolder(settings_file.parent))
        home = Path(environ.get("HOME", ""))
        if home.is_absolute():
            folders += [SkillFolder(home / name) for name in SHARED_FOLDERS]
        if self.is_trusted:
            folders += [SkillFolder(self._root / name, self._root) for name in SHARED_FOLDERS]
        return load_skills(folders)

    def find_untrusted(self) -> list[str]:
        """The folders of the workspace with skills or commands that are not let in."""
        if self.is_trusted:
            return []
        places = [f"{name}/{kind}" for name in SHARED_FOLDERS for kind in SKILL_FOLDERS]
        return [place for place in places if os.path.isdir(self._root / place)]  # noqa: PTH112 - raises nothing

    def find_untrusted_command(self, name: str) -> str:
        """The folder of the workspace that is not let in and has a skill or command of this name; "": none."""
        if not name.isprintable() or "/" in name or name.startswith("."):
            return ""
        files = (self._root / place / each for place in self.find_untrusted() for each in (f"{name}.md", name))
        for file in files:
            if file.exists():
                return str(file.parent.relative_to(self._root))
        return ""


def _read_path(entry: object, version: str) -> CallPath | None:
    """The path in an entry of servers.json; None if it is of another version, or cannot be read."""
    from ..negotiation import CallPath  # loads the parser: behind the prompt

    if not isinstance(entry, dict) or entry.get("version") != version:
        return None
    try:
        return CallPath.from_dict(entry["path"])
    except (KeyError, TypeError, ValueError):
        return None


def _is_allowing(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.get("action") == "allow"
        and all(isinstance(entry.get(key, ""), str) for key in ("tool", "command", "path", "access"))
        and isinstance(entry.get("exact", False), bool)
        and bool(entry.get("tool"))
        and set(entry) <= {"tool", "action", "command", "path", "exact", "access"}
        and entry.get("access", ACCESSES[0]) in ACCESSES
    )


def _read(file: Path) -> Entries:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def _update(file: Path, change: Callable[[Entries], Entries]) -> None:
    """Replace the entries by what `change` makes of them, making the folder if need be. Raises OSError."""
    before = _read(file)
    if change(before) == before:
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _lock(file.with_suffix(".lock")):
        replace_json(file, change(_read(file)))


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    """Wait for the lock that the file stands for; where the system has no such locks, go on without."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except (ImportError, OSError):  # Windows; a file system without locks
            pass
        yield
    finally:
        os.close(descriptor)
