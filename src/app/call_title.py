"""A call on one line, for who watches from another program."""

from __future__ import annotations

from collections.abc import Callable

from ..security.text.sanitize import reveal
from ..types.messages import RequestedCall, ToolCall

ABOUT = ("path", "pattern", "prompt", "name")  # the first of these arguments that a call has is in its title
LIST_TITLES = {"todo_write": "Update the to-do list", "todo_read": "Read the to-do list"}
MAX_TITLE_CHARS = 200


def find_title(call: RequestedCall, quote: Callable[[str], str] = str) -> str:
    """What the call does. `quote` makes a command's title of its line."""
    if not isinstance(call, ToolCall):
        return make_title(call.name or "unreadable call")
    if call.name == "exec":
        return quote(make_title(str(call.arguments.get("command", ""))))
    if call.name == "submit_plan":
        return "Submit the plan"
    if call.name in LIST_TITLES:
        return LIST_TITLES[call.name]
    about = next((str(call.arguments[name]) for name in ABOUT if call.arguments.get(name)), "")
    return make_title(f"{call.name} {about}".strip())


def make_title(text: str) -> str:
    """The text on one line, with nothing hidden."""
    return cut_line(reveal(text, on_one_line=True), MAX_TITLE_CHARS)


def cut_line(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    return f"{line[: columns - 3]}..."
