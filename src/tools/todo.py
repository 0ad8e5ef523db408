"""What a model keeps for itself while it works, and how it says that it is through: todo_write, todo_read, done."""

from __future__ import annotations

from typing import Annotated

from ..errors import ToolError
from .context import ToolContext
from .registry import tool

MARKS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}
MOST = 100  # entries


@tool(risk="low")
def todo_write(
    todos: Annotated[
        list[dict[str, str]], 'All entries: {"content": ..., "status": "pending", "in_progress" or "completed"}'
    ],
    ctx: ToolContext,
) -> str:
    """Replace your list of what there is to do. Keep one for work of several steps, and keep it up to date."""
    if len(todos) > MOST:
        raise ToolError(f"{len(todos)} entries are too many; {MOST} at most")
    for number, entry in enumerate(todos, 1):
        _refuse_wrong(number, entry)
    ctx.todos[:] = [(entry["content"], entry.get("status", "pending")) for entry in todos]
    return _shown(ctx)


@tool(risk="low")
def todo_read(ctx: ToolContext) -> str:
    """Show your list of what there is to do."""
    return _shown(ctx)


@tool(risk="low")
def done(summary: Annotated[str, "What was done, for the user"], ctx: ToolContext) -> str:
    """End your work with a summary, when nothing is left to do."""
    ctx.end_run(summary)
    return "Done."


def _refuse_wrong(number: int, entry: dict[str, str]) -> None:
    if not entry.get("content", "").strip() or not entry.keys() <= {"content", "status"}:
        raise ToolError(f"todo {number} is not of the form {{content, status}}")
    if entry.get("status", "pending") not in MARKS:
        raise ToolError(f"todo {number}: the status {entry['status'][:40]!a} is none of {', '.join(MARKS)}")


def _shown(ctx: ToolContext) -> str:
    return "\n".join(f"{MARKS[status]} {content}" for content, status in ctx.todos) or "The list is empty."
