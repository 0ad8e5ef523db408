"""Undo and redo for every front end: how files are restored, and what a user is told of it."""

from __future__ import annotations

import errno
import os
import stat
from functools import cache, partial
from pathlib import Path

from ..agent.dispatch import RECORDING_TOOLS
from ..beneath import read_beneath
from ..config import Settings
from ..errors import BotError, ToolError
from ..security.text.sanitize import sanitize
from ..session.session import Session, Undone
from ..session.snapshots import ReadFile, RestoreFile
from ..tools.fs import paths
from ..tools.fs.text_files import TextFiles
from ..types.file_names import escape_name
from ..types.messages import ToolCall
from .call_title import cut_line
from .changes import find_folder, relate
from .toolset import make_tools

MAX_TITLE_CHARS = 80
SUMMARY_UNDONE = "Undone: the summary. The older part of the conversation is back."
SUMMARY_REDONE = "Done again: the summary of the older part."
RISKY = "These calls may have changed something else, which is not undone:"


def make_reader(settings: Settings, files: TextFiles) -> ReadFile:
    """A function that gives the state and the content of what is at a path, as the tools read it."""

    def read(path: Path) -> tuple[os.stat_result, bytes | None]:
        top, below = _find_folder(settings, path)
        status, content = read_beneath(top, below)
        if not stat.S_ISREG(status.st_mode):
            return status, content
        try:
            file, status = files.open(paths.make_target(str(path), top, below))
        except ToolError as error:
            raise OSError(error.message) from error
        with file:
            return status, file.read()

    return read


def make_restorer(settings: Settings, files: TextFiles) -> RestoreFile:
    """A function that restores a file as a tool would write it: only in the workspace and added folders."""

    def put(path: Path, content: bytes | None, mode: int) -> None:
        top, below = _find_folder(settings, path)
        try:
            target = paths.make_target(str(path), top, below)  # a link is not followed
            paths.put_back(target, content, mode, settings.files, files.replace)
        except ToolError as error:
            raise OSError(error.message) from error

    return put


def _find_folder(settings: Settings, path: Path) -> tuple[Path, str]:
    """See find_folder. Raises OSError where tools cannot reach the path."""
    if located := find_folder(settings, str(path)):
        return located
    raise OSError(errno.EXDEV, "it is outside the workspace", str(path))


def parse_count(word: str) -> int:
    """The number of turns that a command is for; 1 if none is named. Raises BotError."""
    if word and not (word.isdecimal() and int(word)):
        raise BotError(f"{sanitize(word)} is not a number of turns.", "/undo 2 undoes the last two.")
    return int(word or 1)


def describe_nothing(verb: str, count: int) -> str:
    """There is nothing to undo or to redo, after `count` turns."""
    return f"There is nothing more to {verb}." if count else f"There is nothing to {verb}."


def describe_undone(undone: Undone, root: Path) -> str:
    return _describe(undone, root, "Undone", SUMMARY_UNDONE)


def describe_redone(redone: Undone, root: Path) -> str:
    return _describe(redone, root, "Done again", SUMMARY_REDONE)


def _describe(done: Undone, root: Path, what: str, summary: str) -> str:
    """`summary`: what is said of a turn that has no question."""
    lines = [
        f"{what}: {shorten(done.question)}" if done.question else summary,
        *(f"  restored {make_relative(path, root)}" for path in done.files.restored),
        *(f"  removed {make_relative(path, root)}" for path in done.files.removed),
        *(f"! left {make_relative(path, root)} alone: {sanitize(why)}" for path, why in done.files.skipped),
    ]
    return "\n".join(lines)


def list_risky_calls(settings: Settings, session: Session, undone: Undone, *, is_held: bool) -> list[ToolCall]:
    """The calls that may have changed something that undo does not restore. `is_held`: a sandbox held commands."""
    load_tools = cache(partial(make_tools, settings))  # reads the files of tools and skills

    def may_change_more(call: ToolCall) -> bool:
        if call.name in RECORDING_TOOLS and session.path:
            return False
        if call.name == "exec" and is_held and call.arguments.get("access") in (None, "read"):
            return False
        return load_tools().risk(call.name) == "high"

    return [call for call in undone.calls if call.id in undone.watched or may_change_more(call)]


def shorten(text: str) -> str:
    return cut_line(" ".join(sanitize(text).split()), MAX_TITLE_CHARS)


def make_relative(path: str, root: Path) -> str:
    return escape_name(relate(Path(path), root))
