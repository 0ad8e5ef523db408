"""exec: one command line, run by the shell."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from ..process.run import run
from ..sdk.context import ToolContext
from ..sdk.output_store import Stored
from ..sdk.tool import tool

SHELL = "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


@tool(risk="high")
def exec(command: Annotated[str, "Command line for the shell"], ctx: ToolContext) -> str | Stored:
    """Run a shell command in the workspace and show its output and exit code."""
    return run([SHELL, "-c", "--", command], ctx)
