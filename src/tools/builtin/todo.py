"""The tools todo_write, todo_read and done: the model's own list of steps, and how it ends its work."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec.structs import replace

from ...errors import ToolError
from ..sdk.context import ToolContext
from ..sdk.tool import tool

MARKS = {"pending": "[ ]", "in_progress": "[~]", "completed": "[x]"}
MAX_TODOS = 100


class Todo(TypedDict):
    """An entry of the list."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


@tool(risk="low")
def todo_write(todos: Annotated[list[Todo], "The whole list, in order"], ctx: ToolContext) -> str:
    """Replace your to-do list. Keep one for work of several steps."""
    if len(todos) > MAX_TODOS:
        raise ToolError(f"{len(todos)} entries are too many; {MAX_TODOS} at most")
    ctx.wiring.todos[:] = [(entry["content"], entry["status"]) for entry in todos]
    return _format_todos(ctx)


todo_write = replace(  # many models know a tool of this kind by that name
    todo_write, definition=replace(todo_write.definition, aliases=("write_todos",))
)


@tool(risk="low")
def todo_read(ctx: ToolContext) -> str:
    """Show your to-do list."""
    return _format_todos(ctx)


@tool(risk="low")
def done(summary: Annotated[str, "What was done, for the user"], ctx: ToolContext) -> str:
    """Finish: call it when nothing is left to do."""
    ctx.end_run(summary)
    return "Done."


def _format_todos(ctx: ToolContext) -> str:
    return "\n".join(f"{MARKS[status]} {content}" for content, status in ctx.wiring.todos) or "[the list is empty]"
