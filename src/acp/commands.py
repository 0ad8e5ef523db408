"""Our own commands that an editor offers beside those of the user: `/undo` and `/redo`, as in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from ..app.undo import parse_count

UNDO, REDO = "undo", "redo"
COMMANDS: Mapping[str, str] = {
    UNDO: "Undo the last turn, or the last N, including changes to files",
    REDO: "Do again what /undo has undone",
}
COUNT_HINT = "number of turns"


class Command(Struct, frozen=True):
    name: str  # a key of COMMANDS
    turns: int


def parse_command(text: str) -> Command | None:
    """The command that a message is; None for a message to the model. Raises BotError for a wrong number."""
    name, _, count = text.strip().removeprefix("/").partition(" ")
    if not text.startswith("/") or name not in COMMANDS:
        return None
    return Command(name, parse_count(count.strip()))
