"""What a session has changed in files, from its record: any folder will do, under version control or not."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from ..beneath import read_beneath, split_place
from ..config import Settings
from ..session.session import Session
from ..session.state import Write
from ..tools.fs.diff import make_diff
from ..types.file_names import escape_name


def pair_writes(writes: Iterable[Write]) -> list[tuple[Write, Write]]:
    """The first and the last write of each file, by its path."""
    pairs: dict[str, tuple[Write, Write]] = {}
    for write in writes:
        pairs[write.path] = (pairs.get(write.path, (write,))[0], write)
    return [pairs[path] for path in sorted(pairs)]


def relate(path: Path, root: Path) -> Path:
    """The path as seen from `root` if it is in there, else the whole one."""
    return path.relative_to(root) if path.is_relative_to(root) else path


def find_folder(settings: Settings, path: str) -> tuple[Path, str] | None:
    """The workspace or the added folder that a whole path is in, and its path below; None if in neither.

    So it is with one of a session that took place elsewhere.
    """
    top, below = split_place(str(relate(Path(path), settings.root)), settings.root, settings.added)
    return None if below.startswith("/") else (top, below)


def read_now(settings: Settings, path: str) -> bytes | None:
    """What the file holds now; None if there is none, or it is where tools cannot reach it."""
    located = find_folder(settings, path)
    with suppress(OSError):
        return read_beneath(*located)[1] if located else None
    return None


def explain_missing(write: Write) -> str:
    """Why there is no diff of it."""
    if any(each and stat.S_ISDIR(each.mode) for each in (write.before, write.after)):
        return "a folder"
    return "its content was not saved"


def make_session_diff(session: Session, settings: Settings, can_show: Callable[[str], bool]) -> tuple[list[str], str]:
    """The files that the session has changed, and a unified diff to what they hold now.

    Of a file without a diff there is a line that begins with `#`. `can_show`: whether what is in a file may be told, by
    its path below the workspace, or its whole one.
    """
    names, parts = [], []
    for first, _ in pair_writes(session.state.writes):
        name = str(relate(Path(first.path), settings.root))
        before, after = session.read_content(first.before), read_now(settings, first.path)
        shown = escape_name(name)
        if first.before and before is None:
            part = f"# {shown}: {explain_missing(first)}\n"
        elif before == after:
            continue
        elif not can_show(name):
            part = f"# {shown}: changed, and a rule keeps it from being read\n"
        else:
            try:
                old, new = (None if content is None else content.decode() for content in (before, after))
                part = make_diff(name, old, new)
            except UnicodeDecodeError:
                part = f"# {shown}: changed, and not a text file\n"
        names.append(shown)
        parts.append(part)
    return names, "".join(parts)
