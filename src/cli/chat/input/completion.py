"""Completions for the prompt: commands, their arguments, and paths after @."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import Completion

from ....errors import BotError
from ....security.text.sanitize import sanitize
from ....types.file_names import escape_name, read_name
from ..slash.table import COMMANDS, find_command
from ..state import State

OPEN_MENTION = re.compile(r"(?:^|(?<=\s))@(?:\"[^\"\n]*|[^\s\"]*)\Z")
ELSEWHERE = ("/", "~", "..")  # paths that begin so are not searched for in the workspace
MAX_PATHS = 200  # in one menu
MAX_SCANNED_ENTRIES = 5000  # of one folder


def complete(before: str, state: State) -> Iterator[Completion]:
    """Complete the text before the cursor."""
    if mention := OPEN_MENTION.search(before):
        for path in _list_paths(mention[0][1:].removeprefix('"'), state):
            yield Completion(f"@{path}", -len(mention[0]))
    elif before.startswith("/") and "\n" not in before:
        name, blank, word = before.partition(" ")
        if not blank:
            yield from _complete_name(name, state)
        elif (command := find_command(name)) and " " not in word:
            with suppress(BotError):  # such as where conversations are not saved
                yield from (Completion(each, -len(word)) for each in command.complete(state) if each.startswith(word))


def _complete_name(name: str, state: State) -> Iterator[Completion]:
    """The commands of the chat, and of the user, that begin so."""
    for command in COMMANDS:
        for each in (command.name, *command.aliases):
            if each.startswith(name.lower()):
                yield Completion(each, -len(name), display_meta=command.help)
    for skill in state.skills.skills.values():
        if f"/{skill.name}".startswith(name) and not find_command(f"/{skill.name}"):
            yield Completion(f"/{skill.name}", -len(name), display_meta=sanitize(skill.description))


def _list_paths(written: str, state: State) -> Iterator[str]:
    """Paths that begin so, then files of the workspace that match it, as mentions name them; folders end in a slash."""
    typed = read_name(written)
    paths = _list_folder(state.settings.root, typed)
    if typed and not typed.endswith("/") and not typed.startswith(ELSEWHERE):
        paths += state.files.search(typed)
    for path in dict.fromkeys(paths):
        name = escape_name(path).replace('"', r"\x22")  # which would end the mention
        if " " in name:
            name = f'"{name}"'
        yield name


def _list_folder(root: Path, typed: str) -> list[str]:
    """Entries of one folder, sorted, as paths that begin with `typed`."""
    start = typed.rpartition("/")[2]
    place = typed.removesuffix(start)
    try:
        with os.scandir(root / Path(place).expanduser()) as listing:
            entries = islice(listing, MAX_SCANNED_ENTRIES)
            fits = (
                each for each in entries if each.name.startswith(start) and (start or not each.name.startswith("."))
            )
            return sorted(place + each.name + ("/" if each.is_dir() else "") for each in islice(fits, MAX_PATHS))
    except (OSError, RuntimeError):  # RuntimeError: no user has that home
        return []
