"""What stands below the line of a call: the end of a failed command, what changed in a file, the to-do list. Pure.

All of it was written by others, so the screens put it behind a mark, as lines of which none is the program's own.
"""

from __future__ import annotations

from ...security.text.sanitize import sanitize
from ...types.lazy_pattern import LazyPattern
from ...types.messages import CHECKS_LEAD, ToolResult
from .colours import Colours
from .diff import get_diff
from .wrap import TAB_COLUMNS

Line = tuple[str, str]  # a text, and the SGR parameters that it is painted with

MAX_FAILURE_LINES = 3
MAX_DIFF_LINES = 20  # below a call; /expand shows all
DIM, BOLD = "2", "1"
CHANGING_TOOLS = ("write", "edit")
TODO_TOOLS = ("todo_write", "todo_read")
TODO = LazyPattern(r"\[([ ~x])\] (.*)")
TODO_STYLES = {" ": "", "~": BOLD, "x": DIM}
HUNK = LazyPattern(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_NOTE = LazyPattern(r"\[.*\]\Z")


def list_details(result: ToolResult, colours: Colours, *, with_diff: bool = True) -> list[Line]:
    """The lines below a call; none for most. `with_diff`: False for a change that the user has just seen."""
    if todos := read_todos(result):
        return [(f"[{mark}] {content}", TODO_STYLES[mark]) for mark, content in todos]
    if result.has_command_failed:
        printed, _ = split_notes(result.own_text.rstrip("\n").split("\n"), result.ending)
        return [(_clean_line(line), DIM) for line in printed[-MAX_FAILURE_LINES:]]
    lines = []
    _, lead, findings = result.own_text.rpartition(f"\n[{CHECKS_LEAD}\n")
    if lead and result.name in CHANGING_TOOLS:  # what the project's checks say of the file
        lines = [(_clean_line(line), colours.error) for line in findings.removesuffix("]").split("\n")]
    if with_diff:
        lines += number_diff(get_diff(result), colours)
    return lines


def read_todos(result: ToolResult) -> list[tuple[str, str]]:
    """The marks and texts of a to-do list; none if the result is something else."""
    if result.name not in TODO_TOOLS or result.kind != "text":
        return []
    entries = [TODO.fullmatch(sanitize(line)) for line in result.text.split("\n")]
    return [(entry[1], entry[2]) for entry in entries if entry]


def number_diff(diff: str, colours: Colours) -> list[Line]:
    """The lines of a diff with their numbers in the new file, and for lines that went those in the old one."""
    styles = {"+": colours.added, "-": colours.removed}
    numbered: list[tuple[str, str, str]] = []
    old = new = 0
    for line in diff.split("\n")[2:-1]:
        mark, text = line[:1], _clean_line(line[1:])
        if hunk := HUNK.match(line):
            if numbered:
                numbered.append(("", "", "..."))
            old, new = int(hunk[1]), int(hunk[2])
        elif mark == "-":
            numbered.append((str(old), mark, text))
            old += 1
        elif mark in ("+", " "):
            numbered.append((str(new), mark, text))
            old, new = old + (mark == " "), new + 1
    columns = max((len(number) for number, _, _ in numbered), default=0)
    return [(f"{number:>{columns}} {mark}{text}", styles.get(mark, DIM)) for number, mark, text in numbered]


def split_notes(lines: list[str], ending: str) -> tuple[list[str], list[str]]:
    """What was printed, and the notes behind it: how the command ended, and why or how to read the rest."""
    last_line = f"[{ending}]"
    if ending and last_line in lines:
        end = len(lines) - 1 - lines[::-1].index(last_line)
        return lines[:end], lines[end:]
    if lines and _NOTE.match(lines[-1]):
        return lines[:-1], lines[-1:]
    return lines, []


def _clean_line(line: str) -> str:
    """The line as one line: a terminal takes more than LF for its end, and what follows would stand without a mark."""
    return sanitize(line).rstrip("\n").replace("\n", " ").expandtabs(TAB_COLUMNS)
