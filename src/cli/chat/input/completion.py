"""Completions for the prompt: commands, their arguments, and paths after @."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit.completion import Completion

from ....security.text.sanitize import sanitize
from ....types.file_names import escape_name, read_name
from ..slash.table import COMMANDS, find_command
from ..state import State

OPEN_MENTION = re.compile(r"(?:^|(?<=\s))@(?:\"([^\"\n]*)|([^\s\"]*))\Z")
ELSEWHERE = ("/", "~", "..")  # paths that begin so are not searched for in the workspace
MAX_PATHS = 200  # in one menu
MAX_SCANNED_ENTRIES = 5000  # of one folder


def complete(before: str, state: State) -> Iterator[Completion]:
    """Complete the text before the cursor."""
    if mention := OPEN_MENTION.search(before):
        quoted = mention[1] is not None
        typed = mention[1] if quoted else mention[2]
        for path in map(escape_name, _find_paths(state, read_name(typed))):
            path = path.replace('"', r"\x22")  # which would end the mention
            written = f'@"{path}"' if " " in path else f"@{path}"
            yield Completion(written, -len(mention[0]))
    elif before.startswith("/") and "\n" not in before:
        yield from _complete_command(before, state)


def _complete_command(before: str, state: State) -> Iterator[Completion]:
    name, blank, word = before.partition(" ")
    if not blank:
        commands = {each: command.help for command in COMMANDS for each in (command.name, *command.aliases)}
        for each, about in commands.items():
            if each.startswith(name.lower()):
                yield Completion(each, -len(name), display_meta=about)
        for skill in state.skills.skills.values():
            if f"/{skill.name}".startswith(name) and not find_command(f"/{skill.name}"):
                yield Completion(f"/{skill.name}", -len(name), display_meta=sanitize(skill.description))
    elif (command := find_command(name)) and " " not in word:
        for each in command.complete(state):
            if each.startswith(word):
                yield Completion(each, -len(word))


def _find_paths(state: State, typed: str) -> list[str]:
    """Paths that begin with `typed`, then files of the workspace that match it; folders end in a slash."""
    listed = _list_folder(state.settings.root, typed)
    is_place = not typed or typed.endswith("/") or typed.startswith(ELSEWHERE)
    matches = [] if is_place else state.files.search(typed)
    return list(dict.fromkeys([*listed, *matches]))


def _list_folder(root: Path, typed: str) -> list[str]:
    """Entries of one folder, sorted, as paths that begin with `typed`."""
    folder, _, start = typed.rpartition("/")
    place = folder or ("/" if typed.startswith("/") else "")
    paths: list[str] = []
    try:
        with os.scandir(root / Path(place).expanduser()) as entries:
            for count, entry in enumerate(entries):
                if count >= MAX_SCANNED_ENTRIES or len(paths) >= MAX_PATHS:
                    break
                if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
                    paths.append(typed[: len(typed) - len(start)] + entry.name + ("/" if entry.is_dir() else ""))
    except (OSError, RuntimeError):  # RuntimeError: no user has that home
        return []
    return sorted(paths)
