"""Adds the content of each file that a message mentions as `@path`, up to MAX_CONTENT_BYTES for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ....types.file_names import escape_name, read_name

MENTION = re.compile(r"(?:^|(?<=[\s(]))@(?:\"([^\"\n]+)\"|([^\s\"]+))")
MAX_CONTENT_BYTES = 50_000  # of all files of one message; the model can read the rest
MAX_FOLDER_ENTRIES = 200  # of a folder


def add_mentioned_files(text: str, root: Path) -> str:
    """The message, followed by the content of each file it mentions. Other words with @ stay as they are."""
    from ....types.special_tokens import neutralize_with_note  # start-up is measured

    parts, left, seen = [text], MAX_CONTENT_BYTES, set()
    for path, name in _find_mentions(text, root):
        if path in seen:
            continue
        seen.add(path)
        try:
            part, used = _read_content(path, name, left)
        except OSError as error:
            part, used = f"{name} cannot be read: {error.strerror}", 0
        parts.append(neutralize_with_note(part))
        left -= used
    return "\n\n".join(parts)


def _find_mentions(text: str, root: Path) -> Iterator[tuple[Path, str]]:
    """Yield each existing path, and how it is written, without punctuation after it."""
    for found in MENTION.finditer(text):
        written = found[1] or found[2]
        for name in (written, written.rstrip(".,;:!?)")):
            if name and (path := _resolve(root, name)):
                yield path, name
                break


def _resolve(root: Path, name: str) -> Path | None:
    try:
        for each in (name, read_name(name)):
            if (path := root / Path(each).expanduser()).exists():
                return path
        return None
    except (OSError, RuntimeError):  # too long for a path; no user has that home
        return None


def _read_content(path: Path, name: str, room: int) -> tuple[str, int]:
    """Returns the text for a file or folder, and how many of the `room` bytes it takes. Raises OSError."""
    if path.is_dir():
        entries = sorted(escape_name(each.name) + ("/" if each.is_dir() else "") for each in path.iterdir())
        more = f"\n({len(entries) - MAX_FOLDER_ENTRIES} more)" if len(entries) > MAX_FOLDER_ENTRIES else ""
        return f"In the folder {name}:\n" + "\n".join(entries[:MAX_FOLDER_ENTRIES]) + more, 0
    if not path.is_file():
        return f"{name} is not a file.", 0
    with path.open("rb") as file:
        data = file.read(max(room, 0) + 1)
    if b"\0" in data:
        return f"{name} is not text ({path.stat().st_size:,} bytes).", 0
    cut = len(data) > room
    text = data[:room].decode("utf-8", "replace")
    note = f"\n[cut: the file has {path.stat().st_size:,} bytes; read it for the rest]" if cut else ""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"Content of {name}:\n{fence}\n{text}\n{fence}{note}", min(len(data), room)
