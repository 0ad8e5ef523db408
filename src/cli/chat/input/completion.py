"""Completions for the prompt: commands, their arguments, and paths after @."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..slash.table import COMMANDS, find
from ..state import State

MENTION = re.compile(r"(?:^|(?<=\s))@(?:\"([^\"\n]*)|([^\s\"]*))\Z")
MOST = 200  # paths offered at once
LOOKED_AT = 5000  # entries of one folder


class Completion(NamedTuple):
    """`start` characters before the cursor are replaced by `text`."""

    text: str
    start: int
    about: str = ""


def completions(before: str, state: State) -> Iterator[Completion]:
    """Completions for the text before the cursor."""
    if mention := MENTION.search(before):
        quoted = mention[1] is not None
        typed = mention[1] if quoted else mention[2]
        for path in _paths(state.settings.root, typed):
            written = f'@"{path}"' if " " in path else f"@{path}"
            yield Completion(written, len(mention[0]))
    elif before.startswith("/") and "\n" not in before:
        yield from _command_words(before, state)


def _command_words(before: str, state: State) -> Iterator[Completion]:
    name, blank, word = before.partition(" ")
    if not blank:
        for command in COMMANDS:
            for each in (command.name, *command.aliases):
                if each.startswith(name.lower()):
                    yield Completion(each, len(name), command.help)
    elif (found := find(name)) and " " not in word:
        for each in found.complete(state):
            if each.startswith(word):
                yield Completion(each, len(word))


def _paths(root: Path, typed: str) -> list[str]:
    """Sorted paths that begin with what was typed; folders end in a slash."""
    folder, _, start = typed.rpartition("/")
    place = folder or ("/" if typed.startswith("/") else "")
    found: list[str] = []
    try:
        with os.scandir(root / Path(place).expanduser()) as entries:
            for count, entry in enumerate(entries):
                if count >= LOOKED_AT or len(found) >= MOST:
                    break
                if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
                    found.append(typed[: len(typed) - len(start)] + entry.name + ("/" if entry.is_dir() else ""))
    except (OSError, RuntimeError):  # RuntimeError: nobody has that home
        return []
    return sorted(path for path in found if path.isprintable())
